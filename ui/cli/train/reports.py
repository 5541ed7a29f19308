"""How trainings are shown: recipes, compositions, plans, ends of runs."""

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ui.cli import output
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from trainer_adapter.methods.recipes import Loss, Recipe
    from trainer_adapter.plans.compute import ComputePlan, Speed
    from trainer_adapter.plans.memory import MemoryPlan
    from trainer_adapter.runs.composing import Composition
    from trainer_adapter.runs.model_sizes import ModelShape
    from trainer_adapter.runs.running import Prepared, Trained
    from ui.cli.train.pilot import Pilot


def loss_in_words(loss: "Loss") -> str:
    """Return the loss axis in one line."""
    clip = f"clip {loss.clip_low:g}/{loss.clip_high:g}"
    dual = "" if loss.dual_clip is None else f", dual clip {loss.dual_clip:g}"
    kl = f"KL {loss.kl_coef:g} {loss.kl}" if loss.kl_coef else "no KL"
    return f"{clip}{dual}, {loss.aggregation}, {kl}"


def print_recipes(recipes: Sequence["Recipe"]) -> None:
    columns = {"recipe": "name", "N": "neighbors", "G": "responses"}
    axes = ("sampling", "group", "advantage", "weights", "anchor", "loss", "filter", "reward")
    columns |= {axis: axis for axis in axes}
    rows = [{**vars(recipe), "loss": loss_in_words(recipe.loss)} for recipe in recipes]
    output.table(list(columns), [[row[name] for name in columns.values()] for row in rows])


def print_composition(composition: "Composition") -> None:
    from trainer_adapter.runs.settings import SOURCES

    recipe = composition.recipe
    settings = "".join(f", {name} {value:g}" for name, value in recipe.settings.items())
    output.heading(f"{recipe.name}: {recipe.summary}")
    output.say(_preset(composition))
    output.table(
        ["axis", "choice"],
        [
            [
                "rollouts",
                f"N={recipe.neighbors}, G={recipe.responses}: {recipe.rollouts} responses per question",
            ],
            ["sampling", recipe.sampling],
            ["group", recipe.group],
            ["advantage", recipe.advantage + settings],
            ["token weights", recipe.weights],
            ["anchor", recipe.anchor],
            ["loss", loss_in_words(recipe.loss)],
            ["filter", recipe.filter],
            ["reward", recipe.reward],
        ],
    )
    output.say()
    output.heading(f"overrides of verl's configuration, {composition.machine.name}")
    overrides = [each for each in composition.values if not isinstance(each.value, dict)]
    output.table(
        ["key", "value", "source", "why"],
        [[each.key, _plain(each.value), each.source, each.reason] for each in overrides],
    )
    output.say()
    output.heading("sources")
    for source in dict.fromkeys(each.source for each in overrides):
        output.say(f"{source}: {SOURCES[source]}")


def _preset(composition: "Composition") -> str:
    preset = composition.preset
    return f"preset {preset.name}: {preset.summary}; the paper's prompt: {preset.prompt_words}"


def composition_record(composition: "Composition") -> dict[str, Any]:
    """Return the machine-readable form of `recipes show`."""
    return {
        "preset": composition.preset.name,
        "recipe": composition.recipe.to_json(),
        "plug_in": composition.settings.model_dump(),
        "machine": asdict(composition.machine),
        "overrides": [asdict(each) for each in composition.values],
        "arguments": composition.arguments(),
    }


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A training before it starts: the work of its methods, and what speaks against it."""

    composition: "Composition"
    shape: "ModelShape"
    memory: "MemoryPlan"
    plans: Sequence["ComputePlan"]
    speed: "Speed"
    pilot: "Pilot | None"
    warnings: Sequence[str]


def print_plan(estimate: Estimate) -> None:
    composition, memory, plans, pilot = estimate.composition, estimate.memory, estimate.plans, estimate.pilot
    model = composition.value("actor_rollout_ref.model.path")
    adapter = memory.adapter_parameters
    also = f", A = {adapter / 1000000000.0:.3g}B of an adapter" if adapter else ""
    output.heading(
        f"{composition.recipe.name}, {model} ({estimate.shape.parameters / 1000000000.0:.2f}B "
        f"parameters{also}), {composition.machine.name} with {memory.gpu_gib:g} GiB each"
    )
    output.say(f"preset {composition.preset.name}: settings of {composition.preset.summary}")
    at_most = plans[0].at_most
    columns = ["method", "responses per question", "epochs", "steps", "updates", "responses"]
    columns += ["max tokens" if at_most else "tokens", "generation h", "training h"]
    columns += ["no gradient"] if pilot is not None else []
    rows: list[list[object]] = []
    for plan in plans:
        row: list[object] = [
            plan.method,
            plan.responses_per_question,
            plan.epochs,
            plan.steps,
            plan.updates,
            plan.responses,
        ]
        row += [f"{plan.tokens:.3g}", plan.generation_hours, plan.training_hours]
        rows.append([*row, _percent(plan.no_gradient)] if pilot is not None else row)
    output.table(columns, rows)
    for plan in plans:
        if plan.drawn is not None:
            dropped = "including those that dynamic sampling drops"
            output.say(f"{plan.method}, {dropped}: {plan.drawn:,.0f} responses")
    if pilot is not None and pilot.interval is not None:
        low, high = pilot.interval
        output.say(
            f"groups without a gradient at the start, by pilot {pilot.run}: "
            f"{_percent(plans[0].no_gradient)} [{_percent(low)}, {_percent(high)}]"
        )
    for missing, option in (
        (estimate.speed.tokens_per_second, "--assume tokens_per_second=N"),
        (estimate.speed.training_tflops, "--assume training_tflops=N"),
    ):
        if missing is None:
            output.say(f"time is not fully known: give {option}")
    output.say()
    output.heading("memory of one GPU, GiB (estimated)")
    output.table(
        ["phase", "part", "GiB", "formula"],
        [[part.phase, part.what, round(part.gib, 1), part.formula] for part in memory.parts],
    )
    for phase in ("rollout", "update"):
        output.say(f"{phase}: {memory.total(phase):.1f} of {memory.gpu_gib:g} GiB")
    output.say(
        f"cache: {memory.cache_tokens:,} tokens per replica, {memory.concurrent:.0f} responses of full "
        "length at once"
    )
    if memory.host_gib:
        output.say(f"host memory for data kept off the GPUs: {memory.host_gib:.0f} GiB")
    size = memory.checkpoint_gib
    output.say(
        f"disk: {size:.0f} GiB per checkpoint" if size >= 1 else f"disk: {size:.2g} GiB per checkpoint"
    )
    output.say(
        "assumed: flash-attn is installed, so rows are packed; without it, add "
        "verl.actor_rollout_ref.model.use_remove_padding=false"
        if memory.packed
        else "assumed: no flash-attn, so the rows of a micro-batch are padded"
    )


def plan_record(estimate: Estimate) -> dict[str, Any]:
    """Return the machine-readable form of `train plan`."""
    composition, memory, pilot = estimate.composition, estimate.memory, estimate.pilot
    return {
        "preset": composition.preset.name,
        "recipe": composition.recipe.to_json(),
        "model": composition.value("actor_rollout_ref.model.path"),
        "parameters": estimate.shape.parameters,
        "machine": asdict(composition.machine),
        "speed": asdict(estimate.speed),
        "methods": [{**asdict(plan), "hours": plan.hours} for plan in estimate.plans],
        "memory": {
            **asdict(memory),
            "rollout_gib": memory.total("rollout"),
            "update_gib": memory.total("update"),
            "fits": memory.fits,
        },
        "pilot": None
        if pilot is None
        else {"run": pilot.run, "interval": pilot.interval, "mean_tokens": pilot.mean_tokens},
        "warnings": list(estimate.warnings),
    }


def prepared_record(prepared: "Prepared") -> dict[str, Any]:
    """Return the machine-readable form of `train run --dry-run`."""
    return {
        "run": prepared.name,
        "folder": str(prepared.folder.path),
        "command": list(prepared.command),
        "environment": dict(prepared.environment),
        "spec": dict(prepared.spec),
        "settings": [asdict(each) for each in prepared.composition.values],
        "versions": dict(prepared.versions),
        "notes": list(prepared.notes),
    }


def print_trained(trained: "Trained") -> None:
    from trainer_adapter.runs.run_folder import RunFolder

    attempt = trained.attempt
    output.say(f"run         {trained.run} in {trained.folder}")
    output.say(f"last step   {'none' if attempt.step is None else attempt.step}")
    saved = (
        "none" if attempt.checkpoint is None else f"{trained.folder}/checkpoints, step {attempt.checkpoint}"
    )
    output.say(f"checkpoint  {saved}")
    output.say(f"log         {trained.log}")
    if trained.left_behind and not trained.finished:
        output.say(f"ended       {trained.left_behind} leftover processes")
    for alarm in RunFolder(trained.folder).alarms():
        output.say(f"alarm       {alarm}")
    if attempt.step is not None:
        output.say(f"rollouts    tagrpo rollouts list {trained.run}")


def trained_record(trained: "Trained") -> dict[str, Any]:
    """Return the machine-readable form of `train run`."""
    from trainer_adapter.runs.run_folder import RunFolder

    return {
        "run": trained.run,
        "folder": str(trained.folder),
        "finished": trained.finished,
        **asdict(trained.attempt),
        "killed": trained.killed,
        "left_behind": trained.left_behind,
        "log": str(trained.log),
        "errors": list(trained.errors),
        "hints": list(trained.hints),
        "alarms": list(RunFolder(trained.folder).alarms()),
    }


def why_unfinished(trained: "Trained") -> str:
    """Say why a run did not come to its end, and how to go on."""
    attempt = trained.attempt
    saved = (
        "step 1, since nothing was saved yet,"
        if attempt.checkpoint is None
        else f"the checkpoint of step {attempt.checkpoint}"
    )
    if attempt.stopped_by is not None:
        how = "verl had to be killed" if trained.killed else "verl ended"
        return (
            f"stopped by {attempt.stopped_by}, {how}. Resume from {saved} with {resume_command(trained.run)}."
        )
    errors = "".join(f"\n  {line}" for line in trained.errors)
    hints = "".join(f"\n{hint}." for hint in trained.hints)
    return (
        f"verl {_ended(attempt.returncode)}; the last errors in {trained.log}:{errors}{hints}\nFix the "
        f"cause, then resume from {saved} with {resume_command(trained.run)}."
    )


def _ended(returncode: int | None) -> str:
    if returncode is None or returncode >= 0:
        return f"ended with exit code {returncode}"
    name = signal.Signals(-returncode).name
    wanting = " (the kernel does this if memory runs out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{wanting}"


def _plain(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"
