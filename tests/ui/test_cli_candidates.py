"""`tagrpo rephrase list` and `show` as a user meets them: output, exit codes, help."""

import json
from pathlib import Path
from typing import Any

import pytest
import runs
from candidates import ADD, ASKED, HALF, HALVED, ODD, PENDING, SUM, WRONG
from command_line import CommandLine, squeezed
from runs import add_ask, add_run, completion
from sqlalchemy import insert, update

from rephraser.candidates import update_standings
from rephraser.tables import ProposalRow, VerdictRow
from service.database import Database
from service.runs.store import Run

ANSWERS = {"overlap": 11, "by_solver": {"test/solver": {"original": 32, "candidate": 12}}}
EVIDENCE = {**runs.evidence(28, 9), **ANSWERS, "versions": {"grader": "1", "checks": "1"}}


@pytest.fixture
def cli(neighbors):
    return neighbors


def listed(cli: CommandLine, *arguments: str) -> list[str]:
    out = cli.ok("list", *arguments, "--json").out
    return [candidate["candidate"] for candidate in json.loads(out)["candidates"]]


def add_evidence(db: Path, run: Run, identity: str, evidence: dict[str, Any], verdict: str) -> None:
    with Database.open(db) as database, database.write() as session:
        row = {"candidate_id": identity, "run_id": run.id, "status": verdict}
        more = {"reason": "11 of 11 shared.", "final": True, "created_at": "2030-01-01T00:00:00Z"}
        session.execute(insert(VerdictRow).values(**row, **more, evidence=evidence))
        update_standings(session, [identity])


def test_a_list_by_pages(cli, run):
    every = listed(cli)
    assert len(every) == 5
    assert [identity for identity in every if identity in {ADD, WRONG, ODD}] == [ADD, WRONG, ODD]

    out = cli.ok("list", "--run", "run", "--limit", "2").out
    assert f"5 in total; see more with --after {every[1]}" in out
    assert listed(cli, "--limit", "2", "--after", every[1]) == every[2:4]
    assert listed(cli, "--after", every[3][:14]) == every[4:]
    assert "no more candidates of run match" in cli("list", "--after", every[4])[1]


def test_a_list_by_filters(cli, run, db):
    finding = {"name": "number_added", "severity": "fatal", "detail": "4"}
    add_evidence(db, run, WRONG, {"findings": [finding]}, "rejected")
    decoy = {"findings": [{**finding, "name": "too_long", "detail": '"name": "number_added"'}]}
    add_evidence(db, run, ADD, decoy, "accepted")

    assert sorted(listed(cli, "--status", "accepted")) == sorted([ADD, HALVED])
    assert "11 of 11 shared." in cli("list", "--status", "rejected")[1]
    assert listed(cli, "--status", "pending") == [PENDING]
    assert listed(cli, "--strategy", "format") == [WRONG]
    assert listed(cli, "--question", HALF.id[:9]) == [HALVED, PENDING]
    assert listed(cli, "--finding", "number_added") == [WRONG]
    assert listed(cli, "--finding", "number_added", "--status", "accepted") == []
    assert cli("list", "--strategy", "format", "--status", "accepted")[1] == "no candidates of run match\n"

    with Database.open(db) as database:
        add_run(database, "two", ASKED[:1])
    cli.refuses(
        {
            "list": "Choose one: run, two",
            "list --finding number_ded --run run": "Did you mean number_added?",
            "list --strategy rename --run run": "Available: format, perspectives",
            "list --run nope": "there is no rephrasing run 'nope'",
            "list --after c_zz --run run": "no candidate has an id",
            "list --reviews --status accepted": "--reviews allows only --run",
        }
    )


def test_show_has_texts_verdicts_and_the_answers(cli, run, db):
    add_evidence(db, run, ADD, EVIDENCE, "accepted")
    out = cli.ok("show", ADD).out
    lines = squeezed(out)
    for expected in (
        "text Add 2 and 3.",
        f"question id={SUM.id}, text=What is 2+3?, answer=5, level=Level 3, subject=Algebra, kind=latex",
        "strategy perspectives",
        "classes gold, other",
        "original 28, 3",
        "candidate 9, 3",
        "overlap 11",
    ):
        assert expected in lines

    found = cli.json("show", ADD)
    assert found["question"]["id"] == SUM.id
    statuses = [verdict["status"] for verdict in found["runs"][0]["verdicts"]]
    assert statuses == ["unverified", "accepted", "accepted"]
    assert found["runs"][0]["verdicts"][2]["evidence"] == EVIDENCE
    assert found["runs"][0]["cost"] is None
    assert "Add 2 and [b]4[/b]." in cli("show", WRONG)[1]
    assert "␛[2Jwhat?" in cli("show", ODD)[1]


def test_show_raw_has_the_prompt_the_answer_and_the_cost(cli, run, db):
    body = completion("<b>Add 2 and 3.</b>")
    prompt = (("system", "Say it in other words."), ("user", "<problem>\nWhat is 2+3?\n</problem>"))
    with Database.open(db) as database, database.write() as session:
        about = {"kind": "propose", "about": SUM.id, "prompt": prompt}
        asked = add_ask(session, run.id, body, **about, tokens=(120, 30), usd=0.25)
        add_ask(session, run.id, "{}", scope="solver_1", about=ADD, tokens=(40, 400), usd=None)
        of_two = ProposalRow.candidate_id.in_([ADD, ODD])
        session.execute(update(ProposalRow).where(of_two).values(ask_id=asked))

    out = cli("show", ADD, "--raw")[1]

    for expected in (
        "cost requests=1, prompt_tokens=120, completion_tokens=30, usd=0.25, unpriced=0",
        "answers cost requests=1, prompt_tokens=40, completion_tokens=400, usd=0, unpriced=1",
        "Say it in other words.",
        "<problem>\nWhat is 2+3?\n</problem>",
        "<b>Add 2 and 3.</b>",
        body,
    ):
        assert expected in out or expected in squeezed(out)
    exchange = cli.json("show", ADD, "--raw")["runs"][0]["exchange"]
    assert (exchange["text"], exchange["body"]) == ("<b>Add 2 and 3.</b>", body)
    assert "exchange" not in cli.json("show", ADD)["runs"][0]
