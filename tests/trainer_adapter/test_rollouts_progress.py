"""Trainings under way: by the steps that were read while they were made."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from runs import open_empty
from sqlalchemy import insert

from service.runs.tables import RunRow
from trainer_adapter.record.series import trainings_under_way
from trainer_adapter.record.tables import RolloutShardRow

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
QUIET = timedelta(minutes=10)


@pytest.fixture
def db(tmp_path: Path):
    return open_empty(tmp_path / "t.db")


def train(db, name, seconds_before, *, total="60"):
    """Store a training whose steps 1, 2, ... were read so many seconds before NOW."""
    with db.write() as session:
        session.execute(
            insert(RunRow).values(
                id=f"run_{name}",
                name=name,
                kind="train",
                spec={"settings": {"trainer.total_training_steps": total} if total else {}},
                versions={},
                created_at="2026-01-31T10:00:00Z",
                finished_at=None,
            )
        )
        for step, before in enumerate(seconds_before, start=1):
            at = (NOW - timedelta(seconds=before)).strftime("%Y-%m-%dT%H:%M:%SZ")
            values = {"run_id": f"run_{name}", "step": step, "content": name, "rows": 512, "imported_at": at}
            session.execute(insert(RolloutShardRow).values(**values))


def under_way(db):
    with db.read() as session:
        return trainings_under_way(session, NOW, QUIET)


def test_pace_and_time_left_are_those_of_the_last_steps(db):
    train(db, "now", [5000, 300, 270, 240, 210, 180, 150, 120, 90, 60, 30])
    (found,) = under_way(db)
    assert (found.run.name, found.step, found.total, found.responses) == ("now", 11, 60, 512)
    assert found.seconds_a_step == 30
    assert found.minutes_left == pytest.approx(49 * 30 / 60)
    assert NOW - found.read_at == timedelta(seconds=30)


def test_a_resumed_training_is_under_way_before_it_passes_where_it_stopped(db):
    train(db, "resumed", [5000, 4900, 60, 30, 4600, 4500])  # steps 3 and 4 were trained again
    (progress,) = under_way(db)
    assert progress.step == 4
    assert progress.seconds_a_step == pytest.approx((5000 - 30) / 3)


@pytest.mark.parametrize(
    "seconds_before",
    [
        [],
        [10],  # no pace yet
        [700, 650],  # quiet
        [5, 5, 5, 5],  # imported afterwards, all at once
    ],
)
def test_what_is_not_under_way_is_left_out(db, seconds_before):
    train(db, "other", seconds_before)
    assert under_way(db) == []


def test_a_training_at_its_last_step_is_over_and_one_without_a_total_has_no_time_left(db):
    train(db, "over", [60, 30], total="2")
    train(db, "endless", [60, 30], total=None)
    train(db, "odd", [60, 30], total="[x]")
    assert [(one.run.name, one.minutes_left) for one in under_way(db)] == [("odd", None), ("endless", None)]
