"""A test server that speaks the OpenAI protocol over real HTTP and misbehaves on demand.

In a test: `async with OpenAIServer(answer=..., faults=fault_sequence("rate_limit")) as server: server.url`,
or `with server_process(...) as url` for one that outlives the killed client. By hand:
`python tests/support/openai_server.py --port 0 --latency 0.1 --fault rate_limit=0.1` prints its URL;
`GET /stats` then says what it saw. A request counts as paid as soon as it arrives, unless its fault is of a
kind that no provider bills.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from openai_batches import BatchStore
from openai_faults import STATUS, Fault, FaultPlan, Seen, no_faults, random_faults, spoil

Answer = Callable[[list[dict[str, Any]], int, int | None], Sequence[str]]

CHARS_PER_TOKEN = 4
THOUGHT = "Let me see.\n"


def count_tokens(text: str) -> int:
    """Return the server's count of tokens: four characters each, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def default_answer(messages: list[dict[str, Any]], n: int, seed: int | None) -> list[str]:
    """Return `n` short texts that depend on the last message, the seed and the place, and on nothing else."""
    asked = str(messages[-1].get("content"))
    return [hashlib.sha256(f"{asked}|{seed}|{place}".encode()).hexdigest()[:16] for place in range(n)]


def asked_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a request; raw text counts as one message of the role "raw"."""
    if "prompt" in body:
        return [{"role": "raw", "content": body["prompt"]}]
    return list(body["messages"])


def request_key(body: Mapping[str, Any]) -> str:
    """Return the hash of what is asked: messages or raw text, n, seed and the chat template's arguments."""
    asked = [asked_messages(body), body.get("n") or 1, body.get("seed")]
    if body.get("chat_template_kwargs"):
        asked.append(body["chat_template_kwargs"])
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:24]


def completion(body: Mapping[str, Any], answer: Answer, *, thinks: bool) -> dict[str, Any]:
    """Return the JSON of an answer to a request; see `OpenAIServer` for the arguments."""
    n = body.get("n") or 1
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 10**9
    messages, raw = asked_messages(body), "prompt" in body
    texts = list(answer(messages, n, body.get("seed")))
    thinks = thinks and not raw and (body.get("chat_template_kwargs") or {}).get("enable_thinking", True)
    thought = THOUGHT if thinks else ""
    choices = []
    for place, text in enumerate(texts):
        reason = "stop" if count_tokens(thought + text) <= limit else "length"
        room = CHARS_PER_TOKEN * limit
        thinking = thought[:room]
        written = text[: room - len(thinking)]
        choice: dict[str, Any] = {"text": written, "logprobs": None, "stop_reason": None}
        if not raw:
            choice = {"message": {"role": "assistant", "content": written}}
        if thinking:
            choice["message"]["reasoning_content"] = thinking
        choices.append({"index": place, "finish_reason": reason, **choice})
    prompt = sum(count_tokens(str(message.get("content"))) for message in messages)
    drawn = sum(min(count_tokens(thought + text), limit) for text in texts)
    return {
        "id": f"chatcmpl-{request_key(body)}",
        "object": "text_completion" if raw else "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn},
    }


class OpenAIServer:
    """The server, in the running event loop. Use as an asynchronous context manager; `url` ends in `/v1`."""

    def __init__(
        self,
        *,
        answer: Answer = default_answer,
        faults: FaultPlan = no_faults,
        latency_s: float = 0.0,
        models: Sequence[str] | None = ("test-model",),
        refuse_fields: Sequence[str] = (),
        key: str | None = None,
        capacity: int | None = None,
        port: int = 0,
        batch_polls: int = 1,
        version: str | None = None,
        max_model_len: int | None = None,
        root: str | None = None,
        thinks: bool = False,
    ) -> None:
        """Set up the server.

        Args:
            answer: Returns the n texts for (messages, n, seed).
            models: Ids listed at /v1/models; None: that page does not exist. Any model is answered.
            refuse_fields: Fields of a request that are refused with an error 400.
            capacity: With more requests than this at once, further ones are answered 429.
            batch_polls: How often a batch job is asked for before it is done.
            version: What `/version` tells, as vLLM does; None: that page does not exist.
            root: The weights that the list names; None: those of the model's name.
            thinks: A chat's answer has a thought in `reasoning_content`, as with Qwen3 and vLLM's
                --reasoning-parser, unless enable_thinking is false.
        """
        self.answer, self.faults, self.latency_s = answer, faults, latency_s
        self.models, self.refuse_fields = models, tuple(refuse_fields)
        self.key, self.capacity, self.port = key, capacity, port
        self.version, self.thinks = version, thinks
        self.max_model_len, self.root = max_model_len, root
        self.batches = BatchStore(self._complete_line, polls=batch_polls)
        self.requests: list[Seen] = []
        self.asked: Counter[str] = Counter()
        self.paid: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.in_flight = self.max_in_flight = self.overlaps = self.tokens = 0
        self._open: Counter[str] = Counter()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def stats(self) -> dict[str, Any]:
        """What the server saw; `paid_again` counts payments beyond the first for the same request."""
        return {
            "requests": sum(self.asked.values()),
            "paid": sum(self.paid.values()),
            "distinct": len(self.asked),
            "paid_distinct": len(self.paid),
            "paid_again": sum(count - 1 for count in self.paid.values()),
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "overlaps": self.overlaps,
            "tokens": self.tokens,
            "faults": dict(self.met),
            "batches": self.batches.created,
            "batch_lines": self.batches.lines,
            "pid": os.getpid(),
        }

    async def __aenter__(self) -> "OpenAIServer":
        app = web.Application(client_max_size=512 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/version", self._version)
        app.router.add_get("/health", self._health)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/faults", self._set_faults)
        self.batches.add_routes(app, self._refusal)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response({**self.stats, "paid_by_key": self.paid})

    async def _set_faults(self, request: web.Request) -> web.Response:
        """Replace the faults by `{"shares": {"rate_limit": 0.5}, "seed": 0}` while the server runs."""
        asked = await request.json()
        self.faults = random_faults(asked.get("shares", {}), seed=asked.get("seed", 0))
        return web.json_response({})

    async def _models(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        if self.models is None:
            return _error(404, "not_found", "Not Found")
        owner = "test" if self.version is None else "vllm"
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": owner, "root": self.root or name}
            | ({} if self.max_model_len is None else {"max_model_len": self.max_model_len})
            for name in self.models
        ]
        return web.json_response({"object": "list", "data": data})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        if self.version is None:
            return _error(404, "not_found", "Not Found")
        return web.json_response({"version": self.version})

    def _refusal(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization")
        if self.key is not None and given != f"Bearer {self.key}":
            return _error(401, "invalid_api_key", f"Incorrect API key provided: {given}")
        return None

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        body = await request.json()
        key = request_key(body)
        seen = Seen(
            sum(self.asked.values()), key, self.asked[key], body, request.headers.get("Authorization")
        )
        self.requests.append(seen)
        self.asked[key] += 1
        fault = self.faults(seen)
        if fault is None and self.capacity is not None and self.in_flight >= self.capacity:
            fault = Fault("rate_limit")
        if fault is not None:
            self.met[fault.name] += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.overlaps += self._open[key] > 0
        self._open[key] += 1
        try:
            return await self._respond(request, seen, fault)
        finally:
            self.in_flight -= 1
            self._open[key] -= 1

    async def _respond(self, request: web.Request, seen: Seen, fault: Fault | None) -> web.StreamResponse:
        if refused := self._refused_field(seen.body):
            return _error(400, "unsupported_parameter", f"'{refused}' is not supported by this model")
        completed = completion(seen.body, self.answer, thinks=self.thinks)
        if fault is None or fault.paid:
            self._bill(seen.key, completed)
        if fault is not None and fault.name == "hang":
            await asyncio.Event().wait()
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if fault is None:
            return web.json_response(completed)
        if fault.name == "no_room":
            return _error(400, "BadRequestError", _no_room(seen.body))
        if fault.name in STATUS:
            status, code, message = STATUS[fault.name]
            return _error(status, code, message, fault.retry_after)
        if fault.name == "unauthorized":
            return _error(401, "invalid_api_key", f"Incorrect API key provided: {seen.authorization}")
        return await self._broken(request, completed, fault)

    def _refused_field(self, body: Mapping[str, Any]) -> str | None:
        return next((name for name in self.refuse_fields if body.get(name) is not None), None)

    async def _broken(
        self, request: web.Request, completed: dict[str, Any], fault: Fault
    ) -> web.StreamResponse:
        transport = request.transport
        text = json.dumps(completed)
        if fault.name == "cut_early":
            transport.abort()
            return web.Response()
        if fault.name in ("cut", "drip"):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = 10**6 if fault.name == "drip" else len(text)
            await response.prepare(request)
            if fault.name == "cut":
                await response.write(text[: len(text) // 2].encode())
                transport.abort()
                return response
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.01)
        if fault.name == "invalid_json":
            return web.Response(text=text[: len(text) // 2], content_type="application/json")
        if fault.name == "wrong_type":
            return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")
        if fault.name == "wrong_shape":
            return web.json_response({"object": "list", "data": []})
        return web.json_response(spoil(completed, fault.name))

    def _bill(self, key: str, completed: Mapping[str, Any]) -> None:
        """Count a request as paid, before its answer goes out: a client that hangs up pays all the same."""
        self.paid[key] += 1
        self.tokens += completed["usage"]["total_tokens"]

    def _complete_line(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer one line of a batch job: the status and the body."""
        key = request_key(body)
        fault = self.faults(Seen(sum(self.asked.values()), key, self.asked[key], body, None))
        self.asked[key] += 1
        if (field := self._refused_field(body)) or (fault is not None and not fault.paid):
            message = f"'{field}' is not supported by this model" if field else "refused"
            return 400, {"error": {"message": message, "type": "invalid_request_error", "code": None}}
        answered = completion(body, self.answer, thinks=self.thinks)
        self._bill(key, answered)
        return 200, answered if fault is None else spoil(answered, fault.name)


def _no_room(body: Mapping[str, Any]) -> str:
    most = int(body.get("max_tokens") or body["max_completion_tokens"])
    return (
        f"This model's maximum context length is {most} tokens. However, you requested {most + 3} tokens "
        f"(3 in the messages, {most} in the completion). Please reduce the length of the messages."
    )


def _error(status: int, code: str, message: str, retry_after: str | None = None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return web.json_response(body, status=status, headers=headers)


@contextlib.contextmanager
def server_process(*arguments: str) -> Iterator[str]:
    """Run the server in a process of its own with these command line arguments; give its URL (`.../v1`)."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline().strip()
        if not line.startswith("http"):
            raise RuntimeError(f"the test server did not start: {line!r}")
        yield line
    finally:
        process.terminate()
        process.wait(timeout=10)


def load_answer(spelling: str) -> Answer:
    """Return the function NAME of a Python file, spelled `FILE.py:NAME`."""
    path, _, name = spelling.rpartition(":")
    return runpy.run_path(path)[name]


async def _serve(options: argparse.Namespace) -> None:
    shares = {name: float(share) for name, _, share in (each.partition("=") for each in options.fault)}
    server = OpenAIServer(
        answer=load_answer(options.answer) if options.answer else default_answer,
        faults=random_faults(shares, seed=options.seed, retry_after=options.retry_after),
        latency_s=options.latency,
        models=options.model or ("test-model",),
        key=os.environ.get("TEST_SERVER_KEY"),
        port=options.port,
        batch_polls=options.batch_polls,
        version=options.version,
        max_model_len=options.max_model_len,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with server:
        print(server.url, flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--host", help="taken as vLLM takes it; this machine alone is served")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--answer", metavar="FILE.py:NAME", help="function (messages, n, seed) -> n texts")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=SHARE", help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    parser.add_argument("--retry-after", help="Retry-After header of 429s")
    parser.add_argument("--model", action="append", help="id listed at /v1/models; may be repeated")
    parser.add_argument("--version", help="Version that GET /version reports, as vLLM does")
    parser.add_argument("--max-model-len", type=int, help="what the list of models tells, as vLLM's does")
    parser.add_argument("--batch-polls", type=int, default=1, help="polls until a batch job is done")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
