"""Questions that are left out: chances by hand, their frequency, and what a real training would save."""

from pathlib import Path

import pytest

from benchmarks.studies.forecast import left_out
from evaluator.signal.sources.rollouts import read_visits
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


def test_chances_follow_from_seed_step_and_question() -> None:
    one, same, other = DeadGroups(0.5, 1), DeadGroups(0.5, 1), DeadGroups(0.5, 2)
    for groups in (one, same, other):
        groups.count(["q"], [])
    seen = [one.skips("q", step) for step in range(64)]
    assert seen == [same.skips("q", step) for step in reversed(range(64))][::-1]
    assert seen != [other.skips("q", step) for step in range(64)]
    same.replace({})
    assert not any(same.skips("q", step) for step in range(64))
    same.replace(one.to_json())
    assert seen == [same.skips("q", step) for step in range(64)]


def test_in_a_real_training_it_draws_fewer_dead_groups_and_misses_few_of_the_others(
    data_folder: Path,
) -> None:
    """What prompts gave at each visit stands in the log, on which p was chosen."""
    visits = read_visits(data_folder / "grpo_group_log_dsrsub.jsonl")
    drawn, mixed, missed = left_out(visits, 0.7)
    assert drawn < 0.7
    assert mixed > left_out(visits, 1)[1] + 0.15
    assert missed < 0.18
