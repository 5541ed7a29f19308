"""The script of a planned comparison: trains each recipe, evaluates all, writes the report."""

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import InputError
from trainer_adapter.runs.assignments import changed_axes

if TYPE_CHECKING:
    from trainer_adapter.config import TrainConfig
    from trainer_adapter.plans.compute import ComputePlan
    from trainer_adapter.runs.composing import Composition

DEFAULT_BENCHMARKS = "amc12 olympiadbench aime24 aime25 minerva"
SAVES = "verl.actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"

_HEAD = """\
#!/usr/bin/env bash
# Trains recipes at {responses:,} responses each{dropped},
# evaluates them and the model itself, and writes the report.
# Run it again to resume: finished parts are not repeated. --dry-run prints the commands of the trainings
# and the requests of the model's evaluation. Set other choices by environment variables, as in
#   SEEDS="1 2" BENCHMARKS="amc12 aime24" PRESET=paper-eval SAMPLER=vllm REPORT=comparison bash {name}
set -euo pipefail

SEEDS=${{SEEDS:-"1 2 3"}}
BENCHMARKS=${{BENCHMARKS:-"{benchmarks}"}}
PRESET=${{PRESET:-paper-eval}}
SAMPLER=${{SAMPLER:-vllm}}
DB=${{DB:-tagrpo.db}}
REPORT=${{REPORT:-comparison}}
DRY=""
if [ "${{1:-}}" = "--dry-run" ]; then DRY="--dry-run"; fi

train() {{ # name, recipe, steps, epochs, seed, changes
    local name=$1 recipe=$2 steps=$3 epochs=$4 seed=$5
    shift 5
    tagrpo train run "$recipe" {machine} \\
        --data {data} --model {model} --preset {preset} --name "$(name "$name" "$seed")" --db "$DB" $DRY \\
        "$@" verl.trainer.total_training_steps="$steps" verl.trainer.total_epochs="$epochs" \\
        run.seed="$seed" verl.data.seed="$seed" {saves}
}}

evaluate() {{ # name, model
    # shellcheck disable=SC2086
    tagrpo eval run $BENCHMARKS --name "$1" --model "$2" sampler="$SAMPLER" --preset "$PRESET" \\
        --db "$DB" $DRY
}}

name() {{ # of the recipe, seed
    echo "{prefix}-$1-s$2"
}}

for seed in $SEEDS; do
"""

_TAIL = """\
done

evaluate {prefix}-base {model}
if [ -n "$DRY" ]; then exit 0; fi
for seed in $SEEDS; do
{evaluations}
done

rows=({prefix}-base)
for name in {names}; do
    row=""
    for seed in $SEEDS; do row="$row${{row:++}}$(name "$name" "$seed")"; done
    rows+=("$name=$row")
done
tagrpo eval report "${{rows[@]}}" --db "$DB"
tagrpo eval report "${{rows[@]}}" --db "$DB" --overwrite --out "$REPORT.md"
tagrpo eval report "${{rows[@]}}" --db "$DB" --overwrite --out "$REPORT.csv"
"""


def comparison_script(
    target: Path,
    config: "TrainConfig",
    composition: "Composition",
    plans: Sequence["ComputePlan"],
    beside: Sequence[str],
    *,
    questions: int,
) -> str:
    """Return the script that trains, evaluates and reports what a plan compares.

    Args:
        target: the file it will be, for its own words.
        config: its changes to axes are for its own recipe, all else is for every recipe.
        composition: what verl is told for it.
        plans: one for each recipe: that of the config, then those of `beside`.
        beside: names, or TOML files.

    Raises:
        InputError: two recipes of one name.
    """
    names = [re.sub(r"[^\w.-]+", "-", plan.method).strip("-") for plan in plans]
    if len(set(names)) < len(names):
        raise InputError(
            f"{', '.join(names)}: a comparison needs a different name for each recipe. Name each one "
            "(recipe.title=mine, or `name` in its file)."
        )
    model, recipe = str(config.model), config.recipe
    axes = changed_axes(recipe) + ([] if recipe.title is None else [f"recipe.title={recipe.title}"])
    settings = config.run.model_dump(exclude_defaults=True)
    shared = [f"run.{key}={str(value).lower()}" for key, value in settings.items()]
    shared += [f"verl.{text}" for text in config.verl]
    batch = int(composition.value("data.train_batch_size"))
    words = ["--gpus", str(config.gpus), "--nodes", str(config.nodes)]
    if config.ray_address is not None:
        words.append(f"ray_address={config.ray_address}")
    prefix = Path(model).name
    trainings, evaluations = [], []
    for place, (name, base, plan) in enumerate(zip(names, [recipe.name, *beside], plans, strict=True)):
        epochs = math.ceil(plan.steps / (questions // batch))
        own = [*(axes if place == 0 else []), *shared]
        line = ["train", name, base, str(plan.steps), str(epochs)]
        trainings.append(f'    {shlex.join(line)} "$seed" {shlex.join(own)}'.rstrip())
        checkpoint = f"checkpoints/global_step_{plan.steps}/actor/huggingface"
        run = f'"$(name {shlex.quote(name)} "$seed")"'
        evaluations.append(f"    evaluate {run} runs/{run}/{checkpoint}")
    head = _HEAD.format(
        name=shlex.quote(target.name),
        responses=round(max(plan.drawn or plan.responses for plan in plans)),
        dropped=" (including what dynamic sampling drops)"
        if any(plan.drops and not plan.drawn for plan in plans)
        else "",
        benchmarks=DEFAULT_BENCHMARKS,
        machine=shlex.join(words),
        data=shlex.quote(str(config.data)),
        model=shlex.quote(model),
        preset=composition.preset.name,
        prefix=shlex.quote(prefix),
        saves=shlex.quote(SAVES),
    )
    tail = _TAIL.format(
        prefix=shlex.quote(prefix),
        model=shlex.quote(model),
        evaluations="\n".join(evaluations),
        names=shlex.join(names),
    )
    return head + "\n".join(trainings) + "\n" + tail


def write_script(target: Path, text: str) -> None:
    """Write a script that may be run.

    Raises:
        InputError: it is there already, or cannot be written.
    """
    from service.writing import write_text

    write_text(target, text, overwrite=None)
    target.chmod(0o755)
