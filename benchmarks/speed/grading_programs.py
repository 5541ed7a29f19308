"""Programs run against tests: the solutions of HumanEval's and MBPP's rows, and these with one change.

A solution has to pass its tests. Of each one place is changed at random: a comparison, an operation, or what
is returned; such a change can be none, or one that weak tests do not see.

    python -m benchmarks.speed.grading_programs [--data DIR --workers 2]

Reads `humaneval.jsonl` and `mbpp.jsonl` (the sanitized test split) where they lie there; both are public. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data
from evaluator.grading import AnswerKind, Grade, GradeCase, Grader
from service.questions import Columns, RowLimits, read_source

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    report = {
        name: _measure(path, args.workers)
        for name in ("humaneval", "mbpp")
        if (path := args.data / f"{name}.jsonl").is_file()
    }
    if not report:
        parser.error(f"{args.data} holds neither humaneval.jsonl nor mbpp.jsonl")
    print(json.dumps(report))


def _measure(path: Path, workers: int) -> dict[str, Any]:
    rows = read_source(str(path), columns=Columns(), limits=RowLimits(), kind=AnswerKind.CODE)
    golds = {member.question.id: member.question.answer for member in rows.members}
    draw = random.Random(0)
    solutions = [(program, golds[identity]) for identity, program in rows.references.items()]
    changed = [(other, gold) for program, gold in solutions if (other := _change(program, draw)) is not None]
    with Grader(workers=workers) as grader:
        grader.grade_many([_case("def f(): return 1", "assert f() == 1")])
        began = time.perf_counter()
        passed = grader.grade_many([_case(*each) for each in solutions])
        seconds = time.perf_counter() - began
        times = [_alone(grader, each) for each in draw.sample(changed, min(40, len(changed)))]
        failed = grader.grade_many([_case(*each) for each in changed])
    return {
        "solutions": _counts(passed),
        "ms_each": round(1000 * seconds / len(passed), 1),
        "ms_alone_p50": round(1000 * statistics.median(times), 1),
        "changed": _counts(failed),
    }


def _alone(grader: Grader, program: tuple[str, str]) -> float:
    began = time.perf_counter()
    grader.grade_many([_case(*program)])
    return time.perf_counter() - began


def _case(program: str, gold: str) -> GradeCase:
    return GradeCase(f"```python\n{program}\n```", gold, AnswerKind.CODE)


def _counts(grades: Sequence[Grade]) -> dict[str, int]:
    return dict(Counter(f"{grade.value}: {grade.reason}" for grade in grades))


def _change(program: str, draw: random.Random) -> str | None:
    """Return the program with one place changed; None where there is none to change."""
    tree = ast.parse(program)
    places = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED)
        or (isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED)
        or (isinstance(node, ast.Return) and node.value is not None)
    ]
    if not places:
        return None
    place: Any = draw.choice(places)
    if isinstance(place, ast.Compare):
        place.ops[0] = _SWAPPED[type(place.ops[0])]()
    elif isinstance(place, ast.BinOp):
        place.op = _SWAPPED[type(place.op)]()
    else:
        place.value = ast.Constant(None)
    return ast.unparse(ast.fix_missing_locations(tree))


if __name__ == "__main__":
    main()
