"""The record of a training, read where it is: groups, lists, series, diagnosis, rescues, progress."""

import os
from datetime import UTC, datetime, timedelta
from math import exp
from pathlib import Path

import pytest
from rescues import write_rescues
from rollout_shards import add_training, make_record, make_step, write_run

from service.errors import InputError, NotFoundError
from service.runs.store import Run, open_run
from trainer_adapter.record import RolloutWriter, listing
from trainer_adapter.record.diagnosing import training_source, windows_source
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.listing import RolloutFilters, list_rollouts
from trainer_adapter.record.progress import TrainingProgress, training_progress
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import rescue_totals
from trainer_adapter.record.runs import choose_train_run, list_train_runs
from trainer_adapter.record.series import trained_checkpoint

GRADES = {
    "mixed": (True, False, None, True),
    "all right": (True, True, True, True),
    "all wrong": (False, False, False, False),
    "unclear": (False, False, None, False),
}
QUESTION = f"q_{1:024x}"


@pytest.fixture
def record(tmp_path):
    return Record(write_run(tmp_path / "ta", (1, 2, 3)))


def test_groups_are_told_by_kind_and_paged_both_ways(tmp_path):
    with RolloutWriter(tmp_path / "kinds", "kinds", background=False) as writer:
        for step in (1, 2):
            reasons = {None: "timeout", True: "exact", False: "different"}
            records = [
                make_record(
                    step, question, session, correct=grade, reward=float(grade is True), reason=reasons[grade]
                )
                for question, grades in enumerate(GRADES.values())
                for session, grade in enumerate(grades)
            ]
            writer.write(step, records)
    counts = Record(tmp_path / "kinds").counts()
    every = counts.page_groups()
    keys = [(group.step, group.question_id) for group in every]
    assert [(one.step, one.kind) for one in every] == [(step, kind) for step in (1, 2) for kind in GRADES]
    mixed = every[0]
    assert (mixed.correct, mixed.wrong, mixed.unknown, mixed.timeouts) == (2, 1, 1, 1)
    assert (mixed.responses, mixed.reward, mixed.reward_least, mixed.reward_most) == (4, 0.5, 0.0, 1.0)
    for kind in GRADES:
        assert [one.step for one in counts.page_groups(GroupFilters(kind=kind))] == [1, 2]
    assert {one.kind for one in counts.page_groups(GroupFilters(unknown=True))} == {"mixed", "unclear"}
    assert len(counts.page_groups(GroupFilters(timeouts=True, step=2))) == 2
    assert counts.page_groups(GroupFilters(truncated=True)) == []
    for place, key in enumerate(keys):
        assert counts.page_groups(after=key, limit=3) == every[place + 1 : place + 4]
        assert counts.page_groups(before=key, limit=3) == every[max(0, place - 3) : place]
    assert counts.page_groups(after=(1, "q_~")) == every[4:]
    with pytest.raises(InputError, match="not a kind of group"):
        GroupFilters(kind="good")


def test_what_is_not_there_is_named(record):
    with pytest.raises(NotFoundError, match="step 4 has no responses"):
        record.joint_group(4, QUESTION)
    with pytest.raises(NotFoundError, match="no rollout 1:16: step 1 has 16"):
        record.rollout("1:16")
    with pytest.raises(InputError, match="'x' is not a rollout id"):
        record.rollout("x")


def test_a_list_stops_at_a_bound(record, monkeypatch):
    monkeypatch.setattr(listing, "HEADERS_READ", 16)
    page = list_rollouts(record, RolloutFilters(grade="wrong"), limit=50)
    assert ({one.step for one in page.rollouts}, page.after) == ({1}, "1:15")


def test_the_cost_axis_adds_up_and_checkpoints_tell_their_run(record):
    tokens = 2 * sum(range(10, 18))
    assert record.counts().drawn_by_step()[:2] == [(1, 16, tokens), (2, 32, 2 * tokens)]
    names = ["ta", "grpo"]
    path = "/data/runs/ta/checkpoints/global_step_120/actor/huggingface"
    assert trained_checkpoint(path, names) == ("ta", 120)
    assert trained_checkpoint("grpo/old/ta/global_step_7", names) == ("ta", 7)
    assert trained_checkpoint("/models/other/global_step_7", names) is None
    assert trained_checkpoint("Qwen/Qwen2.5-Math-1.5B", names) is None


def test_a_training_is_diagnosed_by_stretches(record):
    for windows, names in ((2, ["steps 1-2", "step 3"]), (9, ["step 1", "step 2", "step 3"])):
        found = windows_source(record, "ta", windows).checkpoints
        assert [checkpoint.label for checkpoint in found] == [f"ta, {name}" for name in names]
    source = training_source(record, "ta", [(2, 3), (1, 1)])
    pair, _ = source.checkpoints
    assert pair.label == "ta, steps 2-3"
    assert len(pair.groups) == 4  # two questions at two steps
    group = next(group for group in pair.groups if group.group_id == f"q_{0:024x}")
    original, neighbor = group.prompts
    # Every third response is correct: sessions 0 and 3 of the original, 6 of the neighbor.
    assert (original.correct, original.wrong, original.unknown) == (2, 2, 0)
    assert (neighbor.correct, neighbor.wrong) == (1, 3)
    assert (original.tokens, original.token_samples) == (10 + 11 + 12 + 13, 4)
    assert (original.source_id, original.strategy) == (f"q_{0:024x}", None)
    assert (neighbor.source_id, neighbor.strategy) == (f"c_{0:023x}1", "wording")
    [(_, prompts)] = source.texts("ta, steps 2-3", [QUESTION])
    assert {variant: len(texts) for variant, texts in prompts.items()} == {0: 8, 1: 8}
    assert [prompts[0][place][:7] for place in (0, -1)] == ["Step 2:", "Step 3:"]
    with pytest.raises(InputError, match="no rollouts at steps 7 to 9"):
        training_source(record, "ta", [(7, 9)])


def test_runs_that_do_not_fit_are_refused(db, tmp_path):
    folder = write_run(tmp_path / "rollouts")
    with db.read() as session, pytest.raises(InputError, match="there are no training runs yet"):
        choose_train_run(session, None)
    with db.write() as session:
        open_run(session, name="ta", kind="eval", spec={}, question_ids=(), versions={})
    with pytest.raises(InputError, match="not a training run"):
        add_training(db, folder)
    with db.read() as session, pytest.raises(InputError, match="of kind eval, not train"):
        choose_train_run(session, "ta")
    add_training(db, folder, "first")
    with RolloutWriter(tmp_path / "other", "x", spec={"recipe": "grpo"}) as writer:
        writer.write(1, make_step(1))
    with pytest.raises(InputError, match="other settings: recipe"):
        add_training(db, tmp_path / "other", "first")
    (folder / "run.json").unlink()
    with pytest.raises(InputError, match="the folder does not name its run"):
        add_training(db, folder)
    add_training(db, folder, "first")
    with db.read() as session:
        assert [one.run.name for one in list_train_runs(session)] == ["first"]


def test_totals_of_rescues_count_groups_responses_and_weights(tmp_path):
    record = Record(write_rescues(tmp_path))
    totals = rescue_totals(record.counts(), record.run.spec)
    assert (totals.groups, totals.dead, totals.asked, totals.revived) == (6, 4, 4, 2)
    assert (totals.first, totals.more, totals.to_neighbors) == (24, 8, 16)
    assert totals.dead_share == pytest.approx(4 / 6)
    assert totals.revived_share == pytest.approx(0.5)
    # of the revived question's neighbors sessions 4, 6 and 7 are wrong, with log-ratios 0, -2 and -3
    weights = [1.0, exp(-2), exp(-3)]
    assert totals.weighed == 6
    assert totals.weight == pytest.approx(sum(weights) / 3)
    assert totals.effective == pytest.approx(sum(weights) ** 2 / (3 * sum(w**2 for w in weights)))
    dead, responses, weighed = totals.sentences()
    assert dead.startswith(
        "4 of 6 groups were all wrong at first (66.7%); neighbors were sampled for 4 groups and rescued 2"
    )
    assert responses == "responses: 24 in the first stage; in the second, 8 to questions, 16 to neighbors"
    assert weighed.startswith("6 wrong responses to neighbors have mean weight 0.395")


NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
QUIET = timedelta(minutes=10)


def progress(folder: Path, seconds_before: list[int], *, total: str | None = "60") -> TrainingProgress | None:
    """Return how far a training is whose steps 1, 2, ... were written so many seconds before NOW."""
    spec = {"settings": {"trainer.total_training_steps": total} if total else {}}
    with RolloutWriter(folder, "ta", spec=spec) as writer:
        for step in range(1, len(seconds_before) + 1):
            writer.write(step, make_step(step))
    for step, before in enumerate(seconds_before, start=1):
        at = NOW.timestamp() - before
        os.utime(folder / f"step-{step:08d}.parquet", (at, at))
    run = Run("run_1", "ta", "train", spec, {}, "2026-01-31T10:00:00Z", None)
    return training_progress(run, Record(folder), NOW, QUIET)


def test_a_resumed_training_is_under_way_before_it_passes_where_it_stopped(tmp_path):
    found = progress(tmp_path, [5000, 4900, 60, 30, 4600, 4500])  # steps 3 and 4 were trained again
    assert found.step == 4
    assert found.seconds_a_step == pytest.approx((5000 - 30) / 3)


@pytest.mark.parametrize(
    ("seconds_before", "total"),
    [
        ([], "60"),
        ([10], "60"),  # no pace yet
        ([700, 650], "60"),  # quiet
        ([5, 5, 5, 5], "60"),  # copied, all at once
        ([60, 30], "2"),  # at its last step
    ],
)
def test_what_is_not_under_way_is_left_out(tmp_path, seconds_before, total):
    assert progress(tmp_path, seconds_before, total=total) is None
