"""The tree of commands below `tagrpo`: a command's module is imported when it is used."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A group of commands: what it is for, an example, and each command's function as `module:function`."""

    help: str
    example: str
    commands: Mapping[str, str]


GROUPS = {
    "questions": Group(
        "Import, browse, mix and remove question sets.",
        "tagrpo questions import math_train.jsonl --name math",
        {
            "import": "ui.cli.questions.importing:import_",
            "list": "ui.cli.questions.browsing:list_",
            "show": "ui.cli.questions.browsing:show",
            "mix": "ui.cli.questions.importing:mix",
            "contamination": "ui.cli.questions.contamination:contamination",
            "remove": "ui.cli.questions.browsing:remove",
        },
    ),
    "rephrase": Group(
        "Propose, import, check, browse, review and audit neighbors.",
        "tagrpo rephrase run math --name rules proposer=rules",
        {
            "run": "ui.cli.rephrase.running:run",
            "import": "ui.cli.rephrase.running:import_",
            "list": "ui.cli.rephrase.candidates:list_",
            "show": "ui.cli.rephrase.candidates:show",
            "edit": "ui.cli.rephrase.candidates:edit",
            "review": "ui.cli.rephrase.reviewing:review",
            "audit": "ui.cli.rephrase.auditing:audit",
            "rejudge": "ui.cli.rephrase.rejudging:rejudge",
        },
    ),
    "runs": Group(
        "List, inspect, rename and remove runs of all kinds.",
        "tagrpo runs show rules",
        {
            "list": "ui.cli.runs:list_",
            "show": "ui.cli.runs:show",
            "rename": "ui.cli.runs:rename",
            "remove": "ui.cli.runs:remove",
        },
    ),
    "sets": Group(
        "Publish, compare, verify and export immutable neighbor sets.",
        "tagrpo sets publish math --run rules --include unverified",
        {
            "publish": "ui.cli.sets.commands:publish",
            "list": "ui.cli.sets.commands:list_",
            "show": "ui.cli.sets.commands:show",
            "tag": "ui.cli.sets.commands:tag",
            "export": "ui.cli.sets.exports:export",
            "import": "ui.cli.sets.exports:import_",
        },
    ),
    "eval": Group(
        "Measure models: sample responses to benchmarks, grade them and report pass@k.",
        "tagrpo eval run amc23 --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1 --n 128",
        {
            "run": "ui.cli.eval.running:run",
            "import": "ui.cli.eval.importing:import_",
            "export": "ui.cli.eval.exporting:export",
            "score": "ui.cli.eval.scoring:score",
            "show": "ui.cli.eval.showing:show",
            "label": "ui.cli.eval.labels:label",
            "report": "ui.cli.eval.reporting:report",
            "compare": "ui.cli.eval.reporting:compare",
            "benchmarks": "ui.cli.eval.benchmarks:benchmarks",
            "serve": "ui.cli.eval.serving:serve",
        },
    ),
    "train": Group(
        "Train a policy with verl: plan, run, look at metrics and responses.",
        "tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4",
        {
            "run": "ui.cli.train.running:run",
            "plan": "ui.cli.train.planning:plan",
            "recipes": "ui.cli.train.recipes:recipes",
            "metrics": "ui.cli.train.metrics:metrics",
            "rollouts": "ui.cli.train.rollouts:rollouts",
            "merge": "ui.cli.train.running:merge",
        },
    ),
    "db": Group(
        "Maintain the database: check, back up, upgrade, copy.",
        "tagrpo db backup /backups/tagrpo-monday.db",
        {
            "check": "ui.cli.db:check",
            "backup": "ui.cli.db:backup",
            "upgrade": "ui.cli.db:upgrade",
            "copy": "ui.cli.db:copy",
        },
    ),
}

COMMANDS = {
    "demo": (
        "Run the whole workflow on a small task: rephrase, check, publish, train, evaluate.",
        "ui.cli.demo:demo",
    ),
    "ui": ("Open the pages in a browser.", "ui.cli.ui:ui"),
    "doctor": ("Check what is installed and reachable.", "ui.cli.doctor:doctor"),
    "resume": ("Resume a run by its name, with its stored settings.", "ui.cli.resuming:resume"),
    "diagnose": (
        "Show what neighbors change in training: questions without a gradient, difficulty, cost.",
        "ui.cli.diagnose:diagnose",
    ),
    "config": ("Print all settings of a command as a config file.", "ui.cli.configs:config"),
}
"""Commands that stand alone, each with what it is for."""
