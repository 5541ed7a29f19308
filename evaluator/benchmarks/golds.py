"""Grade each gold against itself before a run: if one fails, every response would be wrong."""

from collections.abc import Callable
from typing import Any

from evaluator.benchmarks.types import LoadedBenchmark
from evaluator.grading import GradeCase, Grader
from evaluator.grading.extraction import gold_answer
from service.errors import InputError, first_lines
from service.questions import is_solution


def check_golds(loaded: LoadedBenchmark, grader: Grader) -> list[dict[str, Any]]:
    """Return the golds that do not grade as correct against themselves, in order; rows count from 0."""
    cases = [
        GradeCase(loaded.references.get(problem.id, ""), problem.answer, problem.kind, problem.tolerance)
        for problem in loaded.problems
    ]
    return [
        {"row": row, "problem": problem.id, "reason": f"{grade.value} ({grade.reason})"}
        for row, (problem, grade) in enumerate(zip(loaded.problems, grader.check_golds(cases), strict=True))
        if grade.value != "correct"
    ]


def require_golds(
    loaded: LoadedBenchmark, grader: Grader, note: Callable[[str], None], *, allow: bool
) -> None:
    """Stop if `check_golds` finds anything, unless that is allowed; note what no response may equal."""
    failures, count = check_golds(loaded, grader), len(loaded.problems)
    if failures and not allow:
        lines = []
        for failure in failures:
            problem = loaded.problems[failure["row"]]
            hidden = loaded.gated or problem.kind == "code"
            gold = "" if hidden else f", gold {problem.answer!r}"
            lines.append(f"row {failure['row']}{gold}: {failure['reason']}")
        raise InputError(
            f"{loaded.name}: {len(failures)} of {count} gold answers are not graded correct when compared "
            f"with themselves, so no response could be correct:{first_lines(lines)}\nFix them, or pass "
            "allow_bad_golds=true to run anyway."
        )
    if failures:
        note(
            f"{loaded.name}: {len(failures):,} of {count:,} gold answers are not graded correct when "
            "compared with themselves; responses to these problems count as wrong"
        )
    texts = [problem for problem in loaded.problems if problem.kind != "code"]
    if solutions := sum(is_solution(gold_answer(problem.answer)) for problem in texts):
        note(
            f"{loaded.name}: {solutions:,} of {count:,} gold answers are multi-line solutions, which "
            "responses rarely match. Choose the column with the final answer. In a solution column, tagrpo "
            "reads the last \\boxed{} or the text after ####"
        )
    if loaded.content == "changed":
        note(f"{loaded.name}: the content differs from the known version; scores are not comparable")
