from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.passk import Counts, curve, pass_at_k, pool
from service.errors import InputError


@st.composite
def some_counts(draw: st.DrawFn) -> Counts:
    rows = draw(
        st.lists(
            st.integers(1, 20).flatmap(
                lambda n: st.tuples(st.just(n), st.integers(0, n)).flatmap(
                    lambda pair: st.tuples(
                        st.just(pair[0]), st.just(pair[1]), st.integers(0, pair[0] - pair[1])
                    )
                )
            ),
            min_size=1,
            max_size=12,
        )
    )
    n, correct, unknown = zip(*rows, strict=True)
    return Counts([f"p{row}" for row in range(len(rows))], n, correct, unknown)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (((), (), ()), "the counts contain no problems"),
        ((("a", "a"), (1, 1), (0, 0)), "repeated: a"),
        ((("a",), (1, 1), (0,)), "n has shape"),
        ((("a", "b"), (4, 4), (1, 5)), "problem b: 5 correct and 0 unknown are more than its 4"),
        ((("a", "b"), (4, 4), (1, 3), (0, 2)), "problem b: 3 correct and 2 unknown are more than its 4"),
        ((("a",), (4,), (-1,)), "problem a: correct is -1"),
        ((("a",), (4,), (0.5,)), "integers"),
    ],
)
def test_counts_that_cannot_be(columns: tuple[tuple[object, ...], ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Counts(*columns)  # type: ignore[arg-type]


def test_pooling_adds_by_problem_whatever_the_order() -> None:
    first = Counts(["a", "b"], [4, 4], [1, 2], [1, 0])
    second = Counts(["b", "a"], [8, 2], [8, 0])
    both = pool([first, second])

    assert both.problem_ids == ("a", "b")
    assert both.n.tolist() == [6, 12]
    assert both.correct.tolist() == [1, 10]
    assert both.unknown.tolist() == [1, 0]


def test_a_curve_of_known_values() -> None:
    counts = Counts(["a", "b"], [4, 8], [1, 8])
    shown = curve(counts, [2, 1, 2])

    assert list(shown) == [1, 2]
    assert shown[1].value == pytest.approx((1 / 4 + 1) / 2)
    assert shown[2].value == pytest.approx((1 / 2 + 1) / 2)
    assert shown[2].value_high == shown[2].value
    assert {point.problems for point in shown.values()} == {2}


def test_problems_with_too_few_samples_stop_the_curve() -> None:
    counts = Counts(["a", "b", "c"], [4, 8, 0], [4, 2, 0])

    with pytest.raises(InputError, match=r"2 of 3 problems have fewer than 8 graded samples: a, c\. Sample"):
        curve(counts, [1, 8])
    with pytest.raises(InputError, match="none of the 3 problems has 9"):
        curve(counts, [9])


@settings(max_examples=40)
@given(some_counts())
def test_bounds_are_ordered_and_hold_every_way_unknown_grades_can_fall(counts: Counts) -> None:
    most = int(counts.n.min())
    shown = curve(counts, range(1, most + 1))
    middle = counts.correct + counts.unknown // 2

    for point in shown.values():
        assert 0 <= point.value <= point.value_high <= 1
        between = float(np.mean(pass_at_k(counts.n, middle, point.k)))
        assert point.value - 1e-12 <= between <= point.value_high + 1e-12
        for interval in (point.new_problems, point.same_problems, point.rerun):
            assert 0 <= interval.low <= point.value + 1e-12
            assert point.value_high - 1e-12 <= interval.high <= 1
        assert point.rerun.low <= point.same_problems.low
        assert point.same_problems.high <= point.rerun.high
    values = [point.value for point in shown.values()]
    assert all(late >= early - 1e-12 for early, late in pairwise(values))
