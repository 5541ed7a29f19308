"""The interface between `ask` and a provider, a server, or a model in this process."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from service.asks.money import Price
from service.asks.request import Reply, Request


class Endpoint(Protocol):
    """Sends single attempts and decides how many are in flight; `ask` owns everything else.

    `price` None: not known. `engine` describes weights and engine of a model on this machine. `waits_for`
    says what is in flight, `notices` what the user should know of the answers so far, and `enforces_schema`
    whether every reply keeps to the schema of its request. `generated_tokens` counts those of unfinished
    responses too, where they are known.
    """

    price: Price | None = Price(0.0, 0.0)

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

    @property
    def enforces_schema(self) -> bool:
        return False

    def takes(self, field: str) -> bool:
        """Return whether seed, n or response_format reaches the model, as far as is known."""
        return True

    @property
    def description(self) -> dict[str, Any]:
        """What shapes responses besides prompt and sampling: part of a run's key."""
        assert self.engine is not None
        return {"sampler": self.engine["engine"], "identity": self.model, **self.engine}

    @property
    def local_engine(self) -> dict[str, Any] | None:
        """What tells apart a model on this machine; None for a remote model."""
        return None if self.engine is None else self.description

    def check(self, request: Request) -> None:
        """Refuse a request if a part of it that shapes responses would not reach the model."""
        return

    async def open(self) -> None:
        """Load and check everything that the first request needs."""
        ...

    def slot(self, stopping: asyncio.Event) -> AbstractAsyncContextManager[Any]:
        """Wait for a free slot in order of arrival and hold it; yield the server to use.

        Returns at once after `stopping` is set, so that nobody waits for ever.
        """
        ...

    async def send(self, request: Request, server: Any) -> Reply:
        """Send one attempt; raise a `Fault` if it failed."""
        ...

    def wake(self) -> None:
        """Let everyone who waits for a slot look at `stopping` again."""
        return

    async def close(self) -> None:
        """End what `open` began."""
        return
