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
            "suspects": "ui.cli.questions.browsing:suspects",
            "mix": "ui.cli.questions.importing:mix",
            "contamination": "ui.cli.questions.contamination:contamination",
            "remove": "ui.cli.questions.removing:remove",
        },
    ),
    "rephrase": Group(
        "Propose, check, browse, review and audit neighbors.",
        "tagrpo rephrase run math --name rules proposer=rules",
        {
            "run": "ui.cli.neighbors.proposing:run",
            "list": "ui.cli.neighbors.browsing:list_",
            "show": "ui.cli.neighbors.browsing:show",
            "review": "ui.cli.neighbors.reviews:review",
            "reviews": "ui.cli.neighbors.reviews:list_",
            "mend": "ui.cli.neighbors.mending:mend",
            "audit": "ui.cli.neighbors.audits:audit",
            "judge": "ui.cli.neighbors.judging:judge",
        },
    ),
    "runs": Group(
        "List, inspect, rename and remove runs of all kinds.",
        "tagrpo runs show rules",
        {
            "list": "ui.cli.runs.listing:list_",
            "show": "ui.cli.runs.showing:show",
            "remove": "ui.cli.runs.removing:remove",
            "rename": "ui.cli.runs.removing:rename",
        },
    ),
    "sets": Group(
        "Publish, compare, verify and export immutable neighbor sets.",
        "tagrpo sets publish math --run rules --include unverified",
        {
            "publish": "ui.cli.sets.publishing:publish",
            "list": "ui.cli.sets.commands:list_",
            "show": "ui.cli.sets.commands:show",
            "diff": "ui.cli.sets.commands:diff",
            "verify": "ui.cli.sets.commands:verify",
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
    "diagnose": Group(
        "Compare groups with and without neighbors: equal rewards, difficulty, diversity and cost.",
        "tagrpo diagnose zero-gradient base step-100 --g 8",
        {
            "zero-gradient": "ui.cli.diagnose.commands:zero_gradient",
            "forecast": "ui.cli.diagnose.commands:forecast",
            "difficulty": "ui.cli.diagnose.commands:difficulty",
            "diversity": "ui.cli.diagnose.commands:diversity",
            "cost": "ui.cli.diagnose.commands:cost",
            "report": "ui.cli.diagnose.commands:report",
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
        "Maintain the database: check, back up, upgrade, shrink.",
        "tagrpo db backup /backups/tagrpo-monday.db",
        {
            "check": "ui.cli.db:check",
            "backup": "ui.cli.db:backup",
            "copy": "ui.cli.db:copy",
            "upgrade": "ui.cli.db:upgrade",
            "vacuum": "ui.cli.db:vacuum",
        },
    ),
    "sandbox": Group(
        "Create a small world of word problems for a laptop: questions, labelled candidates, a tiny policy.",
        "tagrpo sandbox questions world-a --world A",
        {
            "questions": "ui.cli.sandbox:questions",
            "candidates": "ui.cli.sandbox:candidates",
            "score": "ui.cli.sandbox:score",
            "pretrain": "ui.cli.sandbox:pretrain",
            "policy": "ui.cli.sandbox:policy",
        },
    ),
}

COMMANDS = {
    "demo": (
        "Show the whole way on a small world: rephrase, check, publish, train, evaluate.",
        "ui.cli.demo:demo",
    ),
    "ui": ("Open the pages in a browser.", "ui.cli.ui:ui"),
    "doctor": ("Check what is installed and reachable.", "ui.cli.doctor:doctor"),
    "resume": ("Resume a run by its name, with the settings that it has.", "ui.cli.runs.resuming:resume"),
    "config": ("Print every setting of a verb as a file to start from.", "ui.cli.configs:config"),
}
"""Commands that stand alone, each with what it is for."""
