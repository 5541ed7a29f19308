"""The tree of commands below `tagrpo`: a command's module is imported when it is used."""

from importlib import import_module
from typing import Any, NamedTuple


class CommandGroup(NamedTuple):
    """A group of commands: what it is for, an example, and its commands by the module that has them."""

    help: str
    example: str
    commands: dict[str, str]


GROUPS = {
    "questions": CommandGroup(
        "Import, browse, mix and remove question sets.",
        "tagrpo questions import math_train.jsonl --name math",
        {"questions": "import list show mix contamination remove"},
    ),
    "rephrase": CommandGroup(
        'Propose, check, browse, review and audit rephrasings ("candidates", "neighbors").',
        "tagrpo rephrase run math --name rules proposer=rules",
        {"rephrase": "run import list show edit review audit rejudge"},
    ),
    "runs": CommandGroup(
        "List, inspect, rename and remove runs of all kinds.",
        "tagrpo runs show rules",
        {"runs": "list show rename remove"},
    ),
    "sets": CommandGroup(
        "Publish, compare, verify and export immutable sets of accepted rephrasings.",
        "tagrpo sets publish math --run rules --include unverified",
        {"sets": "publish list show tag export import"},
    ),
    "eval": CommandGroup(
        "Measure models: sample responses to benchmarks, grade them and report pass@k.",
        "tagrpo eval run amc23 --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1 --n 128",
        {
            "evals": "run import export score benchmarks",
            "reports": "show label report compare",
            "servers": "serve",
        },
    ),
    "train": CommandGroup(
        "Train a policy with verl: plan, run, look at metrics and responses.",
        "tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4",
        {"train": "run plan recipes metrics rollouts merge"},
    ),
    "db": CommandGroup(
        "Maintain the database: check, back up, upgrade, copy.",
        "tagrpo db backup /backups/tagrpo-monday.db",
        {"db": "check backup upgrade copy"},
    ),
}

COMMANDS = {
    "demo.demo": "Run the whole workflow on a small task: rephrase, check, publish, train, evaluate.",
    "servers.ui": "Open the pages in a browser.",
    "doctor.doctor": "Check what is installed and reachable.",
    "configs.resume": "Resume a run by its name, with its stored settings.",
    "diagnose.diagnose": (
        "Show what rephrasings change in training: questions without a gradient, difficulty, cost."
    ),
    "configs.config": "Print all settings of a command as a config file.",
}
"""Commands that stand alone, each with what it is for."""


WITHOUT = {
    **dict.fromkeys(("demo.demo", "servers.serve"), ("db_file", "as_json")),
    **dict.fromkeys(("configs.config", "train.merge", "train.recipes"), ("db_file",)),
    **dict.fromkeys(("evals.benchmarks", "db.copy"), ("db_file",)),
    "servers.ui": ("as_json",),
}
"""Commands that open no database or print no report, with the options that they lack."""


def find_function(place: str) -> Any:
    """Return the function of a command by its place, MODULE.COMMAND."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"ui.cli.{module}"), f"{name}_" if name in ("import", "list") else name)
