"""The grader as a scorer of inspect_ai: `evaluator/math_answer` on its command line.

A score is `{"correct": 1 or 0, "unknown": 0 or 1}`. Where the grader cannot tell, `correct` is NaN, by which
inspect_ai marks what has no score: its metrics and reducers leave it out, the mean of `unknown` counts it.
"""

import math
from functools import partial
from typing import Any

from evaluator.grading import AnswerKind, GradeValue, grade
from service.errors import missing_extra

try:
    from anyio import to_thread
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as error:
    raise missing_extra("the scorer needs inspect_ai", "inspect") from error

_VALUES = {
    GradeValue.CORRECT: {"correct": 1.0, "unknown": 0.0},
    GradeValue.UNKNOWN: {"correct": math.nan, "unknown": 1.0},
    GradeValue.WRONG: {"correct": 0.0, "unknown": 0.0},
}
"""The best grade first."""


@scorer(metrics={"correct": [mean(), stderr()], "unknown": [mean()]})  # type: ignore[untyped-decorator]
def math_answer(kind: str = "latex", tolerance: str | None = None, boxed_only: bool = False) -> Scorer:
    """Grade responses against their target, in processes with limits of time and memory.

    Args:
        kind: of answer: latex, integer, choice or tolerance.
        tolerance: how far a number may differ, where the kind is tolerance.
        boxed_only: whether an answer counts in a box alone.

    Of several targets the best grade counts.
    """
    grade_one = partial(grade, kind=AnswerKind(kind), tolerance=tolerance, boxed_only=boxed_only)

    async def score(state: TaskState, target: Target) -> Score:
        response: Any = state.output.completion
        grades = [await to_thread.run_sync(grade_one, response, gold) for gold in target]
        best = min(grades, key=lambda each: [*_VALUES].index(each.value))
        return Score(
            value=dict(_VALUES[best.value]),
            answer=best.extracted,
            explanation=f"{best.value}: {best.reason}",
            metadata={"grade": best.value.value, "reason": best.reason, "answer_place": best.source or None},
        )

    return score
