"""What `ask` needs of whatever answers: a provider, a server, or a model in this process."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from service.asks.money import Price
from service.asks.request import Reply, Request


class Endpoint(Protocol):
    """Answers single requests. `price` None: not known.

    `ask` owns retries, pauses between attempts, money and storage; an endpoint sends one attempt at a time
    and decides how many are in flight.
    """

    @property
    def price(self) -> Price | None:
        """Of a token; None: not known."""
        ...

    @property
    def model(self) -> str:
        """As in `Request.model`."""
        ...

    async def open(self) -> None:
        """Load and check what the first request needs.

        Raises:
            PrerequisiteError: the endpoint cannot be used; the message says what to do.
        """
        ...

    def slot(self, stopping: asyncio.Event) -> AbstractAsyncContextManager[Any]:
        """Wait for room, in the order of asking, and hold it; yield the server to send to.

        Returns at once after `stopping` is set, so that nobody waits for ever.
        """
        ...

    async def send(self, request: Request, server: Any) -> Reply:
        """Send one attempt.

        Raises:
            Fault: it failed.
        """
        ...

    def wake(self) -> None:
        """Let everyone who waits for a slot look at `stopping` again."""
        ...

    @property
    def waits_for(self) -> str:
        """What is in flight, in words, for the warning after minutes without an answer."""
        ...

    @property
    def generated_tokens(self) -> int | None:
        """Tokens generated so far, those of unfinished responses included; None: nobody knows."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of the answers so far, such as a field that the server refused."""
        ...

    async def close(self) -> None: ...
