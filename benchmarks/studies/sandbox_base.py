"""What the policies of the sandbox's worlds can do before any training: each world beside the others.

For every world by ordinary `tagrpo` commands: a policy (the shipped one for A; any other is pre-trained,
which takes minutes, unless FOLDER/world-X/policy is there already), 200 held-out questions, 256 training
questions with three true neighbors each, and 64 responses to every prompt of both. From them by the project's
own estimators: pass@1 to pass@32; the share of training questions without a gradient for GRPO's group of 8,
for 32 responses to the question alone, for 24 to the neighbors, and for the joint groups 4 x 8 and 4 x 2; how
far success differs between the phrasings of a question; success by phrasing. `tagrpo runs show base.heldout`,
`tagrpo diagnose pilot.study-1 --only zero-gradient --g 8` (and `--g 2`) and `--only difficulty` print the
same from the world's database; only success by phrasing has no command.

The alternative to a joint group is as many responses to the question alone; the alternative to a world whose
phrasing matters is C, where it does not. The figures of an earlier study, which had a model and a loop of its
own, stand beside the table. The last line is one JSON object.

    python -m benchmarks.studies.sandbox_base FOLDER [--worlds A,B,C,D,E] [--samples 64]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.sandbox_world import World, tagrpo
from evaluator.evals.problems import run_problems
from evaluator.evals.results import load_result
from evaluator.evals.runs import find_eval_run
from evaluator.passk.curves import curve
from evaluator.signal.difficulty import audit_difficulty
from evaluator.signal.groups import CheckpointGroups, count_groups
from evaluator.signal.sources.eval_runs import load_runs
from evaluator.signal.zero_gradient import (
    JOINT_GROUP,
    MATCHED_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
    ZeroGradient,
    zero_gradient,
)
from sandbox.demo.steps import LONGEST_RESPONSE
from sandbox.questions import read_questions
from sandbox.worlds import WORLDS
from service.database import Database

KS = (1, 2, 4, 8, 16, 32)
G, FEWER, NEIGHBORS = 8, 2, 3
GROUPS = (
    ("question, 8", G, ORIGINAL_GROUP),
    ("question, 32", G, MATCHED_GROUP),
    ("neighbors, 3 x 8", G, NEIGHBORS_GROUP),
    ("joint, 4 x 8", G, JOINT_GROUP),
    ("joint, 4 x 2", FEWER, JOINT_GROUP),
)
STUDY = {
    "A": (0.315, 0.073, 0.032, 0.014, 0.105),
    "B": (0.415, 0.165, 0.048, 0.024, 0.110),
    "C": (0.189, 0.032, 0.037, 0.023, 0.173),
}
"""Shares of `GROUPS` in the study: another model, and mistakes in 90% of the traces instead of 98%."""


@dataclass(frozen=True)
class Base:
    """What was measured of a world's policy; every share with its interval for new questions."""

    world: str
    passes: dict[int, tuple[float, float, float]]
    zero: dict[str, tuple[float, float, float]]
    apart: tuple[float, float, float]
    """Joint 4 x 8 minus the question's 32 alone, paired over questions."""
    within_sd: float
    shift_sd: float
    unrelated: float
    by_phrasing: dict[str, float]


def measure(folder: Path, name: str, samples: int) -> Base:
    """Draw what is missing and return what it says."""
    world = World(folder, name)
    world.prepare()
    log, db = world.folder / "commands.sh", world.folder / "tagrpo.db"
    drawing = (
        *("--model", str(world.policy), "dtype=float32", "--n", str(samples), "--preset", "plain"),
        *("temperature=1.0", "top_p=1.0", f"max_tokens={LONGEST_RESPONSE}"),
        *("samples_per_request=32", "batch_size=512", "--db", str(db)),
    )
    tagrpo(log, "eval", "run", str(world.heldout), "--name", "base", *drawing)
    tagrpo(log, "eval", "run", "neighbors=study@1", "--name", "pilot", *drawing)
    with Database.open(db, read_only=True) as opened, opened.read() as session:
        run = find_eval_run(session, "base.heldout")
        counts = load_result(session, run).counts
        texts = {problem.problem_id: problem.text for problem in run_problems(session, run.id)}
        (pilot,) = load_runs(session, ["pilot.study-1"])
    points = curve(counts, KS).points
    shares = {g: zero_gradient(pilot, g, NEIGHBORS) for g in (G, FEWER)}
    (gap,) = [row for row in shares[G].gaps if (row.group, row.minus) == (JOINT_GROUP, MATCHED_GROUP)]
    spread = audit_difficulty(pilot).spread
    rates = {
        texts[problem]: float(rate)
        for problem, rate in zip(counts.problem_ids, counts.correct / counts.n, strict=True)
    }
    return Base(
        name,
        {p.k: (p.value, p.new_problems.low, p.new_problems.high) for p in points},
        {label: _share(shares[g], group) for label, g, group in GROUPS},
        (gap.difference, _known(gap.low), _known(gap.high)),
        within_sd(pilot),
        spread.shift.sd,
        spread.shift.stray,
        _by_phrasing(world.heldout, rates),
    )


def within_sd(pilot: CheckpointGroups) -> float:
    """Return the standard deviation of success between the prompts of a question, sampling noise taken off.

    The root of the mean over questions of the variance between prompts, minus what n responses to a prompt
    add to it: the mean of p (1 - p) / (n - 1).
    """
    counts = count_groups(pilot.groups)
    n = counts.known
    rates = counts.correct / n
    noise = rates * (1 - rates) / (n - 1)
    return float(np.sqrt(max(0.0, (rates.var(axis=1, ddof=1) - noise.mean(axis=1)).mean())))


def _by_phrasing(heldout: Path, rates: dict[str, float]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for asked in read_questions(heldout):
        found.setdefault(asked.phrasing.name, []).append(rates[asked.text])
    return {phrasing: float(np.mean(values)) for phrasing, values in sorted(found.items())}


def _share(shares: ZeroGradient, group: str) -> tuple[float, float, float]:
    (row,) = [row for row in shares.shares if row.group == group]
    return row.share, _known(row.low), _known(row.high)


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


def print_bases(bases: list[Base]) -> None:
    print("\npass@k of 200 held-out questions, 95% for new questions")
    print("world  " + "".join(f"@{k:<20d}" for k in KS))
    for base in bases:
        print(f"{base.world:5s}  " + "".join(f"{_with_interval(base.passes[k]):21s}" for k in KS))
    print("\nshare of 256 training questions without a gradient, 95% for new questions; (the study's)")
    print("world  " + "".join(f"{label:30s}" for label, _, _ in GROUPS))
    for base in bases:
        known = [f" ({value:.3f})" for value in STUDY.get(base.world, ())] or [""] * len(GROUPS)
        cells = [_with_interval(base.zero[label]) for label, _, _ in GROUPS]
        print(
            f"{base.world:5s}  "
            + "".join(f"{cell + study:30s}" for cell, study in zip(cells, known, strict=True))
        )
    print("\njoint group against 32 responses to the question; success between the phrasings of a question")
    print("world  joint 4 x 8 minus question, 32  sd     logit shift, sd  unrelated")
    for base in bases:
        print(
            f"{base.world:5s}  {_with_interval(base.apart, sign=True):30s}  {base.within_sd:.3f}  "
            f"{base.shift_sd:15.2f}  {base.unrelated:9.1%}"
        )
    print("\nsuccess on held-out questions by phrasing")
    names = list(bases[0].by_phrasing)
    print("world  " + "".join(f"{name:16s}" for name in names))
    for base in bases:
        print(f"{base.world:5s}  " + "".join(f"{base.by_phrasing[name]:<16.3f}" for name in names))


def _with_interval(values: tuple[float, float, float], *, sign: bool = False) -> str:
    value, low, high = values
    style = "+.3f" if sign else ".3f"
    return f"{value:{style}} [{low:{style}}, {high:{style}}]"


def record(base: Base) -> dict[str, Any]:
    return {
        "pass": {k: round(value, 4) for k, (value, _, _) in base.passes.items()},
        "zero_gradient": {label: round(value, 4) for label, (value, _, _) in base.zero.items()},
        "joint_minus_question_32": round(base.apart[0], 4),
        "joint_over_question_32": round(base.zero["joint, 4 x 8"][0] / base.zero["question, 32"][0], 3),
        "within_question_sd": round(base.within_sd, 4),
        "logit_shift_sd": round(base.shift_sd, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where all is kept; a second run draws what is missing")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--samples", type=int, default=64, help="responses to a prompt, 32 or more")
    arguments = parser.parse_args()
    bases = []
    for name in arguments.worlds.split(","):
        bases.append(measure(arguments.folder, name, arguments.samples))
        print(f"world {name}: measured", flush=True)
    print_bases(bases)
    print(json.dumps({base.world: record(base) for base in bases}))


if __name__ == "__main__":
    main()
