"""Equal rewards: exact small cases by enumeration, unknown grades; what a diagnosis leaves out."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.signal.groups import CheckpointGroups, PromptSample, QuestionGroup, count_groups
from evaluator.signal.shapes import (
    JOINT_GROUP,
    NEIGHBOR_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
    GroupShape,
    ends,
)
from evaluator.signal.zero_gradient import unknown_bounds, zero_gradient


def group(name: str, *counts: tuple[int, ...]) -> QuestionGroup:
    """A group by (correct, wrong[, unknown]) of each prompt, the original first."""
    return QuestionGroup(name, tuple(PromptSample(variant, *part) for variant, part in enumerate(counts)))


def equal_by_enumeration(prompts: list[list[int]], g: int) -> float:
    """The share of choices of g of each prompt's rewards in which all rewards are equal."""
    draws = [list(combinations(rewards, g)) for rewards in prompts]
    chosen = [sum(choice, ()) for choice in product(*draws)]
    return float(np.mean([len(set(rewards)) == 1 for rewards in chosen]))


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=5), min_size=2, max_size=3), st.integers(2, 3)
)
def test_a_joint_group_is_counted_exactly(prompts: list[list[int]], g: int) -> None:
    correct = np.array([[sum(rewards) for rewards in prompts]])
    wrong = np.array([[len(rewards) - sum(rewards) for rewards in prompts]])
    joint, neighbors = (
        GroupShape("", len(prompts) - 1, g, original).counted(*ends(correct, wrong, g))[0]
        for original in (True, False)
    )
    assert joint == pytest.approx(equal_by_enumeration(prompts, g), abs=1e-12)
    assert neighbors == pytest.approx(equal_by_enumeration(prompts[1:], g), abs=1e-12)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3))
def test_unknown_grades_are_bounded(correct: int, wrong: int, unknown: int) -> None:
    if correct + wrong + unknown < 2:
        return
    pair = GroupShape("pair", 0, 2)
    low, high = unknown_bounds(count_groups([group("a", (correct, wrong, unknown))]), pair)
    for right in range(unknown + 1):
        graded = np.array([[correct + right]]), np.array([[wrong + unknown - right]])
        assert low - 1e-12 <= pair.counted(*ends(*graded, 2))[0] <= high + 1e-12


def test_rows_of_a_small_run() -> None:
    groups = (
        group("a", (2, 0), (2, 0), (2, 0)),  # equal throughout
        group("b", (2, 0), (0, 2), (0, 2)),  # each prompt equal, jointly mixed
        group("c", (0, 2), (1, 1), (0, 2)),
        group("d", (1, 1), (1, 1), (1, 1)),
    )
    tables, notes = zero_gradient(CheckpointGroups("base", groups), 2, 2)
    shares = tables["zero_gradient"]
    assert {row["group"]: row["share"] for row in shares} == {
        ORIGINAL_GROUP: 0.75,
        NEIGHBOR_GROUP: 0.625,
        NEIGHBORS_GROUP: 0.5,
        JOINT_GROUP: 0.25,
    }
    assert [(row["group"], row["minus"], row["difference"]) for row in tables["zero_gradient_gaps"]] == [
        (NEIGHBORS_GROUP, ORIGINAL_GROUP, -0.25),
        (JOINT_GROUP, ORIGINAL_GROUP, -0.5),
    ]
    assert "needs 6 responses" in notes[0]
    assert all(row["questions"] == 4 and row["left_out"] == 0 for row in shares)
    assert all(row["low"] <= row["share"] <= row["high"] for row in shares)
