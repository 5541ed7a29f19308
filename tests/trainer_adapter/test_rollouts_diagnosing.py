"""Rollouts in the database as the diagnostics want them."""

import pytest
from rollout_shards import write_run

from service.database import Database
from service.errors import InputError
from trainer_adapter.record.browsing import choose_train_run
from trainer_adapter.record.diagnosing import load_visits, visit_texts
from trainer_adapter.record.importing import import_rollouts
from trainer_adapter.record.joint_groups import GroupFilters, page_groups


@pytest.fixture
def session(tmp_path):
    with Database.open(tmp_path / "t.db") as database:
        import_rollouts(database, write_run(tmp_path / "ta", (1, 2, 3)))
        with database.read() as session:
            yield session


def test_visits_hold_the_counts_of_each_prompt(session):
    run = choose_train_run(session, "ta")
    found = load_visits(session, run, 2, 3)
    assert found.label == "ta, steps 2-3"
    assert len(found.groups) == 4  # two questions at two steps
    group = next(group for group in found.groups if group.group_id == f"q_{0:024x}")
    original, neighbor = group.prompts
    # Every third response is correct: sessions 0 and 3 of the original, 6 of the neighbor.
    assert (original.correct, original.wrong, original.unknown) == (2, 2, 0)
    assert (neighbor.correct, neighbor.wrong) == (1, 3)
    assert (original.tokens, original.token_samples) == (10 + 11 + 12 + 13, 4)
    assert (original.source_id, original.strategy) == (f"q_{0:024x}", None)
    assert (neighbor.source_id, neighbor.strategy) == (f"c_{0:023x}1", "wording")


def test_steps_without_rollouts_are_an_error(session):
    with pytest.raises(InputError, match="no rollouts at the steps 7 to 9"):
        load_visits(session, choose_train_run(session, "ta"), 7, 9)


def test_texts_are_pooled_over_the_steps(session):
    run = choose_train_run(session, "ta")
    (group,) = visit_texts(session, run, 1, 2, [f"q_{1:024x}"])
    assert {variant: len(texts) for variant, texts in group.prompts.items()} == {0: 8, 1: 8}
    assert group.prompts[0][0].startswith("Step 1: ")
    assert group.prompts[0][-1].startswith("Step 2: ")


def test_groups_are_paged_backwards_as_forwards(session):
    run = choose_train_run(session, "ta")
    every = page_groups(session, run.id)
    keys = [(group.step, group.question_id) for group in every]
    assert len(keys) == 6
    assert page_groups(session, run.id, before=keys[4], limit=2) == every[2:4]
    assert page_groups(session, run.id, before=keys[1], limit=5) == every[:1]
    assert page_groups(session, run.id, before=keys[0]) == []
    assert page_groups(session, run.id, GroupFilters(step=2), before=keys[5]) == every[2:4]
