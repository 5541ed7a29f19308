"""Equal rewards: exact small cases by enumeration, unbiasedness, populations, unknown grades."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.signal.groups import (
    CheckpointGroups,
    GroupCounts,
    PromptSample,
    QuestionGroup,
    count_groups,
    difference_estimate,
    mean_estimate,
    pool_visits,
    usual_neighbors,
)
from evaluator.signal.zero_gradient import (
    JOINT_GROUP,
    MATCHED_GROUP,
    NEIGHBOR_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
    ZeroGradient,
    chosen_neighbors,
    ends,
    pooled_equal,
    unknown_ends,
    zero_gradient,
)
from service.errors import InputError


def group(name: str, *counts: tuple[int, ...]) -> QuestionGroup:
    """A group by (correct, wrong[, unknown]) of each prompt, the original first."""
    return QuestionGroup(name, tuple(PromptSample(variant, *part) for variant, part in enumerate(counts)))


def shares(result: ZeroGradient) -> dict[str, float]:
    return {row.group: row.share for row in result.shares}


def equal_by_enumeration(prompts: list[list[int]], g: int) -> float:
    """The share of choices of g of each prompt's rewards in which all rewards are equal."""
    draws = [list(combinations(rewards, g)) for rewards in prompts]
    chosen = [sum(choice, ()) for choice in product(*draws)]
    return float(np.mean([len(set(rewards)) == 1 for rewards in chosen]))


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=5), min_size=2, max_size=3),
    st.integers(2, 3),
)
def test_a_joint_group_is_counted_exactly(prompts: list[list[int]], g: int) -> None:
    correct = np.array([[sum(rewards) for rewards in prompts]])
    wrong = np.array([[len(rewards) - sum(rewards) for rewards in prompts]])
    exact = ends(correct, wrong, g)
    joint = pooled_equal(exact, len(prompts) - 1, with_original=True)[0]
    assert joint == pytest.approx(equal_by_enumeration(prompts, g), abs=1e-12)
    neighbors = pooled_equal(exact, len(prompts) - 1, with_original=False)[0]
    assert neighbors == pytest.approx(equal_by_enumeration(prompts[1:], g), abs=1e-12)


def test_the_estimate_is_unbiased() -> None:
    p, m, g = 0.8, 12, 4
    counts = np.arange(m + 1)
    chance = np.array([float(np.prod([(m - i) / (i + 1) for i in range(c)])) for c in counts])
    chance = chance * p**counts * (1 - p) ** (m - counts)
    found = ends(counts, m - counts, g)
    assert chance @ found.right == pytest.approx(p**g, abs=1e-12)
    assert chance @ found.wrong == pytest.approx((1 - p) ** g, abs=1e-12)


def test_too_few_responses_have_no_estimate() -> None:
    found = ends(np.array([7, 8]), np.array([0, 0]), 8)
    assert np.isnan(found.right[0])
    assert found.right[1] == 1.0


@given(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), min_size=1, max_size=6), st.integers(0, 4))
def test_n_of_the_neighbors_are_averaged_over_all_choices(values: list[float], n: int) -> None:
    there = [value for value in values if not np.isnan(value)]
    expected = np.mean([np.prod(c) for c in combinations(there, n)]) if len(there) >= n else np.nan
    got = chosen_neighbors(np.array([values]), n)[0]
    assert got == pytest.approx(expected, abs=1e-9, nan_ok=True)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3))
def test_unknown_grades_are_bounded(correct: int, wrong: int, unknown: int) -> None:
    g = 2
    if correct + wrong + unknown < g:
        return
    arrays = [np.array([[count]]) for count in (correct, wrong, unknown)]
    low, high = (unknown_ends(arrays[0], arrays[1], arrays[2], g, most=most) for most in (False, True))
    for right in range(unknown + 1):
        filled = ends(arrays[0] + right, arrays[1] + unknown - right, g)
        assert low.right[0, 0] - 1e-12 <= filled.right[0, 0] <= high.right[0, 0] + 1e-12
        assert low.wrong[0, 0] - 1e-12 <= filled.wrong[0, 0] <= high.wrong[0, 0] + 1e-12


def test_rows_of_a_small_run() -> None:
    groups = (
        group("a", (2, 0), (2, 0), (2, 0)),  # equal throughout
        group("b", (2, 0), (0, 2), (0, 2)),  # each prompt equal, jointly mixed
        group("c", (0, 2), (1, 1), (0, 2)),
        group("d", (1, 1), (1, 1), (1, 1)),
    )
    result = zero_gradient(CheckpointGroups("base", groups), 2, 2)
    assert shares(result) == {
        ORIGINAL_GROUP: 0.75,
        NEIGHBOR_GROUP: 0.625,
        "neighbor 1, G": 0.5,
        "neighbor 2, G": 0.75,
        NEIGHBORS_GROUP: 0.5,
        JOINT_GROUP: 0.25,
    }
    assert [(row.group, row.minus, row.difference) for row in result.gaps] == [
        (NEIGHBORS_GROUP, ORIGINAL_GROUP, -0.25),
        (JOINT_GROUP, ORIGINAL_GROUP, -0.5),
    ]
    assert "needs 6 responses" in result.notes[0]
    assert all(row.questions == 4 and row.left_out == 0 for row in result.shares)
    assert all(row.low is not None and row.low <= row.share <= (row.high or 0) for row in result.shares)


def test_the_fair_row_draws_as_many_from_the_original() -> None:
    groups = (group("a", (6, 0), (2, 0)), group("b", (3, 1), (2, 0)))
    result = zero_gradient(CheckpointGroups("base", groups), 2, 1)
    found = shares(result)
    assert found[MATCHED_GROUP] == pytest.approx(0.5)  # 4 of 6 equal, all 4 of the other mixed
    assert found[ORIGINAL_GROUP] == pytest.approx((1 + 3 / 6) / 2)
    assert found[JOINT_GROUP] == pytest.approx((1 + 3 / 6) / 2)


def test_questions_with_too_few_responses_are_left_out_and_counted() -> None:
    groups = (group("a", (2, 0), (2, 0)), group("b", (1, 1), (1, 0)), group("c", (0, 2)))
    result = zero_gradient(CheckpointGroups("base", groups), 2, 1)
    assert {row.group: (row.questions, row.left_out) for row in result.shares}[ORIGINAL_GROUP] == (1, 2)
    assert result.notes[0].startswith("2 of 3 questions are left out")
    alone = zero_gradient(CheckpointGroups("base", groups), 2, 0)
    assert shares(alone) == {ORIGINAL_GROUP: pytest.approx(2 / 3)}


def test_questions_weigh_equally_whatever_their_visits() -> None:
    visits = [group("a", (2, 0)), group("a", (1, 1)), group("a", (1, 1)), group("b", (0, 2))]
    result = zero_gradient(CheckpointGroups("steps 1-3", tuple(visits)), 2, 0)
    assert result.shares[0].share == pytest.approx((1 / 3 + 1) / 2)
    assert result.shares[0].questions == 2
    assert pool_visits(visits)[0].prompts[0].correct == 4


def test_unknown_grades_are_left_out_and_bounded() -> None:
    groups = (group("a", (2, 0, 1)), group("b", (1, 0, 1)), group("c", (1, 1)))
    row = zero_gradient(CheckpointGroups("base", groups), 2, 0).shares[0]
    assert row.share == 0.5  # a is all right as far as known, b has one known grade only
    assert (row.questions, row.left_out, row.unknown) == (2, 1, 2)
    assert row.bound_low == pytest.approx((1 / 3 + 0 + 0) / 3)
    assert row.bound_high == pytest.approx((1 + 1 + 0) / 3)


@pytest.mark.parametrize(
    ("g", "n", "message"),
    [(1, 0, "at least 2"), (2, -1, "0 or more"), (9, 0, "at most 2 for an original"), (2, 3, "3 neighbors")],
)
def test_what_cannot_be_shown_is_an_error(g: int, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        zero_gradient(CheckpointGroups("base", (group("a", (1, 1), (2, 0)),)), g, n)


def test_no_groups_are_an_error() -> None:
    with pytest.raises(InputError, match="no responses"):
        zero_gradient(CheckpointGroups("base", ()), 8, 0)


def test_a_variant_stands_in_a_group_once() -> None:
    with pytest.raises(ValueError, match="each variant must occur once"):
        QuestionGroup("a", (PromptSample(1, 1, 0), PromptSample(1, 0, 1)))
    with pytest.raises(ValueError, match="not be negative"):
        PromptSample(0, -1, 0)
    with pytest.raises(ValueError, match="one shape"):
        GroupCounts(np.zeros(1, int), np.zeros((1, 2), int), np.zeros((1, 1), int), np.zeros((1, 2), int))


def test_counts_keep_gaps_among_variants() -> None:
    gap = QuestionGroup("a", (PromptSample(2, 3, 1), PromptSample(0, 1, 1)))
    counts = count_groups([gap])
    assert counts.correct.tolist() == [[1, 0, 3]]
    assert counts.known.tolist() == [[2, 0, 4]]
    assert usual_neighbors([gap, group("b", (1, 1)), group("c", (1, 1))]) == 0
    assert usual_neighbors([gap, group("b", (1, 1))]) == 1


def test_few_differences_are_no_certainty() -> None:
    none = difference_estimate(np.zeros(20))
    assert none.value == 0
    assert none.low is not None
    assert none.low < -0.05
    assert difference_estimate(np.zeros(1)).high == 1.0
    many = difference_estimate(np.array([0.5, -0.5] * 20))
    assert many.low == pytest.approx(mean_estimate(np.array([0.5, -0.5] * 20)).low)
    assert difference_estimate(np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])).high == 1.0
    with pytest.raises(ValueError, match="between -1 and 1"):
        difference_estimate(np.array([1.5]))


@pytest.mark.parametrize(("questions", "share"), [(30, 0.2), (30, 0.05), (200, 0.02)])
def test_intervals_of_differences_cover(questions: int, share: float) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        values = -1.0 * (rng.random(questions) < share)
        found = difference_estimate(values)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= -share <= found.high
    assert covered >= 0.92 * 400
