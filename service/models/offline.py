"""Engines in this process: prompts are rendered here, many cells are in flight, each is stored as it ends.

Where a prompt opens a thought, its responses are stored with the tag before them, as if they had written it.
"""

import json
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from service.database import Database
from service.errors import InputError
from service.models.checkpoint import Checkpoint
from service.models.drawing import (
    CellsToDraw,
    DrawnCell,
    LeasedCell,
    ReportSamples,
    Response,
    with_thought_opened,
)
from service.models.processors import Pictures
from service.models.rendering import PlannedPrompts, plan_prompts
from service.models.settings import DrawingSpec, SamplingSettings
from service.models.stopping import GRACE_S, INTERRUPTED
from service.questions.images import image_loader
from service.runs.cells import Receipt
from service.runs.filling import Filled

_REPORT_EVERY_S = 1.0
_WINDOW_S = 30.0


@dataclass(frozen=True)
class Order:
    """What an engine is asked for a cell: a response to the prompt's tokens for each of the seeds."""

    number: int
    prompt: Sequence[int]
    seeds: tuple[int | None, ...]
    max_tokens: int
    pictures: Pictures | None = None


@dataclass(frozen=True)
class FinishedOrder:
    """An order that ended: its responses in the order of its seeds, or why there are none.

    `raw` is what the engine says besides, `seeds` what it drew with where those are not the order's.
    """

    number: int
    responses: tuple[Response, ...] = ()
    seeds: tuple[int, ...] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None


class OfflineEngine(Protocol):
    """Draws what it is given, in any order."""

    @property
    def name(self) -> str:
        """Return the engine's name, for messages."""
        ...

    def wanted(self, samples_per_order: int) -> int:
        """Return how many orders it would take now; 0 while it has enough to do."""
        ...

    @property
    def at_work(self) -> str:
        """What is being drawn, in words."""
        ...

    def submit(self, orders: Sequence[Order], sampling: SamplingSettings) -> None:
        """Queue orders, each under its number."""
        ...

    def step(self) -> Sequence[FinishedOrder]:
        """Go on for a moment; return the orders that ended."""
        ...

    def abort(self) -> None:
        """Give up what is in flight."""
        ...


class CheckpointSampler(ABC):
    """What the samplers of a checkpoint have in common; see `service.models.drawing.Sampler`."""

    def __init__(self, model: str, revision: str | None) -> None:
        self._name, self._revision = model, revision
        self._notices: list[str] = []

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know: raw text for want of a template, responses cut at the context, ..."""
        return tuple(dict.fromkeys(self._notices))

    def check(self, spec: DrawingSpec) -> None:
        """See that a run can be drawn, before it is made; what there is to say goes to `notices`.

        Raises:
            InputError: a system prompt, but the model has no chat template.
        """
        self._notices += self._open().renderer.notices(spec.prompt)

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Return what shapes its responses: see `service.models.drawing.Sampler.describe`."""

    @abstractmethod
    def fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        """Draw all empty cells; see `service.models.drawing.Sampler.fill`."""

    @abstractmethod
    def close(self) -> None:
        """End what it holds."""

    @abstractmethod
    def _open(self) -> Checkpoint:
        """Return the checkpoint, opened once."""

    def _plan(self, cells: CellsToDraw, context: int | None) -> PlannedPrompts:
        return plan_prompts(
            self._open().renderer,
            cells.prompt_of,
            cells.problems.values(),
            max_tokens=cells.spec.sampling.max_tokens,
            context=context,
            files=_files(cells.db),
        )


def _files(db: Database) -> Callable[[Sequence[str]], list[bytes]]:
    """Return what gives the bytes of images by id; a question and its candidates share them."""
    load, held = image_loader(db), dict[str, bytes]()

    def files(ids: Sequence[str]) -> list[bytes]:
        missing = [id for id in ids if id not in held]
        held.update((id, image.data) for id, image in load(missing).items())
        return [held[id] for id in ids]

    return files


ENGINE_OPTIONS: dict[str, set[str]] = {
    "local": {"device", "dtype", "batch_size", "batch_tokens", "revision"},
    "vllm": {
        "dtype",
        "tensor_parallel",
        "max_model_len",
        "gpu_memory_utilization",
        "revision",
        "gpus",
        "ray_address",
    },
    "remote": set(),
}
"""Which sampler knows which option of an engine."""


def given_options(kind: str, options: Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """Return those options of an engine that are not None; `prefix` stands before them on the command line.

    Raises:
        InputError: an option of another engine.
    """
    given = {option: value for option, value in options.items() if value is not None}
    for option in sorted(set(given) - ENGINE_OPTIONS[kind]):
        raise InputError(f"--{prefix}{option.replace('_', '-')} does not belong to --{prefix}sampler {kind}.")
    return given


def open_engine(
    kind: str, model: str, options: Mapping[str, Any], *, prefix: str = "", grace_s: float = GRACE_S
) -> CheckpointSampler:
    """Return the sampler `local` or `vllm` of a checkpoint; nothing is loaded yet.

    Raises:
        InputError: see `given_options`; or a value out of range.
    """
    given = given_options(kind, options, prefix=prefix)
    if kind == "local":
        from service.models.local import LocalSampler

        return LocalSampler(model, **given)
    from service.models.vllm import VllmSampler

    return VllmSampler(model, grace_s=grace_s, **given)


@dataclass(frozen=True)
class _InFlight:
    leased: LeasedCell
    order: Order
    began: float


class OfflineFilling:
    """One pass: from leased cells to an engine's orders, from what comes back to stored cells.

    At temperature 0 all samples of a prompt are one text, which is drawn once.
    """

    def __init__(
        self, cells: CellsToDraw, engine: OfflineEngine, prompts: PlannedPrompts, report: ReportSamples
    ) -> None:
        self._cells, self._engine = cells, engine
        self._prompts, self._report = prompts, report
        self._sampling = cells.spec.sampling
        self._is_greedy = self._sampling.temperature == 0
        self._samples_per_order = 1 if self._is_greedy else self._sampling.samples_per_request
        self._in_flight: dict[int, _InFlight] = {}
        self._speed = Speed()
        self._stored_samples, self._reported = 0, time.monotonic()
        self.filled = Filled()

    def run(self, is_stopped: Callable[[], bool]) -> Filled:
        """Draw until no cell is left or `is_stopped` says so."""
        is_last = False
        while not is_stopped():
            if not is_last and (wanted := self._engine.wanted(self._samples_per_order)):
                is_last = not self._lease(wanted)
            elif not self._in_flight:
                return self.filled
            else:
                self._take_in(self._engine.step())
        self._engine.abort()
        return self.interrupted()

    def interrupted(self) -> Filled:
        """Return what was drawn before the user or the machine stopped it."""
        self.filled.stopped, self.filled.message = INTERRUPTED, "interrupted; whole cells are stored"
        return self.filled

    def _lease(self, limit: int) -> bool:
        orders: list[Order] = []
        for leased in self._cells.lease(limit):
            planned = self._prompts.of(leased.problem)
            seeds = leased.seeds[:1] if self._is_greedy else leased.seeds
            prompt = planned.prompt
            order = Order(leased.cell.id, prompt.token_ids, seeds, planned.max_tokens, prompt.pictures)
            self._in_flight[order.number] = _InFlight(leased, order, time.monotonic())
            orders.append(order)
        if orders:
            self._engine.submit(orders, self._sampling)
        return bool(orders)

    def _take_in(self, finished: Sequence[FinishedOrder]) -> None:
        drawn: list[DrawnCell] = []
        for ended in finished:
            asked = self._in_flight.pop(ended.number)
            if ended.failure is not None:
                self._cells.fail(asked.leased, f"{self._engine.name} ended the request: {ended.failure}")
                self.filled.failed += 1
                self.filled.failures[ended.failure] = self.filled.failures.get(ended.failure, 0) + 1
            else:
                drawn.append(self._drawn(asked, ended))
        if drawn:
            self._cells.store(drawn)
            self.filled.answered += len(drawn)
            self._stored_samples += sum(len(cell.responses) for cell in drawn)
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S or not self._in_flight:
            self._report(self._stored_samples, f"{self._speed.words()}, {self._engine.at_work}")
            self._stored_samples, self._reported = 0, now

    def _drawn(self, asked: _InFlight, ended: FinishedOrder) -> DrawnCell:
        leased, responses, seeds = asked.leased, ended.responses, ended.seeds or asked.leased.seeds
        if self._prompts.of(leased.problem).prompt.opens_thought:
            responses = tuple(replace(each, text=with_thought_opened(each.text)) for each in responses)
        tokens = sum(response.completion_tokens or 0 for response in responses)
        self._speed.add(len(responses), tokens)
        receipt = Receipt(
            model=self._cells.spec.model,
            prompt_tokens=len(asked.order.prompt),
            completion_tokens=tokens,
            cost_usd=0.0,
            attempts=1,
            latency_s=time.monotonic() - asked.began,
        )
        if self._is_greedy:
            responses = responses * leased.count
            seeds = ended.seeds * leased.count if ended.seeds else seeds
        raw = json.dumps({"max_tokens": asked.order.max_tokens, **ended.raw})
        return DrawnCell(replace(leased, seeds=seeds), responses, receipt, raw)


class Speed:
    """Counts samples and tokens; `words` gives their rates over the last half minute or since the start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int, int]] = deque([(clock(), 0, 0)])
        self._samples = self._tokens = 0

    def add(self, samples: int, tokens: int) -> None:
        """Count what was drawn."""
        self._samples += samples
        self._tokens += tokens
        now = self._clock()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._samples, self._tokens))
        while len(self._marks) > 1 and now - self._marks[1][0] > _WINDOW_S:
            self._marks.popleft()

    def words(self) -> str:
        """Return as in `12.5 samples/s, 3,210 tokens/s`."""
        return f"{self._per_s(1, self._samples):.1f} samples/s, {self.tokens_per_s():,.0f} tokens/s"

    def tokens_per_s(self) -> float:
        """Return the rate of tokens."""
        return self._per_s(2, self._tokens)

    def _per_s(self, place: int, count: int) -> float:
        first = self._marks[0]
        return (count - first[place]) / max(self._clock() - first[0], 1e-9)
