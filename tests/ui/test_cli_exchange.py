"""`eval import`, `compare --tool-grades` and `export`: what is read and written, and what is refused."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import squeezed
from json_rows import write_rows

from service.database import Database

ROWS = [
    {"question": "Say: 2+2?", "answer": "4", "response": "\\boxed{4}", "score": 0, "id": 0},
    {"question": "Say: 2+2?", "answer": "4", "response": None, "id": 0},
    {"question": "Say: 3+3?", "answer": "6", "response": "\\boxed{6}", "score": 1, "id": 7},
]


@pytest.fixture
def cli(cli):
    write_rows(Path("rows.jsonl"), *ROWS)
    write_rows(Path("sums.jsonl"), {"question": "2+2?", "answer": "4"})
    return cli.within("eval")


def test_responses_come_in_are_compared_and_go_out(cli):
    arguments = ("import", "rows.jsonl", "--model", "a/b", "--benchmark", "sums.jsonl", "--by", "inside")
    done = cli.warned(*arguments)
    assert "responses that match no problem of sums: 1" in done.err
    assert "requests to which the other tool got no response (pass@k is given as a range): 1" in done.err
    assert {"run b.sums", "format rows", "imported 1", "problems 1", "samples 1"} <= {*squeezed(done.out)}
    again = cli.json(*arguments, code=3)
    assert (again["imported"], again["there_before"], again["without_response"]) == (0, 1, 1)
    assert again["unmatched"]["listed"] == [{"question": "Say: 3+3?", "responses": 1}]
    assert again["agreement"]["counts"] == [{"theirs": "wrong", "ours": "correct", "responses": 1}]
    write_rows(Path("changed.jsonl"), {**ROWS[0], "response": "4"})
    changed = cli("import", "changed.jsonl", *arguments[2:])
    assert (changed.code, "exists with other settings: " in changed.err) == (2, True)
    assert "sha256" in changed.err

    listed = cli("compare", "b.sums", "--tool-grades")
    assert (listed.code, "wrong (0)" in listed.out, "correct (exact)" in listed.out) == (0, True, True)
    cli.ok("compare", "b.sums", "--tool-grades", "--out", "unlike.csv")
    with Path("unlike.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["theirs"], row["ours"], row["gold"]) == ("wrong", "correct", "4")

    written = cli("export", "b.sums", "--out", "out.jsonl", "--json")
    assert json.loads(written.out)["samples"] == 1
    (row,) = map(json.loads, Path("out.jsonl").read_text().splitlines())
    assert (row["response"], row["grade"], row["other_grade"]) == ("\\boxed{4}", "correct", "0")
    assert row["model"] == "a/b"
    assert cli.json("compare", "b.sums", "--tool-grades")["alike"] == 0
    summary = cli.within("runs")("show", "b.sums")
    assert (summary.code, "temperature" in summary.out) == (3, False)
    assert "b.sums: 1 sample permanently missing: the other tool received no response" in summary.err
    record = cli.within("runs").json("show", "b.sums", code=3)
    assert (record["truncated"], record["truncated_share"], record["refused_share"]) == (None, None, None)
    basis = cli("report", "b.sums").out.partition("Sample details")[2]
    assert "unknown" in basis.splitlines()[2]


def test_scores_that_are_points_are_told_and_left_out(cli):
    """Points are no grades; they stood beside ours as "0 alike (0.0%)"."""
    write_rows(Path("points.jsonl"), *({**row, "score": 5} for row in ROWS))
    told = cli("import", "points.jsonl", "--model", "m", "--name", "points")
    assert "none of the other tool's scores is a correct or wrong grade; if they are points" in told.err
    alone = cli("import", "points.jsonl", "--model", "m", "--name", "alone", "--column", "score=", "--json")
    assert json.loads(alone.out)["agreement"] is None


def test_uneven_numbers_of_responses_lack_nothing(cli):
    rows = [{"question": "2+2?", "answer": "4", "response": "4"}] * 3
    rows += [{"question": "3+3?", "answer": "6", "response": "6"}]
    write_rows(Path("uneven.jsonl"), *rows)
    done = cli.ok("import", "uneven.jsonl", "--model", "a/b", "--name", "uneven")
    assert {"minimum samples per problem 1", "maximum samples per problem 3"} <= {*squeezed(done.out)}


def test_what_cannot_be_done_is_refused_before_anything_is_stored(cli):
    for arguments, message in [
        (("import", "rows.jsonl"), "does not state its model. Give it with --model"),
        (("import", "none.jsonl", "--model", "m"), "none.jsonl: no such file"),
        (("import", "rows.jsonl", "--model", "m", "--column", "response"), "give PART=NAME"),
        (("import", "rows.jsonl", "--model", "m", "--benchmark", "sums.jsonl"), "--by inside"),
        (("import", "rows.jsonl", "--model", "m", "--from", "sums.jsonl"), "--from requires --benchmark"),
    ]:
        assert message in cli.refused(*arguments)
    assert not Path("tagrpo.db").exists()
    Database.open("tagrpo.db").close()
    assert "there is no eval run 'x'" in cli("compare", "x", "--tool-grades").err
    assert "give two models, or one run with --tool-grades" in cli("compare", "x").err
    assert "the format is unknown" in cli("export", "x", "--out", "o.txt").err


@pytest.mark.slow
def test_as_a_module_of_python_it_grades_in_processes_of_its_own(cli):
    """These import what was run; the module is also what verifiers loads, which may be absent."""
    done = subprocess.run(
        [sys.executable, "-m", "tagrpo", "eval", "import", "rows.jsonl", "--model", "a/b"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr  # a request got no response
    assert "imported 2" in squeezed(done.stdout)
