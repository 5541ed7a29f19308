"""Runs with the same solver share its answers: a second run finds them and still judges everything."""

from pathlib import Path

from sqlalchemy import text
from world_runs import import_world, propose_arguments, stats, tagrpo, world_server

from service.database import Database


def test_a_run_that_finds_all_answers_judges_them(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    import_world(db, 3)
    with world_server("--model", "test-model") as url:
        first = propose_arguments(db, url)
        assert tagrpo(*first).returncode == 0
        paid = stats(url)["paid"]
        second = ["second" if word == "run" else word for word in first]
        done = tagrpo(*second)
        assert done.returncode == 0, done.stderr
        asked_again = stats(url)["paid"] - paid
    with Database.open(db, read_only=True) as database, database.read() as session:
        final = session.execute(
            text(
                "SELECT r.name, v.candidate_id, v.status, v.reason FROM verdicts v "
                "JOIN runs r ON r.id = v.run_id WHERE v.final ORDER BY 1, 2"
            )
        ).all()
        proposing = session.scalar(text("SELECT count(*) FROM cells WHERE kind = 'propose'"))
    by_run = {name: [tuple(row[1:]) for row in final if row[0] == name] for name in ("run", "second")}
    assert by_run["second"] == by_run["run"]
    assert len(by_run["run"]) >= 9
    assert asked_again == proposing // 2
