"""The script of a planned comparison: trains each recipe, evaluates all, writes the report."""

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import InputError
from service.writing import write_text
from trainer_adapter.runs.assignments import changed_axes

if TYPE_CHECKING:
    from trainer_adapter.plans.planning import TrainingPlan

_SCRIPT = """\
#!/usr/bin/env bash
# Trains recipes at {responses:,} responses each{dropped},
# evaluates them and the model itself, and writes the report.
# Run it again to resume: finished parts are not repeated. --dry-run prints the commands of the trainings
# and the requests of the model's evaluation. Set other choices by environment variables, as in
#   SEEDS="1 2" BENCHMARKS="amc12 aime24" PRESET=paper-eval SAMPLER=vllm REPORT=comparison bash {name}
set -euo pipefail

SEEDS=${{SEEDS:-"1 2 3"}}
BENCHMARKS=${{BENCHMARKS:-"amc12 olympiadbench aime24 aime25 minerva"}}
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
        run.seed="$seed" verl.data.seed="$seed" \\
        verl.actor_rollout_ref.actor.checkpoint.save_contents='[model,optimizer,extra,hf_model]'
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
{trainings}
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


def write_script(target: Path, plan: "TrainingPlan", others: Sequence[str]) -> None:
    """Write the script that trains, evaluates and reports what a plan compares."""
    config = plan.config
    if config.data is None or not others:
        raise InputError("--script requires --data and --compare.")
    if plan.composition.lora_rank:
        raise InputError("--script evaluates whole models; merge adapters by hand (docs/train.md).")
    names = [re.sub(r"[^\w.-]+", "-", method.method).strip("-") for method in plan.methods]
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
    words = ["--gpus", str(config.gpus), "--nodes", str(config.nodes)]
    if config.ray_address is not None:
        words.append(f"ray_address={config.ray_address}")
    steps_an_epoch = plan.questions // int(plan.composition.value("data.train_batch_size"))
    trainings: list[str] = []
    evaluations: list[str] = []
    for name, base, method in zip(names, [recipe.name, *others], plan.methods, strict=True):
        own = [*(axes if not trainings else []), *shared]
        line = ["train", name, base, str(method.steps), str(math.ceil(method.steps / steps_an_epoch))]
        trainings.append(f'    {shlex.join(line)} "$seed" {shlex.join(own)}'.rstrip())
        run = f'"$(name {shlex.quote(name)} "$seed")"'
        checkpoint = f"checkpoints/global_step_{method.steps}/actor/huggingface"
        evaluations.append(f"    evaluate {run} runs/{run}/{checkpoint}")
    dropped = any(method.drops and not method.drawn for method in plan.methods)
    text = _SCRIPT.format(
        name=shlex.quote(target.name),
        responses=round(max(method.drawn or method.responses for method in plan.methods)),
        dropped=" (including what dynamic sampling drops)" if dropped else "",
        machine=shlex.join(words),
        data=shlex.quote(str(config.data)),
        model=shlex.quote(model),
        preset=plan.composition.preset.name,
        prefix=shlex.quote(Path(model).name),
        trainings="\n".join(trainings),
        evaluations="\n".join(evaluations),
        names=shlex.join(names),
    )
    write_text(target, text, overwrite=None)
    target.chmod(0o755)
