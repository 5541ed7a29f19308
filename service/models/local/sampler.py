"""The sampler of a checkpoint: leases cells, decodes their samples in one batch, stores whole cells."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.errors import InputError, PrerequisiteError
from service.models.checkpoint import Checkpoint, open_checkpoint
from service.models.protocol import Report
from service.models.rendering import PlannedPrompts, plan_prompts
from service.models.settings import DrawingSpec
from service.models.speed import Speed
from service.models.stopping import INTERRUPTED, stop_on_signals
from service.models.work import Drawn, DrawnCell, SampleRequest, SamplingWork
from service.runs.cells import Receipt
from service.runs.filling import Filled

if TYPE_CHECKING:
    from service.models.local.rows import Decoder, Row

_ROWS_ON_CPU, _ROWS_ON_GPU = 64, 256
_REPORT_EVERY_S = 1.0


@dataclass(eq=False)
class _OpenCell:
    """A leased cell with the responses that have come."""

    request: SampleRequest
    began: float
    rows: "list[Row | None]" = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return all(row is not None for row in self.rows)


class LocalSampler:
    """Draws with transformers on a CPU or a GPU; see `service.models.protocol.Sampler`.

    `device` is auto (a GPU where there is one), cpu, cuda, cuda:1 or mps; `dtype` auto is the checkpoint's.
    `batch_size` rows are decoded at a time (64 on a CPU, 256 on a GPU), of at most `batch_tokens` tokens
    together (what fits into a share of the free memory). Neither changes what is drawn.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        for name, value in (("batch-size", batch_size), ("batch-tokens", batch_tokens)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; give at least 1.")
        self._name, self._revision = model, revision
        self._device, self._dtype = device, dtype
        self._batch_size, self._batch_tokens = batch_size, batch_tokens
        self._checkpoint: Checkpoint | None = None
        self._model: Any = None
        self._notices: list[str] = []

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know: raw text for want of a template, responses cut at the context, ..."""
        return tuple(dict.fromkeys(self._notices))

    def describe(self) -> Mapping[str, Any]:
        """Return engine, versions, weights, dtype, device and chat template: see `Sampler.describe`.

        Raises:
            PrerequisiteError: torch or transformers is not installed; model or device cannot be found.
        """
        checkpoint = self._open()
        import torch
        import transformers

        from service.models.local.loading import find_device, find_dtype

        template = checkpoint.renderer.template_id
        return {
            "sampler": "local",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "weights": checkpoint.weights,
            "dtype": find_dtype(self._dtype, checkpoint),
            **find_device(self._device).describe(),
            "chat_template": template,
            **({} if template else {"form": "raw"}),
        }

    def check(self, spec: DrawingSpec) -> None:
        """See that a run can be drawn, before it is made; what there is to say goes to `notices`.

        Raises:
            InputError: a system prompt, but the model has no chat template.
        """
        self._notices += self._open().renderer.notices(spec.prompt)

    def fill(self, work: SamplingWork, report: Report) -> Filled:
        """Draw all empty cells; SIGINT and SIGTERM stop between two tokens (`stopped` is `interrupted`).

        Raises:
            InputError: a prompt does not fit into the model's context; the logits are no numbers.
            PrerequisiteError: the model cannot be loaded, or not even one response fits into memory.
        """
        checkpoint, sampling = self._open(), work.spec.sampling
        prompts = plan_prompts(
            checkpoint.renderer,
            work.spec.prompt,
            work.problems.values(),
            max_tokens=sampling.max_tokens,
            context=checkpoint.context,
        )
        self._notices += prompts.notices
        with work.keep_leases(), stop_on_signals() as stop:
            decoder = self._decoder(work, stop.is_set)
            filling = _Filling(work, decoder, prompts, checkpoint.tokenizer, report)
            filled = filling.run(stop.is_set)
        self._notices += decoder.notices
        return filled

    def _open(self) -> Checkpoint:
        if self._checkpoint is None:
            try:
                import torch  # noqa: F401
            except ImportError as error:
                raise PrerequisiteError("torch is not installed: pip install 'tagrpo[local]'") from error
            self._checkpoint = open_checkpoint(self._name, self._revision, "local")
        return self._checkpoint

    def _decoder(self, work: SamplingWork, is_stopped: Callable[[], bool]) -> "Decoder":
        from service.models.local import loading
        from service.models.local.cache import Room
        from service.models.local.decoding import MovingBatch
        from service.models.local.probing import can_share_a_batch
        from service.models.local.rows import Choosing
        from service.models.local.whole import WholeBatches

        checkpoint, sampling = self._open(), work.spec.sampling
        device = loading.find_device(self._device)
        if self._model is None:
            dtype = loading.find_dtype(self._dtype, checkpoint)
            self._model = loading.load_model(checkpoint, device, dtype)
            self._stop_ids = loading.stop_ids(self._model, checkpoint.tokenizer)
            loading.forget_generation_settings(self._model)
        choosing = Choosing(sampling.temperature, sampling.top_p, self._stop_ids)
        rows = self._batch_size or (_ROWS_ON_CPU if device.kind == "cpu" else _ROWS_ON_GPU)
        if not can_share_a_batch(self._model):
            return WholeBatches(self._model, choosing, rows, is_stopped)
        places = self._batch_tokens or loading.room_for_keys(self._model, device)
        return MovingBatch(self._model, choosing, Room(rows, places))


class _Filling:
    """One pass: from leased cells to rows, from finished rows to stored cells."""

    def __init__(
        self,
        work: SamplingWork,
        decoder: "Decoder",
        prompts: PlannedPrompts,
        tokenizer: Any,
        report: Report,
    ) -> None:
        self._work, self._decoder, self._prompts = work, decoder, prompts
        self._tokenizer, self._report = tokenizer, report
        self._is_greedy = work.spec.sampling.temperature == 0
        self._open: set[_OpenCell] = set()
        self._speed = Speed()
        self._stored_samples, self._reported = 0, time.monotonic()
        self._filled = Filled()

    def run(self, is_stopped: Callable[[], bool]) -> Filled:
        is_last = False
        while not is_stopped():
            if not is_last and self._decoder.waiting < self._decoder.places:
                is_last = not self._lease()
            if not self._open:
                return self._filled
            self._take_in(self._decoder.step())
        self._filled.stopped = INTERRUPTED
        self._filled.message = "interrupted; whole cells are stored"
        return self._filled

    def _lease(self) -> bool:
        from service.models.local.rows import Row

        per_cell = 1 if self._is_greedy else self._work.spec.sampling.samples_per_request
        requests = self._work.lease(-(-2 * self._decoder.places // per_cell))
        rows: list[Row] = []
        for request in requests:
            planned = self._prompts.by_problem[request.problem.id]
            cell = _OpenCell(request, time.monotonic())
            # At temperature 0 all samples of a prompt are one text.
            seeds = request.seeds[:1] if self._is_greedy else request.seeds
            cell.rows = [None] * len(seeds)
            self._open.add(cell)
            rows += [
                Row(planned.prompt.token_ids, planned.max_tokens, seed, cell, place)
                for place, seed in enumerate(seeds)
            ]
        self._decoder.add(rows)
        return bool(requests)

    def _take_in(self, finished: "Sequence[Row]") -> None:
        complete: list[_OpenCell] = []
        for row in finished:
            cell: _OpenCell = row.owner
            cell.rows[row.place] = row
            if cell.is_complete:
                complete.append(cell)
        self._speed.add(len(finished), sum(len(row.tokens) for row in finished))
        if complete:
            self._work.store([self._drawn(cell) for cell in complete])
            self._open.difference_update(complete)
            self._filled.answered += len(complete)
            self._stored_samples += sum(cell.request.count for cell in complete)
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S or not self._open:
            running = self._decoder.running
            self._report(self._stored_samples, f"{self._speed.words()}, {running} at a time")
            self._stored_samples, self._reported = 0, now

    def _drawn(self, cell: _OpenCell) -> DrawnCell:
        request = cell.request
        planned = self._prompts.by_problem[request.problem.id]
        responses = [self._response(row, planned.prompt.token_ids) for row in cell.rows if row is not None]
        if self._is_greedy:
            responses *= request.count
        receipt = Receipt(
            model=self._work.spec.model,
            prompt_tokens=len(planned.prompt.token_ids),
            completion_tokens=sum(len(row.tokens) for row in cell.rows if row is not None),
            cost_usd=0.0,
            attempts=1,
            latency_s=time.monotonic() - cell.began,
        )
        return DrawnCell(request, responses, receipt, json.dumps({"max_tokens": planned.max_tokens}))

    def _response(self, row: "Row", prompt: tuple[int, ...]) -> Drawn:
        assert row.stop_reason is not None
        tokens = row.tokens[:-1] if row.stop_reason == "stop" else row.tokens
        text = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return Drawn(text, row.stop_reason, len(prompt), len(row.tokens))
