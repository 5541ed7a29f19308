"""What a comparison ends with: a grade value and its reason."""

from typing import NamedTuple

from evaluator.grading.types import GradeValue


class Outcome(NamedTuple):
    """A grade value and its reason."""

    value: GradeValue
    reason: str


Judged = Outcome | None
"""None where algebra would be needed."""

EXACT = Outcome(GradeValue.CORRECT, "exact")
NUMERIC = Outcome(GradeValue.CORRECT, "numeric")
SYMBOLIC = Outcome(GradeValue.CORRECT, "symbolic")
WITHIN_TOLERANCE = Outcome(GradeValue.CORRECT, "tolerance")
CHOICE = Outcome(GradeValue.CORRECT, "choice")
DIFFERENT = Outcome(GradeValue.WRONG, "different")
SEVERAL = Outcome(GradeValue.WRONG, "several answers")
NO_ANSWER = Outcome(GradeValue.WRONG, "no answer found")
NO_GOLD = Outcome(GradeValue.UNKNOWN, "no answer")
UNPARSABLE = Outcome(GradeValue.UNKNOWN, "unparsable")
ONE_UNPARSABLE = Outcome(GradeValue.WRONG, "unparsable")
TIMEOUT = Outcome(GradeValue.UNKNOWN, "timeout")
MEMORY = Outcome(GradeValue.UNKNOWN, "memory")
CRASHED = Outcome(GradeValue.UNKNOWN, "crashed")
