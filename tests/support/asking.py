"""Endpoints of the test server, and what becomes of single attempts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

from openai_server import OpenAIServer
from sqlalchemy import func, select

from service.asks import request as kinds
from service.asks.ask import Asker, Models
from service.asks.money import Price
from service.asks.remote import RemoteEndpoint
from service.asks.request import Answer, Choice, Fault, Message, Request, read_reply
from service.asks.servers import Endpoint
from service.asks.store import Store, add_tasks, enter, leave
from service.asks.tables import AskRow
from service.database import Database
from service.models.access import Model
from service.models.settings import Sampling
from service.runs.progress import set_cap
from service.runs.store import Run, open_run
from service.runs.tables import PICO_PER_USD, CapRow

VLLM, OPENAI = "hosted_vllm/test-model", "openai/test-model"
PRICE = Price(100.0, 200.0)
FAULTS = [
    (fault, kind, billed)
    for faults, kind, billed in (
        ("rate_limit", kinds.RATE_LIMITED, False),
        ("quota", kinds.QUOTA, False),
        ("server_error", kinds.SERVER_ERROR, False),
        ("bad_request", kinds.BAD_REQUEST, False),
        ("unauthorized", kinds.AUTHENTICATION, False),
        ("no_model", kinds.UNKNOWN_MODEL, False),
        ("content_filter", kinds.CONTENT_FILTER, False),
        ("context_length no_room", kinds.CONTEXT_LENGTH, False),
        ("hang drip", kinds.TIME_OUT, True),
        ("cut cut_early", kinds.CONNECTION, True),
        ("invalid_json wrong_type wrong_shape empty_choices aborted", kinds.INVALID_ANSWER, True),
    )
    for fault in faults.split()
]
"""Faults of the test server, their kinds, and whether the attempt is billed."""


def question(number: int = 2, model: str = VLLM, **fields: Any) -> Request:
    """Return a request for 50 tokens; the test server answers it by its text and seed."""
    sampling = Sampling(temperature=0.7, max_tokens=50).decoding | fields.pop("sampling", {})
    messages = (Message("user", f"What is {number} + 3?"),)
    if "prompt" in fields:
        messages = ()
    return Request(**{"model": model, "messages": messages, "sampling": sampling, "seed": number} | fields)


def remote(servers: Sequence[OpenAIServer | str], spelling: str = VLLM, **settings: Any) -> RemoteEndpoint:
    """Return an endpoint of these servers through litellm."""
    bases = tuple(server if isinstance(server, str) else server.url for server in servers)
    config = Model(model=spelling, sampler="remote", base_url=bases, **{"timeout_s": 20.0} | settings)
    return RemoteEndpoint(config, PRICE)


@asynccontextmanager
async def opened(endpoint: Any) -> AsyncIterator[Any]:
    """Give an endpoint while it is open."""
    try:
        await endpoint.open()
        yield endpoint
    finally:
        await endpoint.close()


async def attempt(endpoint: Endpoint, request: Request) -> Answer:
    """Send one attempt as `ask` does.

    Raises:
        Fault: it failed.
    """
    async with endpoint.slot(asyncio.Event()) as server:
        return await endpoint.send(request, server)


async def answer(endpoint: Endpoint, request: Request, *, tries: int = 1) -> Answer:
    """Send up to `tries` attempts, as long as a fault may pass; return the answer.

    Raises:
        Fault: the last attempt failed.
    """
    while True:
        tries -= 1
        try:
            return await attempt(endpoint, request)
        except Fault:
            if not tries:
                raise
            await asyncio.sleep(0.02)


def make_run(db: Database, name: str = "run", *, tasks: int = 0, cap_pico: int | None = None) -> Run:
    """Store a run with so many tasks, named by their numbers."""
    with db.write() as session:
        run, _ = open_run(session, name=name, kind="propose", spec={}, question_ids=[], versions={})
        add_tasks(session, run.id, [str(number) for number in range(tasks)])
        if cap_pico is not None:
            set_cap(session, [run.id], cap_pico / PICO_PER_USD)
    return run


@asynccontextmanager
async def open_asker(db: Database, run: Run, models: Models) -> AsyncIterator[Asker]:
    """Give an asker as a process of its own has it, which stops in the end."""
    with closing(Store(db)) as store:
        asker = Asker(store, run.id, await store.write(enter), models)
        try:
            yield asker
        finally:
            asker.stop("interrupted", "interrupted")
            await asker.finish()
            await asker.close()
            await store.write(leave, asker.worker)


def states(db: Database) -> list[str]:
    """Return the states of all attempts, in order."""
    with db.read() as session:
        return list(session.scalars(select(AskRow.state).order_by(AskRow.id)))


def committed(db: Database) -> int:
    """Return the picodollars that count against caps."""
    with db.read() as session:
        return session.scalar(select(func.sum(CapRow.committed_pico))) or 0


Said = str | Choice | Fault | list[str]
"""What a model answers to a request: one text for all choices, texts, or how the request fails."""


class ScriptedEndpoint(Endpoint):
    """An endpoint in this process that answers by `script(request)`; `sent` holds every attempt."""

    model, waits_for = VLLM, "the script"

    def __init__(
        self,
        script: Callable[[Request], Said] = lambda request: f"seed {request.seed}",
        model: str = VLLM,
        *,
        latency_s: float = 0.0,
        max_concurrency: int = 64,
        tokens: tuple[int, int] = (4, 4),
    ) -> None:
        self.script, self.model, self.price, self.latency_s = script, model, PRICE, latency_s
        self.tokens = tokens
        self.sent: list[Request] = []
        self._room = asyncio.Semaphore(max_concurrency)

    async def open(self) -> None: ...

    @asynccontextmanager
    async def slot(self, stopping: asyncio.Event) -> AsyncIterator[None]:
        async with self._room:
            yield

    async def send(self, request: Request, server: object) -> Answer:
        self.sent.append(request)
        await asyncio.sleep(self.latency_s)
        said = self.script(request)
        if isinstance(said, Fault):
            raise said
        texts = said if isinstance(said, list) else [said] * request.n
        choices = [text if isinstance(text, Choice) else Choice(text, "stop") for text in texts]
        body = {
            "model": "test-model",
            "choices": [
                {"message": {"content": choice.text}, "finish_reason": choice.finish_reason}
                for choice in choices
            ],
            "usage": dict(zip(("prompt_tokens", "completion_tokens"), self.tokens, strict=True)),
        }
        return read_reply(json.dumps(body))
