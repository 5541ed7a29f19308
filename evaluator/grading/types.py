"""Values of the grader: grades, their reasons, and the classes of a set of answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from typing import Literal, TypeAlias

from service.answer_kinds import AnswerKind as AnswerKind

_LIBRARIES = ("math-verify", "latex2sympy2_extended", "sympy")
GRADER_VERSION = "; ".join(["tagrpo-grader 4", *(f"{name} {version(name)}" for name in _LIBRARIES)])


class GradeValue(StrEnum):
    """The three grades. Unknown means that the grader could not tell; it is never counted as wrong."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNKNOWN = "unknown"


SOURCES: tuple[str, ...] = ("box", "marker", "last sentence")
"""Where in a response the answer was found, the surest place first: a box, what follows the last marker
("Answer:", "the answer is", "####"), else what the response ends on."""

PROGRAM_SOURCES: tuple[str, ...] = ("code block", "text", "completion")
"""Where a program was found: in a fenced block, else in the text, or as what goes on from the prompt."""


Answers: TypeAlias = Literal["all", "boxed"]
"""Which answers of responses count: all that are found, or those in a box alone."""


@dataclass(frozen=True)
class GradeCase:
    """A response to be graded."""

    response: str
    gold: str
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None  # a row's own: `1e-2`, or `1e-2,1e-1` for several numbers
    boxed_only: bool = False  # nothing but a box is an answer


@dataclass(frozen=True)
class Grade:
    """One graded response."""

    value: GradeValue
    extracted: str | None  # the answer found; of a program how it did
    reason: str  # that of a grade below, or of `programs`
    source: str = ""  # where the answer was found: one of `SOURCES` or `PROGRAM_SOURCES`

    @property
    def is_lasting(self) -> bool:
        """True for grades that every machine would give: no time-out, no lack of memory, no crash."""
        return self.value is not GradeValue.UNKNOWN or self.reason in ("unparsable", "too large", "no answer")


@dataclass(frozen=True)
class ClusterJob:
    """The answers of one question (None where a response had none) and its gold, if there is one."""

    answers: Sequence[str | None]
    gold: str | None = None


@dataclass(frozen=True)
class Clustering:
    """Answers grouped by mutual equality."""

    # a representative of each, the gold first if there is one; two are known to differ
    classes: tuple[str, ...]
    assignment: tuple[int | None, ...]  # class of each answer; None if it is absent, unreadable or unsettled
    # class of the gold; None too if a comparison with it stayed unknown and no answer equals it
    gold: int | None
    unknown: int  # comparisons of distinct spellings that stayed unknown
    unsettled: tuple[int, ...] = ()  # places of answers that equal no class for certain and may equal one


EXACT = Grade(GradeValue.CORRECT, None, "exact")  # the same spelling or the same words
NUMERIC = Grade(GradeValue.CORRECT, None, "numeric")  # the same exact number
SYMBOLIC = Grade(GradeValue.CORRECT, None, "symbolic")  # equal by algebra
WITHIN_TOLERANCE = Grade(GradeValue.CORRECT, None, "tolerance")
CHOICE = Grade(GradeValue.CORRECT, None, "choice")  # the same letter
DIFFERENT = Grade(GradeValue.WRONG, None, "different")
SEVERAL = Grade(GradeValue.WRONG, None, "several answers")  # the response gives more answers than the gold
NO_ANSWER = Grade(GradeValue.WRONG, None, "no answer found")  # in the response
NO_GOLD = Grade(GradeValue.UNKNOWN, None, "no answer")  # the gold is empty
NEEDS_ALGEBRA = Grade(GradeValue.UNKNOWN, None, "needs algebra")
"""Never leaves the grader: a worker process goes on."""
UNPARSABLE = Grade(GradeValue.UNKNOWN, None, "unparsable")
ONE_UNPARSABLE = Grade(GradeValue.WRONG, None, "unparsable")
TOO_LARGE = Grade(GradeValue.UNKNOWN, None, "too large")
TIMEOUT = Grade(GradeValue.UNKNOWN, None, "timeout")
MEMORY = Grade(GradeValue.UNKNOWN, None, "memory")
CRASHED = Grade(GradeValue.UNKNOWN, None, "crashed")
NOT_RUN = Grade(GradeValue.UNKNOWN, None, "not run")
