"""Joint groups of rollouts: counted at import, paged, read whole, over training; series of metrics."""

from dataclasses import replace
from pathlib import Path

import pytest
from counted import assert_counts_hold
from rollout_shards import make_record, make_step, write_run

from service.database import Database
from service.errors import InputError, NotFoundError
from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.browsing import list_train_runs, read_rollout_texts
from trainer_adapter.record.importing import import_rollouts
from trainer_adapter.record.joint_groups import (
    GroupFilters,
    RolloutGroup,
    log_ratio,
    page_groups,
    page_steps,
    question_history,
    read_joint_group,
)
from trainer_adapter.record.series import drawn_by_step, metric_names, metric_series, trained_checkpoint

GRADES = {
    "mixed": (True, False, None, True),
    "all right": (True, True, True, True),
    "all wrong": (False, False, False, False),
    "unclear": (False, False, None, False),
}


def import_kinds(db: Database, folder: Path) -> str:
    """Import two steps with a question of each kind, four responses each; return the run's id."""
    with RolloutWriter(folder, "kinds", background=False) as writer:
        for step in (1, 2):
            records = [
                make_record(
                    step,
                    question,
                    session,
                    correct=correct,
                    reward=float(correct is True),
                    reason="timeout" if correct is None else "exact",
                )
                for question, grades in enumerate(GRADES.values())
                for session, correct in enumerate(grades)
            ]
            writer.write(step, records)
    import_rollouts(db, folder)
    with db.read() as session:
        return list_train_runs(session)[0].run.id


def pages(db: Database, run_id: str, **filters: object) -> list[RolloutGroup]:
    """Read all groups page by page."""
    found: list[RolloutGroup] = []
    with db.read() as session:
        while page := page_groups(
            session,
            run_id,
            GroupFilters(**filters),  # type: ignore[arg-type]
            after=(found[-1].step, found[-1].question_id) if found else None,
            limit=3,
        ):
            found += page
    return found


def test_groups_are_told_by_kind(db: Database, tmp_path: Path) -> None:
    run_id = import_kinds(db, tmp_path / "r")
    assert_counts_hold(db, "rollout_groups")
    found = pages(db, run_id)
    assert [(one.step, one.kind) for one in found] == [(step, kind) for step in (1, 2) for kind in GRADES]
    mixed = found[0]
    assert (mixed.correct, mixed.wrong, mixed.unknown, mixed.timeouts) == (2, 1, 1, 1)
    assert (mixed.responses, mixed.reward, mixed.reward_least, mixed.reward_most) == (4, 0.5, 0.0, 1.0)
    for kind in GRADES:
        assert [one.step for one in pages(db, run_id, kind=kind)] == [1, 2]
    assert {one.kind for one in pages(db, run_id, unknown=True)} == {"mixed", "unclear"}
    assert {one.kind for one in pages(db, run_id, timeouts=True, step=2)} == {"mixed", "unclear"}
    assert pages(db, run_id, truncated=True) == []
    with pytest.raises(InputError, match="no kind of group"):
        GroupFilters(kind="good")


def test_steps_add_their_groups_up(db: Database, tmp_path: Path) -> None:
    run_id = import_kinds(db, tmp_path / "r")
    with db.read() as session:
        first, second = page_steps(session, run_id)
        assert (first.step, first.questions, first.responses) == (1, 4, 16)
        assert (first.mixed, first.all_right, first.all_wrong, first.unclear) == (1, 1, 1, 1)
        assert (first.correct, first.wrong, first.unknown, first.reward) == (6, 8, 2, 6 / 16)
        assert first.zero_gradient == 0.5
        assert second.step == 2
        assert page_steps(session, "run_none") == []


def test_steps_add_up_the_groups_that_filters_leave(db: Database, tmp_path: Path) -> None:
    run_id = import_kinds(db, tmp_path / "run")
    with db.read() as session:
        for filters in (
            *(GroupFilters(kind=kind) for kind in GRADES),
            GroupFilters(step=2),
            GroupFilters(unknown=True, step=1),
            GroupFilters(timeouts=True),
            GroupFilters(truncated=True),
        ):
            found, groups = page_steps(session, run_id, filters), page_groups(session, run_id, filters)
            assert sum(step.questions for step in found) == len(groups)
            assert sum(step.responses for step in found) == sum(group.responses for group in groups)
            assert sum(step.correct for step in found) == sum(group.correct for group in groups)
            assert {step.step for step in found} == {group.step for group in groups}


def test_a_step_that_is_imported_again_is_counted_anew(db: Database, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", (1, 2, 3))
    import_rollouts(db, folder)
    with RolloutWriter(folder, "ta", background=False) as writer:
        writer.write(2, [replace(record, correct=True, reward=1.0) for record in make_step(2, questions=1)])
    assert import_rollouts(db, folder).replaced == 1
    assert_counts_hold(db, "rollout_groups", "train_metric_names")
    with db.read() as session:
        run_id = list_train_runs(session)[0].run.id
        assert [one.questions for one in page_steps(session, run_id)] == [2, 1, 2]
        (group,) = page_groups(session, run_id, GroupFilters(step=2))
        assert group.kind == "all right"


def test_a_joint_group_has_a_column_for_each_prompt(db: Database, tmp_path: Path) -> None:
    import_rollouts(db, write_run(tmp_path / "r", (1, 2)))
    with db.read() as session:
        run_id = list_train_runs(session)[0].run.id
        question = f"q_{1:024x}"
        found = read_joint_group(session, run_id, 2, question)
        original, neighbor = found.columns
        assert (original.variant, original.neighbor_id, original.prompt) == (0, None, "What is 1 + 1? (0)")
        assert (neighbor.variant, neighbor.strategy) == (1, "wording")
        assert [one.session for one in neighbor.rollouts] == [4, 5, 6, 7]
        assert {one.step for column in found.columns for one in column.rollouts} == {2}
        assert found.question is None  # questions of a file are in no set
        texts = read_rollout_texts(session, [one.id for one in original.rollouts])
        assert all(text.startswith("Step 2") for text in texts.values())
        ratio = log_ratio(original.rollouts[1])
        assert ratio == pytest.approx((-21.0 - -21.0) / 11)
        assert log_ratio(replace(original.rollouts[0], tokens=0)) is None
        assert log_ratio(replace(original.rollouts[0], old_log_prob=None)) is None
        history = question_history(session, run_id, question)
        assert [one.step for one in history] == [1, 2]
        with pytest.raises(NotFoundError, match="step 3 has no responses"):
            read_joint_group(session, run_id, 3, question)


def test_series_hold_the_chosen_metrics_of_several_runs(db: Database, tmp_path: Path) -> None:
    for name in ("a", "b"):
        import_rollouts(db, write_run(tmp_path / name, (1, 2, 3), run=name))
    with db.read() as session:
        ids = [one.run.id for one in list_train_runs(session)]
        assert metric_names(session, ids) == {id: ["actor/lr", "tagrpo/reward/mean"] for id in ids}
        first, second = metric_series(session, ids, ["tagrpo/reward/mean", "none/such"])
        assert (first.run_id, first.steps) == (ids[0], (1, 2, 3))
        assert first.values == {"tagrpo/reward/mean": (0.1, 0.2, 0.3), "none/such": (None, None, None)}
        assert second.values == first.values
        (one,) = metric_series(session, ids[:1], ["actor/lr"])
        assert (one.steps, one.values) == ((1, 2, 3), {"actor/lr": (1e-6,) * 3})
        assert metric_series(session, ["run_none"], ["actor/lr"])[0].steps == ()
        with pytest.raises(InputError, match="quotation marks"):
            metric_series(session, ids, ['x"y'])


def test_the_cost_axis_adds_up_and_checkpoints_tell_their_run(db: Database, tmp_path: Path) -> None:
    import_rollouts(db, write_run(tmp_path / "r", (1, 2)))
    with db.read() as session:
        drawn = drawn_by_step(session, list_train_runs(session)[0].run.id)
    tokens = 2 * sum(range(10, 18))
    assert [(one.step, one.responses, one.tokens) for one in drawn] == [(1, 16, tokens), (2, 32, 2 * tokens)]
    names = ["ta", "grpo"]
    path = "/data/runs/ta/checkpoints/global_step_120/actor/huggingface"
    assert trained_checkpoint(path, names) == ("ta", 120)
    assert trained_checkpoint("grpo/old/ta/global_step_7", names) == ("ta", 7)
    assert trained_checkpoint("/models/other/global_step_7", names) is None
    assert trained_checkpoint("Qwen/Qwen2.5-Math-1.5B", names) is None
