"""Plan a training before it starts: its responses and time by formula, its memory, a pilot's forecast."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from trainer_adapter.config import PlanAssumptions, TrainConfig
from trainer_adapter.methods.recipes import RECIPES, Recipe, find_recipe
from trainer_adapter.plans.memory import MemoryPlan, plan_memory
from trainer_adapter.runs.assignments import updates_of_a_batch
from trainer_adapter.runs.composing import Composition, compose_training
from trainer_adapter.runs.data import read_data
from trainer_adapter.runs.model_sizes import ModelShape, find_shape

if TYPE_CHECKING:
    from evaluator.signal.shapes import Forecast, GroupShape
    from service.database import Database

_HOUR = 3600.0


@dataclass(frozen=True)
class ComputePlan:
    """What one way of training draws, and how long it takes."""

    method: str
    responses_per_question: int
    epochs: float  # over the training questions
    steps: int  # batches of questions that are trained on
    updates: int  # of the weights, one for each mini-batch and pass over it
    responses: int  # trained on in all, without those that dynamic sampling drops
    tokens: float  # of the responses, at the mean or, `at_most`, at the longest length
    at_most: bool
    generation_hours: float | None  # None where the speed is not known
    training_hours: float | None
    no_gradient: float | None = None  # predicted share of groups with equal rewards; None without a pilot
    drops: bool = False  # dynamic sampling draws responses that are not trained on
    drawn: float | None = None  # responses with those; None where nothing is known of them
    hours: float | None = None  # generation, then training


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
    # of the eval run over the neighbor set: its name, mean tokens of a response, and the interval (95%) of
    # the recipe's share of groups without a gradient; each None if unknown
    pilot: Mapping[str, Any] | None

    @property
    def warnings(self) -> list[str]:
        """What speaks against this training."""
        return [*filter(None, [self.memory.shortage]), *warnings(self.composition, self.methods[0])]

    def to_json(self) -> dict[str, Any]:
        composition, memory = self.composition, self.memory
        totals = {"rollout_gib": memory.total("rollout"), "update_gib": memory.total("update")}
        return {
            "preset": composition.preset.name,
            "recipe": composition.recipe.to_json(),
            "model": composition.value("actor_rollout_ref.model.path"),
            "parameters": self.shape.parameters,
            "machine": composition.config.machine,
            "speed": self.assumed.model_dump(include={"tokens_per_second", "training_tflops", "mean_tokens"}),
            "methods": [asdict(method) for method in self.methods],
            "memory": {**asdict(memory), **totals, "fits": memory.fits},
            "pilot": self.pilot,
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
    forecast, pilot_record = None, None
    if pilot is not None:
        forecast, pilot_record = _read_pilot(pilot, composition.recipe, assumed, database)
        if assumed.mean_tokens is None:
            assumed = assumed.model_copy(update={"mean_tokens": pilot_record["mean_tokens"]})
    rows = questions or (0 if export is None else export.rows)
    methods = plan_compute(
        composition,
        shape,
        rows,
        assumed,
        None if forecast is None else partial(dead_share, forecast),
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
        pilot=pilot_record,
    )


def _read_pilot(
    run: str, recipe: Recipe, assumed: PlanAssumptions, database: "Callable[[], Database]"
) -> tuple["Forecast", dict[str, Any]]:
    """Return the forecast of `tagrpo diagnose forecast` for the groups of a recipe, and the plan's record."""
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
    row = {} if shape is None else forecast.row(shape)
    interval = (row["low"], row["high"]) if row else None
    return forecast, {"run": label, "interval": interval, "mean_tokens": tokens}


def plan_compute(
    composition: Composition,
    shape: ModelShape,
    questions: int,
    assumed: PlanAssumptions,
    no_gradient: Callable[[Recipe], float] | None = None,
    *,
    compare: Sequence[Recipe] = (),
    responses: int | None = None,
) -> tuple[ComputePlan, ...]:
    """Return the plan of a run, and of others at equal responses; by default of GRPO, at equal epochs too.

    Times exclude prompts, validation, checkpoints and waiting for the longest response: they are lower
    bounds. Training takes 2P operations per token for the old log-probs, 2P for those of the reference
    policy, and 8P for each pass of the update (`ppo_epochs`) with gradient checkpointing (6P for an adapter
    alone); and 2P of responses to neighbors if log-probs on their own prompts are needed.

    Args:
        questions: of the training file.
        assumed: without its mean of tokens, tokens are a bound: those of the longest responses.
        no_gradient: predicts the share of groups without a gradient.
        compare: recipes to compare with, instead of GRPO.
        responses: sampled in all by each, including dropped ones; by default those of the run.
    """
    recipe, value, devices = composition.recipe, composition.value, composition.config.devices
    batch = int(value("data.train_batch_size"))
    if questions < batch:
        raise InputError(
            f"{questions:,} questions do not fill a batch of {batch:,}. Pass "
            f"verl.data.train_batch_size={questions}."
        )
    mean = assumed.mean_tokens or float(value("data.max_response_length"))
    passes = int(value("actor_rollout_ref.actor.ppo_epochs", 1))
    updates = passes * updates_of_a_batch(batch, int(value("actor_rollout_ref.actor.ppo_mini_batch_size")))

    def planned(method: str, recipe: Recipe, steps: int, epochs: float) -> ComputePlan:
        share = None if no_gradient is None else no_gradient(recipe)
        kept = steps * batch * recipe.rollouts
        drawn = generation = training = None
        if recipe.drops_dead_groups and share is not None:
            drawn = kept * _batches_for_one(share, composition)
        if assumed.tokens_per_second is not None:
            generation = (drawn or kept) * mean / (assumed.tokens_per_second * devices) / _HOUR
        if assumed.training_tflops is not None:
            a_parameter = 2.0 + 2 * (recipe.loss.kl_coef > 0) + passes * (8 - 2 * (composition.lora_rank > 0))
            if composition.settings.corrects_engine and recipe.anchor != "own":
                a_parameter += 2 * (
                    recipe.neighbors / (recipe.neighbors + 1) if recipe.sampling == "split" else 0.5
                )
            a_parameter += 2 * (share or 0.0) * (recipe.filter == "replay")
            operations = kept * mean * a_parameter * shape.parameters
            training = operations / (assumed.training_tflops * 1e12 * devices) / _HOUR
        return ComputePlan(
            method=method,
            responses_per_question=recipe.rollouts,
            epochs=epochs,
            steps=steps,
            updates=steps * updates,
            responses=kept,
            tokens=kept * mean,
            at_most=assumed.mean_tokens is None,
            generation_hours=generation,
            training_hours=training,
            no_gradient=share,
            drops=recipe.drops_dead_groups,
            drawn=drawn,
            hours=None if generation is None or training is None else generation + training,
        )

    steps = composition.count_steps(questions)
    if compare or responses is not None:
        total, at_equal = responses or steps * batch * recipe.rollouts, []
        for each in (recipe, *compare):
            share = no_gradient(each) if no_gradient is not None and each.drops_dead_groups else 0.0
            a_step = round(batch * each.rollouts * _batches_for_one(share, composition))
            steps = total // a_step
            if not steps:
                raise InputError(
                    f"{total:,} responses do not fill one step of {each.name}, which samples {a_step:,}. "
                    "Raise --responses, or lower verl.data.train_batch_size."
                )
            at_equal.append(planned(each.name, each, steps, round(steps * batch / questions, 2)))
        return tuple(at_equal)
    epochs: float = int(value("trainer.total_epochs"))
    if steps < questions // batch * epochs:
        epochs = round(steps * batch / questions, 2)
    first = planned(recipe.name, recipe, steps, epochs)
    if recipe.neighbors == 0:
        return (first,)
    alone = composition.preset.applied(RECIPES["grpo"], {"reward": "binary"})
    draws = max(recipe.responses, min(recipe.rollouts, alone.responses))
    if recipe.rollouts % draws:  # no number of epochs would make responses equal
        draws = recipe.responses
    alone, times = replace(alone, responses=draws), recipe.rollouts // draws
    if times == 1:
        return (first, planned("grpo, equal epochs and responses", alone, steps, epochs))
    matched = replace(alone, responses=recipe.rollouts)
    return (
        first,
        planned("grpo, equal epochs", alone, steps, epochs),
        planned("grpo, equal responses", alone, steps * times, epochs * times),
        planned("grpo_matched, equal epochs and responses", matched, steps, epochs),
    )


def _batches_for_one(share: float, composition: Composition) -> float:
    """Return how many batches dynamic sampling draws for one that it keeps, where `share` has no gradient."""
    most = composition.settings.max_gen_batches
    return min(1 / (1 - share), most) if share < 1 else most


def group_shape(recipe: Recipe) -> "GroupShape | None":
    """Return the groups of a recipe as the forecast knows them; None where they are of several kinds."""
    from evaluator.signal.shapes import GroupShape, RescueShape

    if recipe.sampling == "rescue":
        return RescueShape(recipe.name, recipe.neighbors, recipe.rollouts)
    if recipe.group == "joint":
        return GroupShape(recipe.name, recipe.neighbors, recipe.responses)
    return None


def dead_share(forecast: "Forecast", recipe: Recipe) -> float:
    """Return the predicted share of a recipe's groups with equal rewards."""
    from evaluator.signal.shapes import GroupShape

    shape = group_shape(recipe)
    if shape is not None:
        return forecast.share(shape)
    alone = forecast.share(GroupShape("question", 0, recipe.responses))
    neighbor = forecast.share(GroupShape("neighbor", 1, recipe.responses, original=False))
    return (alone + recipe.neighbors * neighbor) / (recipe.neighbors + 1)


def uncounted(plans: Sequence[ComputePlan]) -> list[str]:
    """Return which of them draw more than is counted, as nothing foretells what they drop."""
    return [
        (
            f"{plan.method} samples more responses than the {plan.responses:,} that it keeps. Pass --pilot "
            "to estimate how many"
        )
        for plan in plans
        if plan.drops and plan.drawn is None
    ]


def warnings(composition: Composition, first: ComputePlan) -> list[str]:
    """Return what the forecast means for the run; empty without a pilot."""
    share, recipe = first.no_gradient, composition.recipe
    if share is None:
        return []
    warned = []
    if share >= 0.5 and recipe.filter == "none":
        warned.append(
            f"{share:.0%} of the groups will have equal rewards and no gradient at first. To change that, "
            "use more responses, neighbors, dynamic sampling, or other questions (`tagrpo diagnose --only "
            "cost`)"
        )
    if recipe.filter == "replay":
        steps = composition.settings.replay_steps
        few = f"; they are only {steps * (1 - share):.0%} of a step" if steps * (1 - share) < share else ""
        warned.append(
            f"mixed groups of the last {steps} steps replace the {share:.0%} without a gradient{few}"
        )
    if recipe.drops_dead_groups:
        batches = 1 / (1 - share) if share < 1 else float("inf")
        limit = composition.settings.max_gen_batches
        warned.append(
            f"at first, dynamic sampling will sample {batches:.1f} times as many groups as it keeps"
            + (
                f"; it stops after {limit} batches (run.max_gen_batches), so a step would have only about "
                f"{min(1.0, limit * (1 - share)):.0%} of its groups"
                if batches > limit
                else ""
            )
        )
    return warned
