"""The interface between `ask` and a provider, a server, or a model in this process."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from service.asks.money import Price
from service.asks.request import Reply, Request


class Endpoint(Protocol):
    """Answers single requests.

    `ask` owns retries, pauses between attempts, money and storage; an endpoint sends one attempt at a time
    and decides how many are in flight.

    Attributes:
        price: Of a token; None: not known.
        model: As in `Request.model`.
        waits_for: What is in flight, in words, for the warning after minutes without an answer.
        generated_tokens: Tokens so far, those of unfinished responses included; None: not known.
        notices: What the user should know of the answers so far, such as a field that the server refused.
    """

    @property
    def price(self) -> Price | None: ...
    @property
    def model(self) -> str: ...
    @property
    def waits_for(self) -> str: ...
    @property
    def generated_tokens(self) -> int | None: ...
    @property
    def notices(self) -> Sequence[str]: ...

    async def open(self) -> None:
        """Load and check everything that the first request needs.

        Raises:
            PrerequisiteError: the endpoint cannot be used; the message says what to do.
        """
        ...

    def slot(self, stopping: asyncio.Event) -> AbstractAsyncContextManager[Any]:
        """Wait for a free slot in order of arrival and hold it; yield the server to use.

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

    async def close(self) -> None: ...
