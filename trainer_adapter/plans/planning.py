"""The plan of a training before it starts: its work beside other recipes, its memory, a pilot's forecast."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from trainer_adapter.config import PlanAssumptions, TrainConfig
from trainer_adapter.methods.recipes import Recipe, find_recipe
from trainer_adapter.plans.compute import (
    ComputePlan,
    dead_share,
    group_shape,
    plan_compute,
    uncounted,
    warnings,
)
from trainer_adapter.plans.memory import MemoryPlan, plan_memory
from trainer_adapter.runs.composing import Composition, compose_training
from trainer_adapter.runs.data import read_data
from trainer_adapter.runs.model_sizes import ModelShape, find_shape

if TYPE_CHECKING:
    from evaluator.signal.shapes import Forecast
    from service.database import Database


@dataclass(frozen=True)
class Pilot:
    """What an eval run over the neighbor set says of a training."""

    run: str
    forecast: "Forecast"  # for groups of any shape
    # 95%, of the recipe's share of groups without a gradient; None for groups of several kinds
    interval: tuple[float, float] | None
    mean_tokens: float | None  # of a response, over all prompts of the recipe; None if unknown


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A plan. `methods` holds the work of the recipe first, then that of those it is compared with."""

    config: TrainConfig
    composition: Composition
    questions: int
    shape: ModelShape
    memory: MemoryPlan
    methods: tuple[ComputePlan, ...]
    assumed: PlanAssumptions  # with the pilot's mean of tokens
    pilot: Pilot | None

    @property
    def notes(self) -> list[str]:
        return uncounted(self.methods)

    @property
    def warnings(self) -> list[str]:
        """What speaks against this training."""
        shortage = [] if self.memory.shortage is None else [self.memory.shortage]
        return shortage + warnings(self.composition, self.methods[0])

    def to_json(self) -> dict[str, Any]:
        composition, memory, pilot = self.composition, self.memory, self.pilot
        totals = {"rollout_gib": memory.total("rollout"), "update_gib": memory.total("update")}
        return {
            "preset": composition.preset.name,
            "recipe": composition.recipe.to_json(),
            "model": composition.value("actor_rollout_ref.model.path"),
            "parameters": self.shape.parameters,
            "machine": composition.config.machine,
            "speed": self.assumed.model_dump(include={"tokens_per_second", "training_tflops", "mean_tokens"}),
            "methods": [{**asdict(method), "hours": method.hours} for method in self.methods],
            "memory": {**asdict(memory), **totals, "fits": memory.fits},
            "pilot": pilot and {name: getattr(pilot, name) for name in ("run", "interval", "mean_tokens")},
            "warnings": self.warnings,
        }


def plan_training(
    config: TrainConfig,
    assumed: PlanAssumptions,
    database: "Callable[[], Database]",
    *,
    questions: int | None = None,
    pilot: str | None = None,
    compare: Sequence[str] = (),
    responses: int | None = None,
) -> TrainingPlan:
    """Plan a training; formulas, not measurements."""
    model = config.model
    if model is None or config.cpu:
        raise InputError("a plan is for a model on GPUs. Pass --model, and remove cpu=true.")
    if (config.data is None) == (questions is None):
        raise InputError("give an export with --data, or the number of questions with --questions.")
    if assumed.shift_sd is not None and pilot is None:
        raise InputError("--assume shift_sd requires --pilot.")
    if config.nodes > 1 and config.ray_address is None:
        config = config.model_copy(update={"ray_address": "auto"})
    export = None if config.data is None else read_data(config.data)
    composition = compose_training(config, export)
    shape = find_shape(model)
    forecast = None if pilot is None else _read_pilot(pilot, composition.recipe, assumed, database)
    if forecast is not None and assumed.mean_tokens is None:
        assumed = assumed.model_copy(update={"mean_tokens": forecast.mean_tokens})
    rows = questions or (0 if export is None else export.rows)
    methods = plan_compute(
        composition,
        shape,
        rows,
        assumed,
        None if forecast is None else lambda recipe: dead_share(forecast.forecast, recipe),
        compare=[composition.preset.applied(find_recipe(name)) for name in compare],
        responses=responses,
    )
    return TrainingPlan(
        config=config,
        composition=composition,
        questions=rows,
        shape=shape,
        memory=plan_memory(composition, shape, assumed.gpu_memory_gib),
        methods=methods,
        assumed=assumed,
        pilot=forecast,
    )


def _read_pilot(
    run: str, recipe: Recipe, assumed: PlanAssumptions, database: "Callable[[], Database]"
) -> Pilot:
    """Return the forecast of `tagrpo diagnose forecast` for the groups of a recipe."""
    from evaluator.signal.cost import mean_tokens
    from evaluator.signal.diagnosis import DiagnosisSettings, diagnose
    from evaluator.signal.sources import eval_source

    n = recipe.neighbors
    with database() as opened:
        source = eval_source(opened, [run])
    wanted = DiagnosisSettings(g=recipe.responses, n=n, shift_sd=assumed.shift_sd, seed=assumed.seed)
    [(label, forecast)] = diagnose(source, ["forecast"], wanted).forecasts.items()
    tokens, of_neighbor = mean_tokens(source.checkpoints[0])
    if n and tokens is not None:
        tokens = None if of_neighbor is None else (tokens + n * of_neighbor) / (n + 1)
    shape = group_shape(recipe)
    row = None if shape is None else forecast.row(shape)
    interval = None if row is None else (row["low"], row["high"])
    return Pilot(label, forecast, interval, tokens)
