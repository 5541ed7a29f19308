"""`vllm serve` as a child process on loopback: started, waited for, asked, and ended with tagrpo."""

import asyncio
import importlib.metadata
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp

from service.asks import request as kinds
from service.asks.faults import classify, fault_of_status
from service.asks.request import Answer, Fault, Request, chat_messages, read_reply, request_fields
from service.asks.servers import ServedEndpoint, Server, Serving
from service.engines.checkpoint import CheckpointEndpoint, open_thought
from service.errors import PrerequisiteError
from service.models.access import Model

PROGRAM: Sequence[str] = (sys.executable, "-m", "vllm.entrypoints.cli.main")
AT_ONCE_PER_COPY = 256
_LEAST_TEMPERATURE = 0.01
"""vLLM raises lower temperatures to this one (`_MAX_TEMP` in vllm/sampling_params.py); 0 is greedy."""
_LOG_LINES = 15
_START_S, _END_S = 1800.0, 20.0
_COUNT_EVERY_S = 2.0
_GENERATED = re.compile(rb"^vllm:generation_tokens_total(?:\{[^}\n]*\})? (\S+)", re.MULTILINE)
_GUARD = 'exec 3<&0 </dev/null; { cat <&3; kill -9 0; } & exec "$@" 3<&-'
"""A script that runs a command and kills its process group when the standard input ends.

tagrpo holds the other end of this pipe, so that no vLLM process survives a killed tagrpo and keeps the GPU's
memory.
"""
_SLOWEST_TOKENS_PER_S = 0.5
"""Per response. A server of ours that is slow, on a CPU, say, would get the same requests again and again."""


class VllmEndpoint(CheckpointEndpoint, ServedEndpoint):
    """Starts a server and sends requests to it.

    tagrpo renders the prompts and sends token ids, so that the checkpoint's template decides, on a fixed
    date. Requests with images go through the server's chat, as token ids cannot carry images.
    """

    generated_tokens = 0  # as of some seconds ago
    _process: asyncio.subprocess.Process
    _session: aiohttp.ClientSession

    def __init__(self, config: Model, log: Path) -> None:
        """Set up; nothing is started yet. `log` is the file for the server's messages."""
        self.config, self._log = config, log
        self._closing = AsyncExitStack()
        places = (config.max_concurrency or AT_ONCE_PER_COPY) * config.copies  # it queues by itself
        super().__init__([Server(None, "", places, limit=places)], None, _SLOWEST_TOKENS_PER_S)

    @cached_property
    def engine(self) -> dict[str, Any]:
        """Everything that shapes responses, for the run's spec; no server is started."""
        try:
            version = importlib.metadata.version("vllm")
        except importlib.metadata.PackageNotFoundError:
            raise PrerequisiteError(
                "vLLM is not installed. On a machine with a GPU, install the extra `vllm` (docs/install.md). "
                "Without a GPU, run the checkpoint with transformers, or give the address of a vLLM server."
            ) from None
        return {
            "engine": "vllm",
            "vllm": version,
            "weights": self.weights,
            "gpu": None if version.endswith("+cpu") else gpu_name(),
            "chat_template": self.checkpoint.template_id,
            "dtype": self.config.dtype or "auto",
            "tensor_parallel_size": self.config.tensor_parallel or 1,
            "max_model_len": self.config.max_model_len,
        }

    async def open(self) -> None:
        """Start the server and wait until it is ready, which takes minutes."""
        assert self.engine  # raises if vLLM is not installed
        port = _free_port()
        address = self.servers[0].where = f"http://127.0.0.1:{port}"
        ended, running = os.pipe()
        with open(ended, "rb") as stdin, self._log.open("ab") as log:
            self._closing.callback(os.close, running)  # the guard then ends what is left of the group
            self._process = await asyncio.create_subprocess_exec(
                *("sh", "-c", _GUARD, "sh", *self._command(port)),
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is tagrpo's: requests in flight finish first
                env=os.environ | ({"RAY_ADDRESS": ray} if (ray := self.config.ray_address) else {}),
            )
        self._closing.push_async_callback(self._end, self._process)
        self._session = aiohttp.ClientSession(
            address,
            headers={"Content-Type": "application/json"},
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=1.0),  # vLLM ends idle ones after 5 s
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._closing.push_async_callback(self._session.close)
        await self._wait()
        self._closing.callback(asyncio.create_task(self._count()).cancel)

    async def look(self, server: Server) -> Serving | Fault:
        try:
            async with self._session.get("/v1/models", raise_for_status=True) as response:
                (served,) = (await response.json(content_type=None))["data"]
        except aiohttp.ClientError as error:
            return classify(error)
        return {"max_model_len": served.get("max_model_len")}

    async def _count(self) -> None:
        """Read the number of generated tokens from the server's metrics from time to time."""
        while True:
            await asyncio.sleep(_COUNT_EVERY_S)
            with suppress(aiohttp.ClientError):
                async with self._session.get("/metrics") as response:
                    counts = _GENERATED.findall(await response.read())
                self.generated_tokens = int(sum(map(float, counts)))

    def _command(self, port: int) -> list[str]:
        config, ray = self.config, self.config.ray_address is not None
        options = {
            "served-model-name": config.model,
            "revision": self.checkpoint.commit,
            "tokenizer-revision": self.checkpoint.commit,
            "dtype": config.dtype or "auto",
            "data-parallel-size": config.copies,
            "tensor-parallel-size": config.tensor_parallel or 1,
            "gpu-memory-utilization": config.gpu_memory_utilization or 0.9,
            "max-model-len": config.max_model_len,
            "distributed-executor-backend": "ray" if ray else None,
            "data-parallel-backend": "ray" if ray and config.copies > 1 else None,
            "generation-config": "vllm",  # leaves out the checkpoint's own sampling defaults
            "uvicorn-log-level": "warning",
            "host": "127.0.0.1",
            "port": port,
        }
        words = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return [*PROGRAM, "serve", config.model, *words]

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_START_S):
                while self._process.returncode is None:
                    look = await self.look(self.servers[0])
                    if not isinstance(look, Fault):
                        self.serving = look
                        return
                    await asyncio.sleep(0.2)
            how = f"ended with exit code {self._process.returncode} before it was ready"
        except TimeoutError:
            how = f"was not ready after {_START_S:g} s"
        raise PrerequisiteError(
            f"vLLM {how}. {self._last_lines()}\nIf the GPU ran out of memory, raise tensor_parallel_size or "
            "lower max_model_len. If other programs use the GPU, lower gpu_memory_utilization."
        )

    def _last_lines(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        return f"Its log {self._log} ends with:\n" + "\n".join(lines)

    async def complete(self, request: Request, server: Server) -> Answer:
        """Send one attempt; a shorter context than prompt and `max_tokens` need cuts the response."""
        if 0 < request.sampling.get("temperature", 1.0) < _LEAST_TEMPERATURE:
            raise Fault(kinds.SETTINGS, f"vLLM requires temperature 0 or at least {_LEAST_TEMPERATURE}.")
        prompt, room = self.checkpoint.fit(request, self.serving.get("max_model_len"))
        fields = request_fields(request) | {"max_tokens": room}
        body = {"model": self.config.model, **fields, **request.extra}
        if prompt.images:
            page, body["messages"] = "chat/completions", chat_messages(request)
        else:
            page, body["prompt"] = "completions", request.prompt or [prompt.token_ids]
            body.pop("chat_template_kwargs", None)
        try:
            async with self._session.post(f"/v1/{page}", data=json.dumps(body).encode()) as response:
                text = (await response.read()).decode("utf-8", "replace")
        except aiohttp.ClientError as error:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._process.wait()
            if self._process.returncode is None:
                raise
            ended = f"vLLM ended with exit code {self._process.returncode}. {self._last_lines()}"
            raise Fault(kinds.SETTINGS, ended) from error
        if response.status != 200:
            raise fault_of_status(response.status, text, response.headers)
        if prompt.opens_thought:
            reply = json.loads(text)
            for choice in reply["choices"]:
                holder, name = (choice["message"], "content") if prompt.images else (choice, "text")
                holder[name] = open_thought(holder[name] or "")
            text = json.dumps(reply, ensure_ascii=False)
        return read_reply(text)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await process.wait()
        with suppress(ProcessLookupError):  # its engines are in its group
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def close(self) -> None:
        """End the server and all its processes."""
        await self._closing.aclose()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def gpu_name() -> str | None:
    """Return the name of the first visible NVIDIA GPU without starting CUDA; None without one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip() or "0"
    command = ["nvidia-smi", f"--id={visible}", "--query-gpu=name", "--format=csv,noheader"]
    try:
        query = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return query.stdout.strip() or None
