"""Scores and averages with their intervals."""

from collections import Counter

import numpy as np
import pytest

from evaluator.evals.votes import GOLD, Votes
from evaluator.passk import NEW_PROBLEMS, SAME_PROBLEMS, Counts
from evaluator.reports.scores import Metric, Score, average, score, score_majority
from service.errors import InputError


def counts(*problems: tuple[int, int, int]) -> Counts:
    n, correct, unknown = np.array(problems).T
    return Counts(tuple(f"p{number}" for number in range(len(problems))), n, correct, unknown)


def test_pass_at_k_by_hand() -> None:
    one, two = score(counts((4, 2, 0), (4, 0, 1)), Metric(), [1, 2], NEW_PROBLEMS)
    assert (one.k, one.value, one.value_high) == (1, pytest.approx(0.25), pytest.approx(0.375))
    assert two.value == pytest.approx((1 - 1 / 6) / 2)
    assert two.value_high == pytest.approx((1 - 1 / 6 + 1 / 2) / 2)
    assert 0 <= two.low < two.value < two.value_high < two.high <= 1
    assert (two.interval, two.problems) == (NEW_PROBLEMS, 2)


def test_all_right_and_most_right_by_hand() -> None:
    some = counts((4, 2, 0), (4, 4, 0))
    (all_right,) = score(some, Metric("pass^k"), [2], NEW_PROBLEMS)
    assert all_right.value == pytest.approx((1 / 6 + 1) / 2)
    (half,) = score(some, Metric("g-pass@k", 0.5), [2], NEW_PROBLEMS)
    assert half.value == pytest.approx((5 / 6 + 1) / 2)
    assert Metric("g-pass@k", 0.5).title(2) == "g-pass@2 (tau 0.5)"
    assert Metric("pass^k").title(8) == "pass^8"


def test_majority_by_hand() -> None:
    votes: Votes = {"p": Counter((GOLD, GOLD, "7")), "q": Counter(("7", "7", GOLD))}
    one, three = score_majority(votes, ["p", "q"], [1, 3])
    assert (one.k, one.value) == (1, pytest.approx(0.5))
    assert (three.k, three.value) == (3, pytest.approx(0.5))
    (only,) = score_majority(votes, ["p"], [3])
    assert (only.value, only.problems) == (1.0, 1)


def test_what_a_metric_has_not_is_refused() -> None:
    with pytest.raises(InputError, match=r"has no .* interval"):
        score(counts((4, 2, 0)), Metric("g-pass@k"), [2], SAME_PROBLEMS)
    with pytest.raises(InputError, match="cannot be computed from counts"):
        score(counts((4, 2, 0)), Metric("maj@k"), [2], NEW_PROBLEMS)
    with pytest.raises(InputError, match="there is no metric 'best@k'"):
        Metric("best@k")
    with pytest.raises(InputError, match="tau is 2"):
        Metric("g-pass@k", 2)


def test_an_average_joins_intervals_as_of_independent_estimates() -> None:
    parts = [Score(8, 0.5, 0.5, 0.2, 0.9, NEW_PROBLEMS, 30), Score(8, 0.7, 0.8, 0.3, 1.0, NEW_PROBLEMS, 83)]
    found = average(parts)
    assert (found.value, found.value_high, found.problems) == (pytest.approx(0.6), pytest.approx(0.65), 113)
    assert found.low == pytest.approx(0.6 - np.hypot(0.3, 0.4) / 2)
    assert found.high == pytest.approx(0.65 + np.hypot(0.4, 0.2) / 2)
