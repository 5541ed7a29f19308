"""Items that come one by one and are written together: many of them in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Grouped(Generic[Item, Result]):
    """Hands `handle` all items that came while it was busy with the last ones; one event loop."""

    def __init__(self, handle: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]) -> None:
        """Take the function, which returns a result for each item."""
        self._handle = handle
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def do(self, item: Item) -> Result:
        """Return what came of an item once it is handled, or raise what `handle` raised."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._drain())
        return await done

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            futures = [done for _, done in batch]
            try:
                results = await self._handle([item for item, _ in batch])
            except BaseException as error:
                for done in futures:
                    if not done.done():
                        done.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                for done, result in zip(futures, results, strict=True):
                    if not done.done():
                        done.set_result(result)
