"""Rollouts in the database: imported once however often it is asked, watched while files grow, paged."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from counted import count_rows
from rollout_shards import make_record, make_step, write_run

from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import open_run
from trainer_adapter.record import RolloutWriter, browsing
from trainer_adapter.record.browsing import (
    RolloutFilters,
    choose_train_run,
    list_train_runs,
    page_rollouts,
    read_rollout,
    read_rollout_texts,
    read_steps,
)
from trainer_adapter.record.importing import Imported, ImportMeanwhile, import_rollouts, watch_rollouts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "rollouts")


def test_a_second_import_changes_nothing(db: Database, folder: Path) -> None:
    assert import_rollouts(db, folder) == Imported(
        "ta", new=2, replaced=0, unchanged=0, rollouts=32, metrics=2
    )
    assert import_rollouts(db, folder) == Imported(
        "ta", new=0, replaced=0, unchanged=2, rollouts=0, metrics=0
    )
    assert [
        count_rows(db, t) for t in ("runs", "rollouts", "rollout_texts", "rollout_prompts", "train_steps")
    ] == [*(1, 32, 0, 4, 2)]
    assert db.integrity_report() == []


def test_everything_recorded_is_found_again(db: Database, folder: Path) -> None:
    import_rollouts(db, folder)
    with db.read() as session:
        (run,) = list_train_runs(session)
        assert (run.run.name, run.steps, run.first_step, run.last_step, run.rollouts) == ("ta", 2, 1, 2, 32)
        assert run.run.spec == {"recipe": "ta_grpo"}
        headers = page_rollouts(session, run.run.id, limit=100)
        for header, record in zip(headers, [*make_step(1), *make_step(2)], strict=True):
            whole = read_rollout(session, header.id)
            for name in vars(header):
                if name != "id":
                    assert getattr(header, name) == getattr(record, name)
            assert (whole.prompt, whole.response) == (record.prompt, record.response)
        texts = read_rollout_texts(session, [headers[0].id, 10_000])
        assert texts == {headers[0].id: make_record().response}
        steps = read_steps(session, run.run.id)
        assert [(one.step, one.rollouts) for one in steps] == [(1, 16), (2, 16)]
        assert steps[1].metrics == {"tagrpo/reward/mean": 0.2, "actor/lr": 1e-6}


def test_pages_go_on_by_key_and_filters_hold(db: Database, folder: Path) -> None:
    import_rollouts(db, folder)
    with db.read() as session:
        run = choose_train_run(session, None)
        everything = page_rollouts(session, run.id, limit=100)
        paged, after = [], None
        while part := page_rollouts(session, run.id, after=after, limit=5):
            paged += part
            after = part[-1].id
        assert paged == everything

        def found(**filters: object) -> list[browsing.RolloutHeader]:
            return page_rollouts(session, run.id, RolloutFilters(**filters), limit=100)  # type: ignore[arg-type]

        assert [one.step for one in found(step=2)] == [2] * 16
        question = everything[0].question_id
        assert len(found(question_id=question)) == 16
        assert len(found(question_id=question[:-1])) == 32
        assert found(question_id="%") == []
        assert {one.variant for one in found(variant=1)} == {1}
        assert {one.reward for one in found(grade="correct")} == {1.0}
        assert len(found(least_reward=0.5)) + len(found(most_reward=0.5)) == 32
        assert {one.session for one in found(truncated=True)} == {7}
        with pytest.raises(InputError, match="no grade"):
            found(grade="right")
        with pytest.raises(NotFoundError, match="9999"):
            page_rollouts(session, run.id, after=9999)
        with pytest.raises(NotFoundError, match="no rollout 9999"):
            read_rollout(session, 9999)


def test_a_step_trained_again_replaces_its_rollouts(db: Database, folder: Path) -> None:
    import_rollouts(db, folder)
    with RolloutWriter(folder, "ta") as writer:
        writer.write(1, [make_record(1, 9, response="anew")])
        writer.write_metrics(1, {"tagrpo/reward/mean": 0.9})
    done = import_rollouts(db, folder)
    assert (done.new, done.replaced, done.unchanged, done.rollouts, done.metrics) == (0, 1, 1, 1, 1)
    assert (count_rows(db, "rollouts"), count_rows(db, "rollout_shards")) == (17, 2)
    with db.read() as session:
        run = choose_train_run(session, "ta")
        assert [one.step for one in page_rollouts(session, run.id)] == [1] + [2] * 16
        assert read_steps(session, run.id)[0].metrics == {"tagrpo/reward/mean": 0.9}
    assert db.integrity_report() == []


def test_a_run_may_get_another_name(db: Database, folder: Path) -> None:
    assert import_rollouts(db, folder, name="mine").run == "mine"
    (folder / "run.json").unlink()
    assert import_rollouts(db, folder).run == "ta"  # as the shards say
    assert import_rollouts(db, folder, name="mine").unchanged == 2
    with db.read() as session, pytest.raises(InputError, match=r"name one: mine, ta"):
        choose_train_run(session, None)


def test_runs_that_do_not_fit_are_refused(db: Database, folder: Path, tmp_path: Path) -> None:
    with db.write() as session:
        open_run(session, name="ta", kind="eval", spec={}, question_ids=(), versions={})
    with pytest.raises(InputError, match="no training run"):
        import_rollouts(db, folder)
    with db.read() as session:
        with pytest.raises(InputError, match="no training run"):
            choose_train_run(session, "ta")
        with pytest.raises(InputError, match="no training run yet"):
            choose_train_run(session, None)
    import_rollouts(db, folder, name="first")
    other = tmp_path / "other"
    with RolloutWriter(other, "x", spec={"recipe": "grpo"}) as writer:
        writer.write(1, make_step(1))
    with pytest.raises(InputError, match="other settings: recipe"):
        import_rollouts(db, other, name="first")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no rollouts"):
        import_rollouts(db, tmp_path / "empty")


def test_a_bad_file_stops_the_import_behind_the_good_ones(db: Database, folder: Path) -> None:
    path = folder / "step-00000002.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("reward"), path)
    with pytest.raises(InputError, match=r"step-00000002\.parquet: has no column 'reward'"):
        import_rollouts(db, folder)
    assert (count_rows(db, "rollouts"), count_rows(db, "rollout_shards")) == (16, 1)


def test_an_import_that_stores_nothing_leaves_no_run(db: Database, folder: Path) -> None:
    path = folder / "step-00000001.parquet"
    whole = path.read_bytes()
    pq.write_table(pq.read_table(path).drop_columns("reward"), path)
    with pytest.raises(InputError, match=r"step-00000001\.parquet: has no column 'reward'"):
        import_rollouts(db, folder)
    assert count_rows(db, "runs") == 0
    path.write_bytes(whole)
    assert import_rollouts(db, folder).new == 2


def test_metrics_alone_are_a_run_too(db: Database, tmp_path: Path) -> None:
    with RolloutWriter(tmp_path / "m", "only-metrics") as writer:
        writer.write_metrics(1, {"a": 1})
    assert import_rollouts(db, tmp_path / "m").metrics == 1


@pytest.mark.slow
def test_two_processes_import_at_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "rollouts", range(1, 9), questions=20)
    code = (
        "import sys; from pathlib import Path; from service.database import Database;"
        "from trainer_adapter.record.importing import import_rollouts;"
        "print(import_rollouts(Database.open(sys.argv[1]), Path(sys.argv[2])).new)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "t.db"), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    new = [int(process.communicate(timeout=60)[0]) for process in started]
    assert sum(new) == 8
    with Database.open(tmp_path / "t.db") as db:
        assert count_rows(db, "rollouts") == 8 * 160
        assert db.integrity_report() == []


def test_watching_imports_what_appears_and_waits_for_half_files(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    stop = threading.Event()
    looks = watch_rollouts(db, folder, every_s=0.01, stop=stop)
    missing = next(looks)
    assert isinstance(missing, InputError)
    assert "no such folder" in str(missing)

    write_run(folder, (1,))
    whole = (folder / "step-00000001.parquet").read_bytes()
    first = next(looks)
    assert isinstance(first, Imported)
    assert (first.new, first.metrics) == (1, 1)

    with RolloutWriter(folder, "ta") as writer:
        writer.write(2, make_step(2))
        writer.write(3, make_step(3))
    second = (folder / "step-00000002.parquet").read_bytes()
    (folder / "step-00000002.parquet").write_bytes(second[:500])  # still being copied
    found = [next(looks), next(looks)]
    assert [type(one).__name__ for one in found] == ["IncompleteShardError", "Imported"]
    (folder / "step-00000002.parquet").write_bytes(second)
    assert next(looks) == Imported("ta", new=1, replaced=0, unchanged=0, rollouts=16, metrics=0)
    assert count_rows(db, "rollouts") == 48
    assert (folder / "step-00000001.parquet").read_bytes() == whole
    stop.set()
    assert list(looks) == []


def test_watching_ends_when_nothing_comes(db: Database, folder: Path) -> None:
    found = list(watch_rollouts(db, folder, every_s=0.01, idle_s=0.05))
    assert [type(one) for one in found] == [Imported]
    assert list(watch_rollouts(db, folder, every_s=0.01, idle_s=0.0)) == []


def test_an_import_beside_training_goes_on_after_a_failure_and_tells_what_was_left(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_adapter.record.importing.meanwhile._AGAIN_S", 0.05)
    opened, told = [0], list[str]()

    def open_database() -> Database:
        opened[0] += 1
        if opened[0] == 1:
            raise OSError("the disk is full")
        return Database.open(tmp_path / "t.db")

    with ImportMeanwhile(open_database, folder, told.append):
        until = time.monotonic() + 30
        while opened[0] < 2:
            assert time.monotonic() < until
    assert told == []
    with Database.open(tmp_path / "t.db") as kept:
        assert count_rows(kept, "rollouts") == 32

    def never() -> Database:
        raise OSError("the disk is full")

    with ImportMeanwhile(never, folder, told.append):
        pass
    assert told == [
        f"not all rollouts were imported (the disk is full); `tagrpo rollouts import {folder}` does it"
    ]
