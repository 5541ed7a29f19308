"""Open the engines of a command: one per checkpoint and settings, however many roles use it."""

from contextlib import AsyncExitStack
from pathlib import Path

from service.asks.backend import Endpoint
from service.engines.batch_loop import TransformersEndpoint, TransformersSettings
from service.engines.vllm import VllmEndpoint, VllmSettings


class Engines:
    """The engines that a command opened, as an async context that closes them.

    The servers' messages go to `vllm.log`, `vllm-2.log`, ... in `logs`.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._open: dict[TransformersSettings | VllmSettings, Endpoint] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Engines":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def get(self, settings: TransformersSettings | VllmSettings) -> Endpoint:
        """Return the engine with these settings, started at the first call; see `Endpoint.open`."""
        if settings not in self._open:
            number = len(self._open) + 1
            log = self._logs / ("vllm.log" if number == 1 else f"vllm-{number}.log")
            engine: Endpoint
            if isinstance(settings, VllmSettings):
                engine = VllmEndpoint(settings, log)
            else:
                engine = TransformersEndpoint(settings)
            await engine.open()
            self._stack.push_async_callback(engine.close)
            self._open[settings] = engine
        return self._open[settings]
