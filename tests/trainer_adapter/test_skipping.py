"""Questions that are left out: chances by hand, and their frequency."""

import pytest

from trainer_adapter.methods.skipping import DeadGroups


def test_a_question_is_drawn_with_p_to_the_power_of_its_dead_groups_in_a_row() -> None:
    groups = DeadGroups(0.7, 0)
    assert groups.chance("q") == 1
    groups.count(["q", "q", "r"], [])
    groups.count(["q"], ["r"])
    assert groups.chance("q") == pytest.approx(0.7**3)
    assert groups.chance("r") == 1
    groups.count([], ["q"])
    assert groups.chance("q") == 1
    drawn = DeadGroups(0.7, 3)
    drawn.count(["q", "q"], [])
    share = sum(not drawn.skips("q", step) for step in range(4000)) / 4000
    assert share == pytest.approx(0.49, abs=0.03)
