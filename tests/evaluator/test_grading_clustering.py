"""Answers grouped into classes, given what equals what."""

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from evaluator.grading import Clustering, ClusterJob, Grader, GradeValue
from evaluator.grading.grader import Grouping, Pair

CORRECT, WRONG, UNKNOWN = GradeValue.CORRECT, GradeValue.WRONG, GradeValue.UNKNOWN


def outcomes(equal: str = "", unknown: str = "") -> Callable[[Pair], GradeValue]:
    """Comparisons by pairs of letters, as in "ab cd"; all others are different."""

    def compare(pair: Pair) -> GradeValue:
        for value, listed in ((CORRECT, equal), (UNKNOWN, unknown)):
            if any(set(pair) == set(one) for one in listed.split()):
                return value
        return WRONG

    return compare


def group(
    answers: Sequence[str | None],
    compare: Callable[[Pair], GradeValue],
    *,
    gold: str | None = None,
    unreadable: str = "",
) -> tuple[Clustering, int]:
    """The classes, and how many comparisons they took."""
    grouping = Grouping(ClusterJob(answers, gold), lambda text: text not in unreadable.split())
    compared = 0
    while pairs := grouping.pairs:
        compared += len(pairs)
        grouping.place({pair: compare(pair) for pair in pairs})
    return grouping.result(), compared


def test_an_unknown_comparison_opens_no_class() -> None:
    result, _ = group(["a", "a", "b", "b", "b", "c"], outcomes(unknown="ab"))
    assert result.classes == ("b", "c")  # b is the most frequent
    assert result.assignment == (None, None, 0, 0, 0, 1)
    assert result.unsettled == (0, 1)
    assert (result.gold, result.unknown) == (None, 1)


def test_what_may_equal_a_gold_that_others_gave_is_unsettled() -> None:
    result, _ = group(["a", "g", "b"], outcomes(unknown="ag"), gold="g")
    assert (result.classes, result.gold) == (("g", "b"), 0)
    assert (result.assignment, result.unsettled) == ((None, 0, 1), (0,))


@pytest.mark.parametrize("gold", [None, "g"])
def test_the_order_of_answers_plays_no_part(gold: str | None) -> None:
    answers = ["a", "a", "b", "c", "d", "e"]
    compare = outcomes(equal="bc dg", unknown="ab ce")  # not even an equivalence
    expected: set[tuple[object, ...]] = set()
    for order in set(permutations(answers)):
        result, _ = group(order, compare, gold=gold)
        placed = dict(zip(order, result.assignment, strict=True))
        unsettled = frozenset(order[place] for place in result.unsettled)
        expected.add((result.classes, tuple(sorted(placed.items(), key=str)), unsettled))
    assert len(expected) == 1


def test_a_grader_that_runs_out_of_time_finds_no_difference() -> None:
    slow = r"\int_0^1 \sin(\sin(\sin(x^x))) \cos(x^{\sin x}) dx"
    with Grader(workers=1, time_limit_s=0.5) as grader:
        jobs = [ClusterJob(["7", "7", slow], "7"), ClusterJob(["1", "2"])]
        timed_out, other = grader.cluster_many(jobs)
    assert (timed_out.classes, timed_out.gold) == (("7",), 0)
    assert (timed_out.assignment, timed_out.unsettled, timed_out.unknown) == ((0, 0, None), (2,), 1)
    assert other.assignment == (0, 1)
