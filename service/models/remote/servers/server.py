"""One server of an endpoint: its requests in flight, how it fares, and whether it is left alone."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.models.remote.fates import Fates
from service.models.remote.faults import Fault
from service.models.remote.servers.limit import AdaptiveLimit
from service.runs.watchdog import Watchdog

if TYPE_CHECKING:
    from service.models.remote.backend import Backend


@dataclass(eq=False)
class Server:
    """A server, asked through litellm; a provider's is one too.

    `where` is its address in words. While `fault` is set it is left alone because of that, `alone_s` long
    before it is tried again. `failures` counts the requests that met a fault of its own since its last
    answer. `on_trial` it gets one request at a time: it was let back since it can be reached, and has
    answered none. `turn` is when it was asked last, in requests; `lost`: it was told that it is left alone,
    and not yet that it is back.
    """

    backend: "Backend"
    limit: AdaptiveLimit
    fates: Fates
    where: str
    watchdog: Watchdog | None = None
    in_flight: int = 0
    turn: int = 0
    failures: int = 0
    fault: Fault | None = None
    alone_s: float = 0.0
    on_trial: bool = False
    lost: bool = False
    returning: asyncio.Task[None] | None = field(default=None, repr=False)
    trying: asyncio.Task[Fault | None] | None = field(default=None, repr=False)

    @property
    def load(self) -> float:
        """Requests in flight as a share of what it takes."""
        return self.in_flight / self.limit.value

    def is_open(self, now: float) -> bool:
        """Whether another request may start."""
        room = 1 if self.on_trial else self.limit.value
        return self.in_flight < room and self.limit.pause_s(now) == 0
