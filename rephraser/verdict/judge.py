"""Judge answer counts: a verdict with its reason, by a rule that is stored as plain data.

Programs that pass the tests of a question are equal answers. Failures are no evidence, since programs can
fail in any way: all failures of the candidate count as one new answer, the strictest reading. Each failure of
the question counts as a separate one, so that a question that is never solved has no stable answer.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import ceil

from evaluator.grading import Clustering, Grade, GradeValue
from rephraser.verdict.overlap import AnswerCounts, OverlapRule, new_top, original_top, overlap
from service.hashing import Json

RULE = "overlap"
"""The name of the rule in its stored form."""


class Verdict(StrEnum):
    """What the answers say about a candidate."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Judgement:
    """A verdict with its decisive numbers, as in the rule: O (overlap), M (new_top), T (original_top)."""

    verdict: Verdict
    reason: str
    overlap: int
    new_top: int
    original_top: int


def judge(
    counts: AnswerCounts, rule: OverlapRule = OverlapRule(), *, premise_dropped: bool = False
) -> Judgement:
    """Judge from answers whether a candidate asks the same problem as its question.

    The rule accepts if O >= accept_overlap, O > accept_over_new M and, if accept_gold_from answers to the
    original are correct, an answer to the candidate is; never if a premise was dropped, since a solver that
    fills it in from memory gives the original's answers. It rejects if O = 0, no candidate answer is correct,
    M >= reject_new and T >= reject_original_top; never if the gold class is unknown or an answer unsettled.

    Otherwise it is undecided, also with fewer candidate answers than the first look needs, or if more than
    `max_unparsed_share` of a side's answers are unparsed or unsettled. Unverified: one side has no answers.
    The error rates hold only at the looks of the rule.
    """
    shared, new, top = overlap(counts), new_top(counts), original_top(counts)
    verdict, reason = _too_few_answers(counts, rule) or _by_overlap(counts, rule, shared, new, top)
    if verdict is Verdict.ACCEPTED and premise_dropped:
        verdict = Verdict.UNDECIDED
        reason += " But a premise was dropped, which a solver may fill in from memory."
    elif verdict is Verdict.REJECTED and counts.unsettled:
        verdict = Verdict.UNDECIDED
        reason += f" But answers that could not be compared ({counts.unsettled}) may be shared."
    return Judgement(verdict=verdict, reason=reason, overlap=shared, new_top=new, original_top=top)


def _too_few_answers(counts: AnswerCounts, rule: OverlapRule) -> tuple[Verdict, str] | None:
    for side, fewest in (("original", 1), ("candidate", rule.looks[0])):
        unparsed, unsettled, truncated = (
            getattr(counts, f"{side}_{name}") for name in ("unparsed", "unsettled", "truncated")
        )
        drawn = counts.drawn(side)
        if drawn == 0:
            return Verdict.UNVERIFIED, f"No answers to the {side} were sampled, so none were compared."
        if drawn < fewest:
            return Verdict.UNDECIDED, (
                f"Only {drawn} answers to the {side}; the first verdict is possible after {fewest}."
            )
        if unparsed + unsettled > rule.max_unparsed_share * drawn:
            what = "parsed or compared" if unsettled else "parsed"
            cut = f" {truncated} were truncated: raise the solver's max_tokens." if truncated else ""
            return Verdict.UNDECIDED, (
                f"{unparsed + unsettled} of {drawn} answers to the {side} could not be {what}; "
                f"at most {rule.max_unparsed_share:.0%} may fail.{cut}"
            )
    return None


def _by_overlap(
    counts: AnswerCounts, rule: OverlapRule, shared: int, new: int, top: int
) -> tuple[Verdict, str]:
    size, solved, correct = sum(counts.candidate), counts.correct("original"), counts.correct("candidate")
    sharing = f"{shared} of {size} candidate answers are shared with the original"
    if shared >= rule.accept_overlap:
        if shared <= rule.accept_over_new * new:
            return Verdict.UNDECIDED, (
                f"{sharing}, but a new answer was given {_times(new)}: acceptance needs more than "
                f"{rule.accept_over_new * new} shared answers."
            )
        expected = rule.accept_gold_from is not None and solved >= rule.accept_gold_from
        if expected and correct == 0:  # it may be one of the original's mistakes
            return Verdict.UNDECIDED, (
                f"{sharing}, but none is correct, while {solved} answers to the original are."
            )
        return Verdict.ACCEPTED, (
            f"{sharing} ({rule.accept_overlap} needed); the most frequent new answer was given {_times(new)}."
        )
    if shared > 0:
        return Verdict.UNDECIDED, (
            f"{sharing}: too few to accept ({rule.accept_overlap} needed), too many to reject (0 allowed)."
        )
    if counts.gold is None:
        return Verdict.UNDECIDED, (
            "No answer is shared, but the gold answer could not be compared with the others: the new answer "
            f"given {_times(new)} may be correct."
        )
    if correct > 0:
        return Verdict.UNDECIDED, (
            f"No answer is shared, but {correct} candidate answers are correct, while no "
            "answer to the original is."
        )
    if top < rule.reject_original_top:
        return Verdict.UNDECIDED, (
            "No answer is shared, but the original has no stable answer: its most frequent one was given "
            f"{_times(top)}, and rejection needs {rule.reject_original_top}."
        )
    if new < rule.reject_new:
        return Verdict.UNDECIDED, (
            "No answer is shared, but no new answer dominates: the most frequent one was given "
            f"{_times(new)}, and rejection needs {rule.reject_new}."
        )
    return Verdict.REJECTED, (
        f"None of {size} candidate answers is shared with the original or correct, and a new answer was "
        f"given {_times(new)}; the original's most frequent answer was given {_times(top)}."
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def rule_spec(rule: OverlapRule) -> dict[str, Json]:
    """Return the rule's name under "rule" and each of its fields; JSON keeps it as it is."""
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(rule).items()}
    return {"rule": RULE, **values}


PASSING, FAILING = "passes the tests", "fails"
_REJECT_SHARE = 0.75


def rule_for_programs(rule: OverlapRule) -> OverlapRule:
    """Return the rule for programs: no rejection if over a quarter of the question's programs fail.

    Without a dominant other answer, the only evidence against a candidate is that no program passes; if the
    question itself is hard, a harder wording explains that.
    """
    return replace(rule, reject_original_top=max(1, ceil(_REJECT_SHARE * rule.original_samples)))


def cluster_programs(grades: Sequence[Grade], original: int) -> Clustering:
    """Return the classes of programs: first those of the question, `original` of them, then the candidate's.

    A response without a program has no class; unknown grades are unsettled.
    """
    classes, assignment, unsettled = [PASSING, FAILING], list[int | None](), list[int]()
    for place, grade in enumerate(grades):
        if grade.reason == "no answer found":
            assignment.append(None)
        elif grade.value is GradeValue.CORRECT:
            assignment.append(0)
        elif grade.value is GradeValue.UNKNOWN:
            unsettled.append(place)
            assignment.append(None)
        elif place < original:
            classes.append(grade.extracted or FAILING)
            assignment.append(len(classes) - 1)
        else:
            assignment.append(1)
    return Clustering(tuple(classes), tuple(assignment), 0, 0, tuple(unsettled))
