"""`python -m sandbox`: questions and candidates through a real run, and the score against the truth."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, run_here

from evaluator.passk.intervals import exact_interval
from rephraser.candidates import update_standings
from rephraser.tables import VerdictRow
from sandbox.scoring import read_truth
from service.database import Database
from service.errors import InputError


@pytest.fixture
def cli(monkeypatch, tmp_path):
    """Run `tagrpo` in an empty folder that gets a database of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAGRPO_DB", str(tmp_path / "t.db"))
    return run_here


def prepare(cli: CommandLine) -> None:
    """Bring 40 questions with 3 candidates each to a run `checked`, which has no solver."""
    few = ("--per-question", 3)
    from_file = ("proposer=file", "proposer.candidates=c.jsonl")
    commands = [
        ("sandbox", "questions", "w", "--train", 40, "--heldout", 8),
        ("sandbox", "candidates", "w", "--out", "c.jsonl", "--truth", "t.jsonl", *few, "--broken", 0.25),
        ("questions", "import", "w/train.jsonl", "--name", "train"),
        ("rephrase", "run", "train", "--name", "checked", *from_file, "--n", 3),
    ]
    for command in commands:
        cli.ok(*command)


def score(cli: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("sandbox", "score", "checked", "--truth", "t.jsonl")
    return found


def test_a_run_without_a_solver_sees_numbers_alone_and_other_files_are_refused(cli):
    prepare(cli)
    found = score(cli)
    assert sum(found["broken"]["outcomes"].values()) == 30
    assert found["good"]["outcomes"]["passed"] == 90
    assert found["good"]["rejected"]["count"] == 0
    kinds = {kind["name"]: kind for kind in found["kinds"]}
    assert kinds["reversed: price asked"]["rejected"]["share"] == 1
    assert kinds["numbers exchanged"]["rejected"]["share"] == 0
    share = found["broken"]["rejected"]
    assert share["count"] == found["broken"]["outcomes"]["rejected by structure"]
    assert (share["low"], share["high"]) == pytest.approx(exact_interval(share["count"], 30))
    assert (found["unproposed"], found["unknown"]) == (0, 0)

    row = '{"candidate_id": "c_0", "break": null}\n'
    Path("other.jsonl").write_text(row)
    Path("bad.jsonl").write_text(row + "{}\n")
    cli.refuses(
        {
            "sandbox score checked --truth other.jsonl": "has no candidate from this truth file",
            "sandbox score checked --truth bad.jsonl": "bad.jsonl:2: not a row of a truth file",
            "sandbox candidates w --out x.jsonl --truth x.jsonl": "must be two different files",
            "sandbox candidates w --out c.jsonl --truth new.jsonl": "exists",
            "sandbox questions v --world Z": "there is no world 'Z'",
        }
    )
    assert not Path("new.jsonl").exists()
    with pytest.raises(InputError, match="cannot be read"):
        read_truth(Path("nowhere.jsonl"))


@pytest.mark.sqlite  # reads the file
def test_verdicts_by_answers_and_reviews_are_told_apart(cli, tmp_path):
    prepare(cli)
    truth = read_truth(Path("t.jsonl"))
    with sqlite3.connect("t.db") as connection:
        query = "SELECT candidate_id FROM verdicts WHERE final AND status = 'unverified'"
        passed = [row[0] for row in connection.execute(query)]
        (run_id,) = connection.execute("SELECT id FROM runs").fetchone()
    broken = [identity for identity in passed if truth[identity]]
    good = [identity for identity in passed if not truth[identity]]
    decided = {broken[0]: "rejected", good[0]: "rejected", good[1]: "undecided", good[2]: "accepted"}
    with Database.open(tmp_path / "t.db") as database, database.write() as session:
        for identity, status in decided.items():
            evidence = {"findings": [{"name": "unit_missing", "severity": "warning"}]}
            row = {"candidate_id": identity, "run_id": run_id, "status": status, "reason": "by hand"}
            session.add(VerdictRow(**row, final=True, evidence=evidence, created_at="2026-01-01T00:00:00Z"))
        session.flush()
        update_standings(session, decided)
    cli.ok("rephrase", "review", good[3], "--reject", "--reason", "no")
    found = score(cli)
    assert found["broken"]["outcomes"]["rejected by answers"] == 1
    wanted = {"rejected by answers": 1, "rejected by a reviewer": 1, "undecided": 1}
    assert {name: found["good"]["outcomes"][name] for name in wanted} == wanted
    assert found["good"]["rejected"]["count"] == 2
    assert found["good"]["kept_out"]["count"] == 3


def test_candidates_and_their_truth_are_written_both_or_none(cli):
    cli.ok("sandbox", "questions", "world", "--train", "4", "--heldout", "4")
    Path("file").touch()
    asked = ("sandbox", "candidates", "world", "--out")
    cli.refused(*asked, "file/c.jsonl", "--truth", "truth.jsonl")
    assert not Path("truth.jsonl").exists()
    Path("world/train.jsonl").write_text("")
    done = cli(*asked, "d.jsonl", "--truth", "e.jsonl")
    assert (done.code, Path("e.jsonl").exists(), "contains no questions" in done.err) == (2, False, True)


def test_pre_training_that_is_interrupted_says_that_it_starts_again(cli, monkeypatch):
    def stopped(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sandbox.policy.pretrain_policy", stopped)
    done = cli("sandbox", "pretrain", "p")
    assert (done.code, "starts from the beginning" in done.err) == (130, True)
