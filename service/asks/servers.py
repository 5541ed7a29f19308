"""Servers of a model: their load limits, pauses, and the choice of the next server.

litellm's Router is not used: it counts requests in callbacks, which cost a good part of each call, it never
rests a server that refuses connections, and it would be a second owner of retries.
"""

import asyncio
import logging
import math
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from service.asks import request as kinds
from service.asks.faults import classify
from service.asks.money import Price
from service.asks.request import Answer, Fault, Request
from service.errors import PrerequisiteError

_LOG = logging.getLogger("tagrpo.servers")

FAILURES = 3
"""A server rests after so many failures without an answer between them."""
REST_S = 10.0
"""How long a server rests before it gets another request."""
LONGEST_PAUSE_S = 300.0
START = 16
"""Requests in flight at first; every answer adds one until the first refusal."""
SHORTEST_TIMEOUT_S = 120.0

Serving = dict[str, Any]
"""A server's description of itself, as far as it gives one.

`engine` is the owner in the list of models (vllm, sglang, ...), `version` what vLLM's `/version` says, `root`
the weights behind the served name, `max_model_len` the longest prompt and response together.
"""


class Endpoint(Protocol):
    """Sends single attempts and decides how many are in flight; `ask` owns everything else.

    `price` None: not known. `engine` describes weights and engine of a model on this machine. `waits_for`
    says what is in flight, `notices` what the user should know of the answers so far, and `enforces_schema`
    whether every reply keeps to the schema of its request. `generated_tokens` counts those of unfinished
    responses too, where they are known.
    """

    price: Price | None = Price(0.0, 0.0)
    enforces_schema: bool = False

    @property
    def model(self) -> str: ...

    @property
    def engine(self) -> Mapping[str, Any] | None:
        return None

    @property
    def waits_for(self) -> str:
        return ""

    @property
    def generated_tokens(self) -> int:
        return 0

    @property
    def notices(self) -> Sequence[str]:
        return ()

    def takes(self, field: str) -> bool:
        """Return whether seed, n or response_format reaches the model, as far as is known."""
        return True

    @property
    def description(self) -> dict[str, Any]:
        """What shapes responses besides prompt and sampling: part of a run's key."""
        assert self.engine is not None
        return {"sampler": self.engine["engine"], "identity": self.model, **self.engine}

    def check(self, request: Request) -> None:
        """Refuse a request if a part of it that shapes responses would not reach the model."""
        return

    async def open(self) -> None:
        """Load and check everything that the first request needs."""
        return

    def slot(self, stopping: asyncio.Event) -> AbstractAsyncContextManager[Any]:
        """Wait for a free slot in order of arrival and hold it; yield the server to use.

        Returns at once after `stopping` is set, so that no request waits forever.
        """
        ...

    async def send(self, request: Request, server: Any) -> Answer:
        """Send one attempt; raise a `Fault` if it failed."""
        ...

    def wake(self) -> None:
        """Let everyone who waits for a slot look at `stopping` again."""
        return

    async def close(self) -> None:
        """End what `open` began."""
        return


@dataclass(eq=False)
class Server:
    """A server and its current state.

    At most `limit` requests are in flight: the limit grows with the answers and is halved when the server
    refuses a request for its load. Latency decides nothing: hard problems take long on an idle server too.
    A server with a `fault` rests from time to time, and gets one request at a time until it answers.
    """

    base: str | None
    where: str
    max_concurrency: int
    limit: float = START
    in_flight: int = 0
    failures: int = 0
    fault: Fault | None = None
    paused_until: float = -math.inf
    _halved_at: float = -math.inf

    def grow(self) -> None:
        if self.in_flight >= self.limit / 2:  # otherwise the limit kept no request waiting
            never_halved = self._halved_at < 0
            self.limit = min(self.max_concurrency, self.limit + (1 if never_halved else 1 / self.limit))

    def adapt(self, fault: Fault, began: float, now: float) -> None:
        """Halve the limit if the server refuses a request for its load.

        Requests that were in flight at the last decrease prove nothing new.
        """
        is_overloaded = fault.kind == kinds.RATE_LIMITED or fault.status in (503, 529)
        if is_overloaded and began > self._halved_at:
            self.limit, self._halved_at = max(1.0, self.limit / 2), now


class ServedEndpoint(Endpoint):
    """A model at servers; each request goes to the least loaded one. One event loop and one run at a time.

    A failing server rests if there are others; a single server never does.
    """

    def __init__(self, servers: Sequence[Server], timeout_s: float | None, tokens_per_s: float) -> None:
        """Set up. An attempt may take `timeout_s` up to its last byte; with None `SHORTEST_TIMEOUT_S` plus
        the time of the longest response at `tokens_per_s`.
        """
        self.servers = tuple(servers)
        self.serving: Serving = {}
        self._timeout_s, self._tokens_per_s = timeout_s, tokens_per_s
        self._turn, self._room = asyncio.Lock(), asyncio.Event()

    @abstractmethod
    async def look(self, server: Server) -> Serving | Fault:
        """Return what a server serves, or the fault that a request would get."""

    @abstractmethod
    async def complete(self, request: Request, server: Server) -> Answer:
        """Send one attempt; any exception says what went wrong."""

    @asynccontextmanager
    async def slot(self, stopping: asyncio.Event) -> AsyncIterator[Server]:
        """Wait for a server with room, in the order of asking; take any server after `stopping` is set."""
        async with self._turn:
            while (server := self.servers[0] if stopping.is_set() else self._least_loaded()) is None:
                self._room.clear()
                await self._room.wait()
            server.in_flight += 1
        try:
            yield server
        finally:
            server.in_flight -= 1
            self._room.set()

    def wake(self) -> None:
        self._room.set()

    def _least_loaded(self) -> Server | None:
        """Return the least loaded server with room. If all fail, none rests, so that the run ends."""
        now, all_fail = time.monotonic(), all(server.fault for server in self.servers)
        roomy = [
            server
            for server in self.servers
            if (all_fail or now >= server.paused_until)
            and server.in_flight < (1 if server.fault and not all_fail else int(server.limit))
        ]
        return min(roomy, key=lambda server: server.in_flight / server.limit, default=None)

    async def send(self, request: Request, server: Server) -> Answer:
        timeout_s, began = self._timeout_s, time.monotonic()
        if timeout_s is None:
            timeout_s = SHORTEST_TIMEOUT_S + request.max_tokens / self._tokens_per_s
        try:
            if server.fault is not None and (fault := self._compare(server, await self.look(server))):
                raise fault
            # Not `asyncio.wait_for`: in Python 3.11 it drops a cancellation that comes with the answer.
            async with asyncio.timeout(timeout_s):
                answer = await self.complete(request, server)
        except Exception as error:
            raise self._note_failure(server, classify(error), began) from None
        server.grow()
        if server.fault is not None:
            _LOG.warning("%s answers again", server.where)
        server.failures, server.fault = 0, None
        return answer

    def _note_failure(self, server: Server, fault: Fault, began: float) -> Fault:
        """Adapt to a fault of a request sent at `began`; return what it means for the request.

        A request that one of several servers refuses may be answered by another.
        """
        server.adapt(fault, began, time.monotonic())
        if fault.retry_after_s:
            self._pause(server, min(fault.retry_after_s, LONGEST_PAUSE_S))
        if len(self.servers) == 1:
            return fault
        refuses = fault.kind in kinds.FATAL
        if (refuses or fault.kind in kinds.RETRIED) and time.monotonic() >= server.paused_until:
            server.failures += 1
            if refuses or server.fault or server.failures >= FAILURES:
                self._rest(server, fault)
        all_refuse = all(each.fault and each.fault.kind in kinds.FATAL for each in self.servers)
        text = fault.message if server.where in fault.message else f"{server.where}: {fault.message}"
        kind = kinds.SERVER_ERROR if refuses and not all_refuse else fault.kind
        return replace(fault, kind=kind, message=text)

    async def survey(self) -> None:
        """Look at all servers and compare what they serve; those that cannot be reached rest."""
        looks = zip(self.servers, await asyncio.gather(*map(self.look, self.servers)), strict=True)
        failing = [(server, fault) for server, look in looks if (fault := self._compare(server, look))]
        if fatal := [fault.message for _, fault in failing if fault.kind in kinds.FATAL]:
            raise PrerequisiteError(fatal[0])
        if len(failing) == len(self.servers):
            why = "; ".join(each.message for _, each in failing)
            raise PrerequisiteError(f"no server answers: {why}. Check the address and the network.")
        for server, fault in failing:
            self._rest(server, fault)

    def _compare(self, server: Server, look: Serving | Fault) -> Fault | None:
        if isinstance(look, Fault):
            return look
        differences = [
            f"{name} {value} instead of {self.serving[name]}"
            for name, value in look.items()
            if self.serving.setdefault(name, value) != value
        ]
        if not differences:
            return None
        return Fault(
            kinds.UNKNOWN_MODEL,
            f"{server.where} differs from the other servers: {'; '.join(differences)}. All servers "
            "of a run must serve the same model: start it like the others, or remove its address.",
        )

    def _rest(self, server: Server, fault: Fault) -> None:
        is_new, server.fault = server.fault is None, fault
        if is_new:
            answering = sum(each.fault is None for each in self.servers)
            text = "%s is paused and retried periodically; %d of %d servers answer. Error: %s"
            _LOG.warning(text, server.where, answering, len(self.servers), fault)
        self._pause(server, REST_S)

    def _pause(self, server: Server, seconds: float) -> None:
        server.paused_until = max(server.paused_until, time.monotonic() + seconds)
        asyncio.get_running_loop().call_later(seconds + 0.001, self._room.set)

    @property
    def waits_for(self) -> str:
        """Description of the in-flight requests by server."""
        return ", ".join(
            f"{server.in_flight} request{'s' * (server.in_flight > 1)} at {server.where}"
            for server in self.servers
            if server.in_flight
        )
