"""The remote sampler: leases cells, asks for their responses, and stores samples as they come."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from service.errors import InputError, PrerequisiteError
from service.models.asking import Asking
from service.models.drawing import CellsToDraw, DrawnCell, LeasedCell, ReportSamples, Response, images_of
from service.models.remote import (
    BatchClient,
    BatchStatus,
    Budget,
    ChatRequest,
    ChatResponse,
    Choice,
    Endpoint,
    Failure,
    Message,
    PriceTable,
    RemoteClient,
    RetryPolicy,
)
from service.models.remote.batch import check_jobs, has_jobs
from service.models.remote.chat import message_with_images
from service.models.remote.endpoint import check_abilities, check_sampling, supports_n
from service.models.remote.servers.looking import Serving
from service.models.settings import NO_RAW_IMAGES, DrawingSpec
from service.models.stopping import finish_on_signals
from service.questions.images import Image, image_loader
from service.runs.batching import fill_by_batch
from service.runs.cells import Cell, Receipt
from service.runs.filling import CellsToAsk, Filled, fill_cells
from service.runs.ledger import RunLedger
from service.runs.store import find_run

_TEXT_FIELDS = frozenset({"content", "text", "reasoning_content", "reasoning", "thinking", "refusal"})


class RemoteSampler:
    """Draws samples by litellm.

    A request draws as many samples as its cell holds, with the seed of the first; that seed is noted with
    each of them (none where the provider takes no seed). Thoughts that a server's reasoning parser took out
    of a response stand before it, as `<think>...</think>`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        asking: Asking | None = None,
        *,
        prices: PriceTable | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        """Set up; nothing is imported or sent.

        Args:
            endpoint: Where to ask.
            asking: How; the cap on money is the ledger's.
            prices: Prices in place of those of `asking`.
            retries: When and how often to try again.
        """
        self.endpoint = endpoint
        self._asking = asking if asking is not None else Asking()
        self._prices = prices if prices is not None else self._asking.price_table()
        self._budget = Budget(max_requests=self._asking.max_requests)
        self._retries = retries
        self._serving: Serving | None = None
        self._notices: dict[str, None] = {}

    def describe(self) -> Mapping[str, Any]:
        """Return provider, served model, and the server's engine, version and weights as far as it tells.

        Raises:
            PrerequisiteError: the endpoint cannot be reached, refuses the key or does not list the model.
        """
        if self._serving is None:
            self._serving = asyncio.run(self._find())
        return {"sampler": "remote", **self._serving.to_json()}

    @property
    def notices(self) -> Sequence[str]:
        """Fields that the server refused, so that the samples were drawn without them."""
        return tuple(self._notices)

    def close(self) -> None:
        """Nothing is held between two passes."""

    def check(self, spec: DrawingSpec) -> None:
        """See that the endpoint takes prompts of this kind, before a run is made.

        Raises:
            InputError: batch jobs would go to several servers.
            PrerequisiteError: it takes no raw text, no chat-template arguments or no batch jobs of them.
        """
        raw = spec.prompt.form == "raw"
        extra = {"chat_template_kwargs": spec.prompt.chat_template_kwargs}
        check_abilities(self.endpoint, raw_text=raw, extra=extra if spec.prompt.chat_template_kwargs else {})
        check_sampling(self.endpoint, spec.sampling)
        if self._asking.batch:
            check_jobs(self.endpoint)
        if raw and self._sends_jobs:
            raise PrerequisiteError("batch jobs hold chats only; leave --batch or the raw text out.")

    def samples_per_request(self, wanted: int) -> int:
        """Return how many samples to ask for at once: 1 where the model does not know n."""
        return wanted if supports_n(self.endpoint) else 1

    def fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        """Draw until no cell is empty, the budget is spent, or every further request would fail.

        On Ctrl-C or SIGTERM what is in flight is awaited and stored; a second signal drops it.
        """
        self._budget.ledger = RunLedger(cells.db, cells.run_id)
        return asyncio.run(self._fill(cells, report))

    @property
    def _sends_jobs(self) -> bool:
        return self._asking.batch and has_jobs(self.endpoint.model)

    async def _find(self) -> Serving:
        client = RemoteClient(self.endpoint, budget=self._budget, prices=self._prices)
        async with client:
            check = await client.check()
            if check.problem is not None:
                raise PrerequisiteError(f"{self.endpoint.model}: {check.problem}")
            return await client.serving()

    async def _fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        filling = _Filling(cells, report)
        to_ask = CellsToAsk(
            cells.db,
            cells.run_id,
            cells.scope,
            cells.owner,
            filling.build,
            filling.count,
            filling.keep,
            filling.forget,
        )
        with cells.db.read() as session:
            run_name = find_run(session, cells.run_id).name
        if self._sends_jobs:
            jobs = BatchClient(
                self.endpoint,
                budget=self._budget,
                prices=self._prices,
                retries=self._retries,
                run_name=run_name,
            )
            async with jobs:
                return await fill_by_batch(
                    to_ask, jobs, report=filling.count_job, poll_s=self._asking.batch_poll_s
                )
        client = RemoteClient(
            self.endpoint,
            budget=self._budget,
            prices=self._prices,
            max_concurrency=self._asking.max_concurrency,
            run_name=run_name,
            halt_after=self._asking.halt_after,
            stall_s=self._asking.stall_s,
            retries=self._retries,
        )
        async with client:
            filling.client = client
            with finish_on_signals(client.interrupt, grace_s=self._asking.grace_s):
                filled = await fill_cells(to_ask, client)
            if cells.spec.sampling.seed is None:
                self._notices["no seed was sent: the same run would draw other responses"] = None
            elif not client.sends("seed"):
                self._notices["the server takes no seed: the same run would draw other responses"] = None
        if filled.message is not None and "chat template" in filled.message.lower():
            filled.message += "; a model without a chat template continues raw text (--raw)"
        return filled


class _Filling:
    """One pass: which request a cell id stands for, and how the answers are kept and counted."""

    def __init__(self, cells: CellsToDraw, report: ReportSamples) -> None:
        self.client: RemoteClient | None = None
        self._cells, self._report = cells, report
        self._requests: dict[int, LeasedCell] = {}
        self._usd, self._failed = 0.0, 0

    def build(self, cells: Sequence[Cell]) -> list[ChatRequest]:
        """Return the requests of leased cells."""
        made = [self._cells.leased(cell) for cell in cells]
        self._requests.update((request.cell.id, request) for request in made)
        ids = [id for request in made for id in images_of(request.problem)]
        images = image_loader(self._cells.db)(ids) if ids else {}
        return [chat_request(self._cells.spec, request, images) for request in made]

    def keep(self, session: Session, cell_id: int, answer: ChatResponse, receipt: Receipt) -> None:
        """Fill the cell and write its samples in one transaction."""
        request = self._requests[cell_id]
        seeded = self.client is None or self.client.sends("seed")
        asked = replace(request, seeds=request.seeds[:1] * request.count)
        raw = without_texts(answer.raw, answer.choices)
        responses = read_responses(request, answer)
        self._cells.keep(session, DrawnCell(asked, responses, receipt, raw, seeded))

    def forget(self, cell_ids: Sequence[int]) -> None:
        """Give the memory of requests back whose answers are stored."""
        for cell_id in cell_ids:
            self._requests.pop(cell_id, None)

    def count(self, answer: ChatResponse | Failure) -> None:
        """Report an answer."""
        self._usd += answer.cost_usd or 0.0
        self._failed += isinstance(answer, Failure)
        spent = f"${self._usd:.2f}" if self._usd else ""
        failed = f"{self._failed:,} requests failed" if self._failed else ""
        drawn = len(answer.choices) if isinstance(answer, ChatResponse) else 0
        self._report(drawn, ", ".join(filter(None, (spent, failed))))

    def count_job(self, status: BatchStatus) -> None:
        """ReportSamples how far a batch job is."""
        self._report(0, f"batch job: {status.completed + status.failed:,} of {status.total:,} requests")


def chat_request(
    spec: DrawingSpec, request: LeasedCell, images: Mapping[str, Image] | None = None
) -> ChatRequest:
    """Return what is sent for a cell: all its responses at once, with the seed of the first.

    `images` are those of the problem by id, and perhaps more.

    Raises:
        InputError: raw text is asked for, and the problem has images.
    """
    question = request.problem.text
    text = spec.prompt.fill(question)
    raw = spec.prompt.form == "raw"
    pictures = [(images or {})[id] for id in images_of(request.problem)]
    if raw and pictures:
        raise InputError(NO_RAW_IMAGES)
    system = (Message("system", spec.prompt.system),) if spec.prompt.system is not None else ()
    kwargs = dict(spec.prompt.chat_template_kwargs)
    return ChatRequest(
        key=request.cell.id,
        messages=() if raw else (*system, message_with_images(text, question, pictures)),
        prompt=text if raw else None,
        n=request.count,
        seed=request.seeds[0],
        **spec.sampling.decoding,
        extra={"chat_template_kwargs": kwargs} if kwargs else {},
    )


def read_responses(request: LeasedCell, answer: ChatResponse) -> list[Response]:
    """Return the samples in an answer, as many as were asked for at most.

    Tokens are those of one response only where it came alone.
    """
    alone = len(answer.choices) == 1
    return [
        Response(
            text=full_text(choice),
            stop_reason=choice.finish_reason,
            prompt_tokens=answer.prompt_tokens or None,
            completion_tokens=(answer.completion_tokens or None) if alone else None,
        )
        for choice in answer.choices[: request.count]
    ]


def full_text(choice: Choice) -> str:
    """Return the text with the thought before it that a server's reasoning parser took out.

    It reads as from a server without the parser, so nothing is lost and lengths are comparable. A thought
    without an answer behind it stays open: it was cut off.
    """
    if choice.reasoning is None:
        return choice.text
    head = f"<think>\n{choice.reasoning.strip()}\n"
    return f"{head}</think>\n\n{choice.text}" if choice.text else head


def without_texts(raw: str, choices: Sequence[Choice]) -> str:
    """Return an answer's JSON without what `full_text` keeps: texts are stored once, as samples."""
    body = json.loads(raw)
    for entry, choice in zip(body.get("choices") or [], choices, strict=False):
        _blank(entry, {text for text in (choice.text, choice.reasoning) if text})
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _blank(value: Any, texts: set[str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _TEXT_FIELDS and isinstance(inner, str) and inner in texts:
                value[name] = None
            else:
                _blank(inner, texts)
    elif isinstance(value, list):
        for inner in value:
            _blank(inner, texts)
