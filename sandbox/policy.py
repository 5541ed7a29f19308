"""Policies as folders that transformers, verl and vLLM load: pre-training one, and the shipped ones."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.worlds import WORLDS, World
from service.errors import InputError, missing_extra
from service.hashing import file_sha256
from service.writing import check_folder_target, write_folder

if TYPE_CHECKING:
    from sandbox.pretraining import PretrainingProgress

SHIPPED = {"A": "policy-a", "C": "policy-c"}
"""Folders of the policies that come with the package, by world: the demo's, and its control."""
RECORD = "pretraining.json"
"""What made a policy: world, seed, schedule, versions, seconds, losses, hash of the weights."""


def pretrain_policy(
    folder: Path,
    world: World,
    *,
    seed: int,
    threads: int,
    steps: int | None,
    report: "Callable[[PretrainingProgress], None]",
) -> dict[str, Any]:
    """Pre-train a policy of the world from scratch, write it to `folder`, and return its record.

    The weights are stored in float16 to be small, and computed with in float32, as the configuration says.

    Args:
        steps: of training; by default the schedule's.
    """
    check_folder_target(folder, overwrite=None, mark=RECORD)
    try:
        from dataclasses import replace

        from sandbox import pretraining
    except ImportError as error:
        raise missing_extra(f"pre-training needs torch and transformers ({error})", "local") from error
    schedule = pretraining.SCHEDULE if steps is None else replace(pretraining.SCHEDULE, steps=steps)
    reports: list[PretrainingProgress] = []

    def note(progress: "PretrainingProgress") -> None:
        reports.append(progress)
        report(progress)

    model, tokenizer = pretraining.pretrain(world, seed=seed, threads=threads, report=note, schedule=schedule)
    record = {
        "world": asdict(world),
        "seed": seed,
        "threads": threads,
        "schedule": asdict(schedule),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(reports[-1].seconds, 1),
        "losses": {str(progress.step): round(progress.loss, 4) for progress in reports},
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "tokenizers")},
    }

    def write(made: Path) -> None:
        model.half().save_pretrained(made)
        tokenizer.save_pretrained(made)
        # Loaders widen the weights: the configuration, not the file's numbers, sets their type.
        config = json.loads((made / "config.json").read_text(encoding="utf-8"))
        text = json.dumps({**config, "dtype": "float32"}, indent=2) + "\n"
        (made / "config.json").write_text(text, encoding="utf-8")
        weights = made / "model.safetensors"
        record["sha256"] = file_sha256(weights)
        weights.chmod(0o644)  # it is saved for the owner alone
        (made / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (made / "README.md").write_text(_card(record), encoding="utf-8")

    write_folder(folder, write, overwrite=None, mark=RECORD)
    return record


def write_shipped_policy(folder: Path, world: World = WORLDS["A"]) -> None:
    """Copy the policy of a world that comes with the package to `folder`."""
    name = SHIPPED.get(world.name)
    if name is None:
        raise InputError(
            f"tagrpo ships no policy of world {world.name}, only of {' and '.join(SHIPPED)}; "
            f"`python -m sandbox pretrain FOLDER --world {world.name}` creates one."
        )

    def write(made: Path) -> None:
        for path in sorted((Path(__file__).parent / "data" / name).iterdir()):
            shutil.copyfile(path, made / path.name)

    write_folder(folder, write, overwrite=None, mark=RECORD)


def _card(record: dict[str, Any]) -> str:
    world = record["world"]
    options = f"--world {world['name']} --seed {record['seed']} --threads {record['threads']}"
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# A policy of the sandbox's world {world["name"]}

A Qwen 3 of {record["parameters"]:,} parameters that solves word problems about a count, a price and a charge,
in four ways, each of which fails on about half of the numbers. It is meant for further training on a CPU.

World {world["name"]}: {world["about"]}. Its prompt is the plain question in the chat template, without a
system message or an instruction; sample at temperature 1.

Pre-trained in {record["seconds"]:.0f} seconds by `python -m sandbox pretrain FOLDER {options}`.
With `--threads 1` the command gives the same weights, bit for bit, on the same processor and versions.
`{RECORD}` has all settings, the versions and the SHA-256 of the weights.
"""
