"""Grade each gold against itself before a run: if one fails, every response would be wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluator.benchmarks.types import LoadedBenchmark
from evaluator.evals.problems import Problem
from service.errors import InputError
from service.questions import is_solution

if TYPE_CHECKING:
    from evaluator.grading import Grader

FAILURES_SHOWN = 10


@dataclass(frozen=True)
class GoldFailure:
    """A gold that does not grade as correct against itself; rows count from 0."""

    row: int
    problem_id: str
    reason: str  # value and reason of the grade, like "unknown (no answer)"


def check_golds(loaded: LoadedBenchmark, grader: "Grader") -> list[GoldFailure]:
    """Return the golds that do not grade as correct against themselves, in order."""
    from evaluator.grading import GradeCase

    cases = [
        GradeCase(loaded.references.get(problem.id, ""), problem.answer, problem.kind, problem.tolerance)
        for problem in loaded.problems
    ]
    grades = grader.check_golds(cases)
    return [
        GoldFailure(row, problem.id, f"{grade.value} ({grade.reason})")
        for row, (problem, grade) in enumerate(zip(loaded.problems, grades, strict=True))
        if grade.value != "correct"
    ]


def whole_solutions(problems: Iterable[Problem]) -> int:
    """Return how many golds are whole solutions, which are correct when graded against themselves."""
    from evaluator.grading.extraction import gold_answer

    return sum(is_solution(gold_answer(problem.answer)) for problem in problems if problem.kind != "code")


def require_golds(
    loaded: LoadedBenchmark,
    grader: "Grader",
    allow: bool = False,
) -> list[GoldFailure]:
    """Return `check_golds`, and stop where it finds anything, unless that is allowed."""
    failures = check_golds(loaded, grader)
    if failures and not allow:
        lines = [describe_failure(loaded, failure) for failure in failures[:FAILURES_SHOWN]]
        if len(failures) > FAILURES_SHOWN:
            lines.append(f"and {len(failures) - FAILURES_SHOWN} more")
        listed = "\n".join(f"  {line}" for line in lines)
        raise InputError(
            f"{loaded.name}: {len(failures)} of {len(loaded.problems)} gold answers are not graded correct "
            f"when compared with themselves, so no response could be correct:\n{listed}\nFix them, or pass "
            "allow_bad_golds=true to run anyway."
        )
    return failures


def describe_failure(loaded: LoadedBenchmark, failure: GoldFailure) -> str:
    """Return a failure in a line: row, gold (not of a gated benchmark), reason."""
    problem = loaded.problems[failure.row]
    short = not loaded.gated and problem.kind != "code"
    gold = f", gold {problem.answer!r}" if short else ""
    return f"row {failure.row}{gold}: {failure.reason}"
