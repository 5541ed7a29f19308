"""The sampler of a checkpoint: leases cells, decodes their samples in one batch, stores whole cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.errors import InputError, PrerequisiteError
from service.models.checkpoint import Checkpoint, open_checkpoint
from service.models.drawing import CellsToDraw, ReportSamples, Response, images_of
from service.models.offline import CheckpointSampler, FinishedOrder, OfflineFilling, Order
from service.models.processors import Pictures, image_tokens
from service.models.settings import DrawingSpec, SamplingSettings
from service.models.stopping import stop_on_signals
from service.runs.filling import Filled

if TYPE_CHECKING:
    from service.models.local.rows import Decoder, PromptImages, Row

_ROWS_ON_CPU, _ROWS_ON_GPU = 64, 256


class LocalSampler(CheckpointSampler):
    """Draws with transformers on a CPU or a GPU; see `service.models.drawing.Sampler`.

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
        super().__init__(model, revision)
        self._device, self._dtype = device, dtype
        self._batch_size, self._batch_tokens = batch_size, batch_tokens
        self._checkpoint: Checkpoint | None = None
        self._model: Any = None

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
            **checkpoint.reads_images_by(),
            "chat_template": template,
            **({} if template else {"form": "raw"}),
        }

    def check(self, spec: DrawingSpec) -> None:
        """See that a run can be drawn, before it is made; what there is to say goes to `notices`.

        Raises:
            InputError: settings that it does not draw by, no seed, or a system prompt but no chat template.
        """
        if spec.sampling.beyond:
            names = ", ".join(spec.sampling.beyond)
            raise InputError(
                f"--sampler local draws by temperature and top_p alone, not by {names}; leave that out, "
                "or take --sampler vllm or a vLLM server."
            )
        if spec.sampling.seed is None:
            raise InputError("--sampler local draws by a seed for each response; --seed none is not for it.")
        super().check(spec)

    def fill(self, cells: CellsToDraw, report: ReportSamples) -> Filled:
        """Draw all empty cells; SIGINT and SIGTERM stop between two tokens (`stopped` is `interrupted`).

        Raises:
            InputError: a prompt does not fit into the model's context; the logits are no numbers.
            PrerequisiteError: the model cannot be loaded, or not even one response fits into memory.
        """
        self.check(cells.spec)
        checkpoint = self._open()
        prompts = self._plan(cells, checkpoint.context)
        self._notices += prompts.notices
        with cells.keep_leases(), stop_on_signals() as stop:
            pictured = any(images_of(problem) for problem in cells.problems.values())
            decoder = self._decoder(cells.spec.sampling, stop.is_set, pictured)
            engine = _Engine(decoder, checkpoint, self._model.dtype)
            filled = OfflineFilling(cells, engine, prompts, report).run(stop.is_set)
        self._notices += decoder.notices
        return filled

    def close(self) -> None:
        """Give the memory of the weights back."""
        if self._model is not None:
            from service.models.local.loading import give_memory_back

            self._model = None
            give_memory_back()

    def _open(self) -> Checkpoint:
        if self._checkpoint is None:
            try:
                import torch  # noqa: F401
            except ImportError as error:
                raise PrerequisiteError("torch is not installed: pip install 'tagrpo[local]'") from error
            self._checkpoint = open_checkpoint(self._name, self._revision, "local")
        return self._checkpoint

    def _decoder(
        self, sampling: SamplingSettings, is_stopped: Callable[[], bool], pictured: bool
    ) -> "Decoder":
        from service.models.local import loading
        from service.models.local.cache import Room
        from service.models.local.decoding import MovingBatch
        from service.models.local.images import has_positions_of_images
        from service.models.local.probing import can_share_a_batch
        from service.models.local.rows import Choosing
        from service.models.local.whole import WholeBatches

        checkpoint = self._open()
        device = loading.find_device(self._device)
        if self._model is None:
            dtype = loading.find_dtype(self._dtype, checkpoint)
            self._model = loading.load_model(checkpoint, device, dtype)
            self._stop_ids = loading.stop_ids(self._model, checkpoint.tokenizer)
            loading.forget_generation_settings(self._model)
        never = image_tokens(self._model.config)
        choosing = Choosing(sampling.temperature, sampling.top_p, self._stop_ids, never)
        rows = self._batch_size or (_ROWS_ON_CPU if device.kind == "cpu" else _ROWS_ON_GPU)
        alike = has_positions_of_images(self._model) or not pictured
        if not (alike and can_share_a_batch(self._model)):
            return WholeBatches(self._model, choosing, rows, is_stopped)
        places = self._batch_tokens or loading.room_for_keys(self._model, device)
        return MovingBatch(self._model, choosing, Room(rows, places))


@dataclass(eq=False)
class _OpenOrder:
    """An order with the rows of it that have ended."""

    order: Order
    rows: "list[Row | None]"


class _Engine:
    """A decoder as an engine: from orders to rows, from ended rows to orders whose rows have all ended."""

    name = "transformers"

    def __init__(self, decoder: "Decoder", checkpoint: Checkpoint, dtype: Any) -> None:
        self._decoder, self._checkpoint, self._dtype = decoder, checkpoint, dtype

    @property
    def at_work(self) -> str:
        return f"{self._decoder.running} at a time"

    def wanted(self, samples_per_order: int) -> int:
        places = self._decoder.places
        return -(-2 * places // samples_per_order) if self._decoder.waiting < places else 0

    def submit(self, orders: Sequence[Order], sampling: SamplingSettings) -> None:
        from service.models.local.rows import Row

        rows: list[Row] = []
        for order in orders:
            owner = _OpenOrder(order, [None] * len(order.seeds))
            images = self._images(order.pictures)
            rows += [
                Row(tuple(order.prompt), order.max_tokens, seed, owner, place, images)
                for place, seed in enumerate(order.seeds)
                if seed is not None  # as `check` has seen
            ]
        self._decoder.add(rows)

    def step(self) -> list[FinishedOrder]:
        finished: list[FinishedOrder] = []
        for row in self._decoder.step():
            owner: _OpenOrder = row.owner
            owner.rows[row.place] = row
            if None not in owner.rows:
                responses = tuple(self._response(each) for each in owner.rows if each is not None)
                finished.append(FinishedOrder(owner.order.number, responses))
        return finished

    def abort(self) -> None:
        """The decoder is given up as a whole."""

    def _images(self, pictures: Pictures | None) -> "PromptImages | None":
        from service.models.local.images import as_given
        from service.models.local.rows import PromptImages

        if pictures is None:
            return None
        processor = self._checkpoint.processor

        def load() -> Mapping[str, Any]:
            made = processor(text=[pictures.text], images=pictures.opened(), return_tensors="pt")
            return as_given(made, self._dtype)

        return PromptImages(pictures.key, load)

    def _response(self, row: "Row") -> Response:
        assert row.stop_reason is not None
        tokens = row.tokens[:-1] if row.stop_reason == "stop" else row.tokens
        text = self._checkpoint.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return Response(text, row.stop_reason, len(row.prompt), len(row.tokens))
