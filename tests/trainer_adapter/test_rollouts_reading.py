"""The record of a training, read where it is: groups, searches, series, diagnosis, refusals."""

from pathlib import Path

import pytest
from rollout_shards import add_training, make_record, make_step, write_run

from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import open_run
from trainer_adapter.record import RolloutWriter, listing
from trainer_adapter.record.diagnosing import training_source, windows_source
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.listing import RolloutFilters, list_rollouts
from trainer_adapter.record.reading import Record
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
def record(tmp_path: Path) -> Record:
    return Record(write_run(tmp_path / "ta", (1, 2, 3)))


@pytest.fixture
def kinds(tmp_path: Path) -> Record:
    """Return two steps with a question of each kind, four responses each."""
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
    return Record(tmp_path / "kinds")


def test_groups_are_told_by_kind_and_paged_both_ways(kinds: Record) -> None:
    counts = kinds.counts()
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


def test_what_is_not_there_is_named(record: Record) -> None:
    with pytest.raises(NotFoundError, match="step 4 has no responses"):
        record.joint_group(4, QUESTION)
    with pytest.raises(NotFoundError, match="no rollout 1:16: step 1 has 16"):
        record.rollout("1:16")
    with pytest.raises(InputError, match="'x' is not a rollout id"):
        record.rollout("x")


def test_searches_and_lists_stop_at_a_bound(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record.rollout("2:3").response
    found = list_rollouts(record, RolloutFilters(text=text.upper()), limit=50)
    assert "2:3" in [one.id for one in found.rollouts]
    assert {one.step for one in found.rollouts} == {2}
    monkeypatch.setattr(listing, "TEXTS_READ", 20)
    monkeypatch.setattr(listing, "TEXTS_TOGETHER", 10)
    none = RolloutFilters(text="nowhere to be read")
    page = list_rollouts(record, none)
    assert (page.rollouts, page.after) == ((), "2:9")  # 10, 6 and 10 texts were read
    page = list_rollouts(record, none, after=page.after)
    assert page.after == "3:15"
    assert list_rollouts(record, none, after=page.after).after is None
    monkeypatch.setattr(listing, "HEADERS_READ", 16)
    page = list_rollouts(record, RolloutFilters(grade="wrong"), limit=50)
    assert ({one.step for one in page.rollouts}, page.after) == ({1}, "1:15")


def test_the_cost_axis_adds_up_and_checkpoints_tell_their_run(record: Record) -> None:
    tokens = 2 * sum(range(10, 18))
    assert record.counts().drawn_by_step()[:2] == [(1, 16, tokens), (2, 32, 2 * tokens)]
    names = ["ta", "grpo"]
    path = "/data/runs/ta/checkpoints/global_step_120/actor/huggingface"
    assert trained_checkpoint(path, names) == ("ta", 120)
    assert trained_checkpoint("grpo/old/ta/global_step_7", names) == ("ta", 7)
    assert trained_checkpoint("/models/other/global_step_7", names) is None
    assert trained_checkpoint("Qwen/Qwen2.5-Math-1.5B", names) is None


def test_a_training_is_diagnosed_by_stretches(record: Record) -> None:
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


def test_runs_that_do_not_fit_are_refused(db: Database, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "rollouts")
    with db.read() as session, pytest.raises(InputError, match="there are no runs yet"):
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
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no rollouts"):
        add_training(db, tmp_path / "empty")
    with db.read() as session:
        assert [one.run.name for one in list_train_runs(session)] == ["first"]
