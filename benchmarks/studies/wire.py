"""A wire to a server that can be cut: for studies of what outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any


class Wire:
    """A TCP proxy before the server that refuses, cuts or stalls."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").removesuffix("/v1").partition(":")
        self._target = (host, int(port))
        self._loop = asyncio.new_event_loop()
        self._open: dict[asyncio.StreamWriter, bool] = {}  # to the client: whether it waits for an answer
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        with contextlib.suppress(OSError):
            from_server, to_server = await asyncio.open_connection(*self._target)
            self._open[writer] = False
            try:
                ways = (
                    asyncio.ensure_future(self._forward(reader, to_server, writer, True)),
                    asyncio.ensure_future(self._forward(from_server, writer, writer, False)),
                )
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
            finally:
                self._open.pop(writer, None)
                to_server.close()
                writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        is_request: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(2**16):
                await self._flowing.wait()
                self._open[client] = is_request
                writer.write(chunk)
                await writer.drain()

    def cut(self, seconds: float) -> int:
        """Cut all connections and refuse new ones for a while; return how many requests were caught."""

        async def abort() -> int:
            self._refusing = True
            busy = sum(self._open.values())
            for writer in list(self._open):
                writer.transport.abort()
            return busy

        caught: int = self._call(abort())
        time.sleep(seconds)
        self._refusing = False
        return caught

    def refuse(self, seconds: float) -> None:
        """Refuse new connections for a while; open ones stay."""
        self._refusing = True
        time.sleep(seconds)
        self._refusing = False

    def stall(self, seconds: float) -> None:
        """Pass nothing on for a while."""
        self._loop.call_soon_threadsafe(self._flowing.clear)
        time.sleep(seconds)
        self._loop.call_soon_threadsafe(self._flowing.set)

    def close(self) -> None:
        """End the proxy."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
