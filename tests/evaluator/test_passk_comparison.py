from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluator.passk import NEW_PROBLEMS, SAME_PROBLEMS, Counts, compare, holm, pass_at_k
from evaluator.passk.comparison import paired_bounds, sign_flip_p_values
from service.errors import InputError

RNG = np.random.default_rng(5)


def counts(correct: list[int], unknown: list[int] | None = None) -> Counts:
    ids = [f"p{row:03}" for row in range(len(correct))]
    return Counts(ids, [16] * len(correct), correct, unknown)


def test_a_comparison_by_hand() -> None:
    a, b = counts([16, 8, 4, 0]), counts([8, 8, 0, 4])
    row = compare(a, b, [1]).points[1]
    differences = np.array([0.5, 0.0, 0.25, -0.25])
    half = stats.t.ppf(0.975, 3) * differences.std(ddof=1) / 2

    assert row.difference == pytest.approx(0.125)
    assert (row.value_a, row.value_b) == pytest.approx((28 / 64, 20 / 64))
    assert (row.wins, row.losses, row.ties) == (2, 1, 1)
    assert (row.low, row.high) == pytest.approx((0.125 - half, 0.125 + half))
    assert row.interval == NEW_PROBLEMS
    assert row.same_interval == SAME_PROBLEMS
    assert row.same_p_value == pytest.approx(2 * stats.norm.sf(abs(row.same_z)))
    assert (row.lowest, row.highest) == (row.difference, row.difference)


def test_the_p_value_is_near_that_of_all_flips() -> None:
    differences = RNG.normal(0.2, 0.5, 12)
    all_flips = [abs(np.dot(signs, differences)) for signs in product((-1, 1), repeat=12)]
    exact = np.mean(np.array(all_flips) >= abs(differences.sum()) - 1e-12)
    shown = sign_flip_p_values(differences[None], 20_000, 0)[0]

    assert shown == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / 20_000))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), min_size=2, max_size=20), st.randoms())
def test_sides_mirror_and_order_makes_no_difference(pairs: list[tuple[int, int]], chance: object) -> None:
    a, b = (counts(list(column)) for column in zip(*pairs, strict=True))
    order = list(range(len(pairs)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    there = compare(a, b, [1, 4]).points[4]
    back = compare(b, a, [1, 4]).points[4]
    mixed = compare(a.select(np.array(order)), b, [1, 4]).points[4]

    assert mixed == there
    assert back.p_value == there.p_value
    assert back.difference == pytest.approx(-there.difference)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert (back.wins, back.losses) == (there.losses, there.wins)
    assert -1 <= there.low <= there.difference <= there.high <= 1


def test_unknown_grades_widen_the_comparison() -> None:
    a, b = counts([8] * 40, unknown=[4] * 40), counts([6] * 40, unknown=[4] * 40)
    row = compare(a, b, 1).points[1]

    assert (row.lowest, row.highest) == pytest.approx((-2 / 16, 6 / 16))
    assert row.low <= -2 / 16
    assert row.high >= 6 / 16
    assert row.warning is not None
    assert "unknown grades or missing samples alone" in row.warning


def test_different_problems() -> None:
    a = Counts(["a", "b", "c"], [8] * 3, [1, 2, 3])
    b = Counts(["c", "b", "d"], [8] * 3, [3, 1, 0])

    with pytest.raises(InputError, match=r"1 only in A \(a\), 1 only in B \(d\)"):
        compare(a, b, 1)
    shown = compare(a, b, 1, common_only=True)
    assert shown.problem_ids == ("b", "c")
    assert (shown.only_a, shown.only_b) == (("a",), ("d",))
    with pytest.raises(InputError, match="no problems in common"):
        compare(a, Counts(["z"], [8], [1]), 1, common_only=True)


def test_too_few_samples_on_one_side() -> None:
    a = Counts(["a", "b"], [8, 4], [1, 2])
    b = Counts(["a", "b"], [8, 8], [3, 1])

    with pytest.raises(InputError, match="1 of 2 problems have fewer than 8"):
        compare(a, b, [1, 8])
    shown = compare(a, b, [1, 8], allow_missing=True)
    assert shown.left_out == ("b",)
    assert shown.problem_ids == ("a",)
    with pytest.raises(InputError, match="no problem has 8"):
        compare(a, Counts(["a", "b"], [4, 8], [1, 1]), 8, allow_missing=True)


def test_levels_are_kept_where_sides_are_exchangeable() -> None:
    rng = np.random.default_rng(0)
    rates = rng.beta(0.5, 0.6, (2, 1500, 40))
    values = pass_at_k(32, rng.binomial(32, rates), 2)
    differences = values[0] - values[1]
    low, high = paired_bounds(differences)

    # Four standard errors of 1,500 repetitions at .05 are .0225.
    assert (sign_flip_p_values(differences, 999, 1) <= 0.05).mean() == pytest.approx(0.05, abs=0.0225)
    assert ((low <= 0) & (high >= 0)).mean() == pytest.approx(0.95, abs=0.0225)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_more_samples_on_one_side_are_no_win() -> None:
    """Equal models at k = n of the smaller side: with all samples A would win wherever it has a right one."""
    rng = np.random.default_rng(3)
    ids = [f"p{i}" for i in range(200)]
    rates = rng.beta(2, 2, 200)
    a = Counts(ids, [32] * 200, rng.binomial(32, rates))
    b = Counts(ids, [48] * 200, rng.binomial(48, rates))
    point = compare(a, b, 32).points[32]
    assert point.wins + point.losses < 10
    assert point.p_value > 0.05
    assert compare(a, b, 32).thinned == 200
    assert compare(a, a, 32).thinned == 0
