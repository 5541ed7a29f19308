"""`tagrpo neighbors propose --tops-up` as a user meets it."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine, words
from json_rows import write_rows
from proposing import llm, propose, runs
from world_runs import rows, stats

from rephraser.run.spec import RunSpec

ACCEPTED = (
    "SELECT question_id, count(*) FROM standings JOIN runs ON runs.id = run_id "
    "WHERE name = '{}' AND status = 'accepted' GROUP BY 1"
)
QUESTIONS = 6

pytestmark = pytest.mark.usefixtures("world_set")


def solved(url: str, *more: str, name: str) -> list[str]:
    return llm(url, "--solver", "hosted_vllm/test-model", "--solver-api-base", url, *more, name=name)


@pytest.mark.slow
def test_only_what_lacks_is_proposed_and_both_runs_are_published(
    cli: CommandLine, server: str, db: Path
) -> None:
    assert cli(*solved(server, "--n", "1", "--limit", "4", name="first")).code == 0
    assert cli(*solved(server, "--n", "2", "--rounds", "1", "--tops-up", "first", name="second")).code in (
        0,
        1,
    )
    before = dict(rows(db, ACCEPTED.format("first")))
    asked = rows(db, "SELECT DISTINCT question_id, count(*) FROM proposals JOIN runs ON runs.id = run_id "
                     "WHERE name = 'second' GROUP BY 1")  # fmt: skip
    assert {question for question, _ in asked} == {q for (q,) in rows(db, RUN_QUESTIONS.format("first"))}
    assert all(count == 2 - before.get(question, 0) for question, count in asked)
    # The questions were answered for the first run; the second asks about candidates alone.
    questions_answered = "SELECT count(*) FROM answers WHERE subject_id IN (SELECT id FROM questions)"
    assert rows(db, questions_answered) == [(4 * 32,)]
    texts = rows(db, "SELECT candidate_id, count(*) FROM standings WHERE status = 'accepted' GROUP BY 1")
    assert all(count == 1 for _, count in texts)

    shown = cli("runs", "show", "second")
    assert "This run tops up first, whose neighbors count too" in words(shown.out)
    assert "tagrpo sets publish NAME --run first --run second" in shown.out
    both = dict(rows(db, ACCEPTED.format("second")))
    together = {question: before.get(question, 0) + both.get(question, 0) for question in before | both}
    summary = json.loads(cli("runs", "show", "second", "--json").out)
    assert summary["tops_up"] == ["first"]
    assert summary["complete"] == sum(count >= 2 for count in together.values())
    assert cli("sets", "publish", "joined", "--run", "first", "--run", "second", "--n", "2").code == 0
    members = rows(db, "SELECT question_id, count(*) FROM neighbor_set_members GROUP BY 1")
    assert dict(members) == {question: min(2, count) for question, count in together.items() if count}


RUN_QUESTIONS = (
    "SELECT question_id FROM run_questions JOIN runs ON runs.id = run_id WHERE name = '{}' ORDER BY position"
)


@pytest.mark.slow
def test_the_same_command_goes_on_and_a_third_run_counts_both(
    cli: CommandLine, server: str, db: Path
) -> None:
    assert cli(*solved(server, "--n", "1", name="first")).code == 0
    second = solved(server, "--n", "2", "--tops-up", "first", name="second")
    cli(*second)
    requests = stats(server)["requests"]
    again = cli(*second)
    assert "continuing run second" in words(again.err)
    assert stats(server)["requests"] == requests
    cli(*solved(server, "--n", "3", "--rounds", "1", "--tops-up", "second", name="third"))
    specs = dict(rows(db, "SELECT name, CAST(spec AS text) FROM runs"))
    ids = dict(rows(db, "SELECT name, id FROM runs"))
    assert RunSpec.from_json(json.loads(specs["third"])).tops_up == (ids["first"], ids["second"])
    assert json.loads(cli("runs", "show", "third", "--json").out)["tops_up"] == ["first", "second"]


@pytest.mark.slow
def test_a_run_that_lacks_nothing_is_not_topped_up(cli: CommandLine, server: str) -> None:
    assert cli(*solved(server, "--n", "1", name="first")).code == 0
    requests = stats(server)["requests"]
    done = cli(*solved(server, "--n", "1", "--tops-up", "first", "--json", name="second"))
    assert done.code == 0
    assert json.loads(done.out)["run"] is None
    assert "all have 1; raise --n for more" in words(done.err)
    assert (runs(cli), stats(server)["requests"]) == (["first"], requests)


def test_runs_that_cannot_be_topped_up(cli: CommandLine) -> None:
    assert cli(*propose("--proposer", "rules", name="first")).code == 0
    rules = propose("--proposer", "rules", "--tops-up", "gone", name="second")
    assert (cli(*rules).code, "gone" in words(cli(*rules).err)) == (2, True)
    write_rows(Path("other.jsonl"), {"question": "What is 3 + 4?", "answer": "7"})
    assert cli("questions", "import", "other.jsonl", "--name", "other").code == 0
    done = cli(
        "neighbors", "propose", "other", "--name", "second", "--proposer", "rules", "--tops-up", "first"
    )
    assert (done.code, "is about questions 'world', not 'other'" in words(done.err)) == (2, True)
    assert runs(cli) == ["first"]


@pytest.mark.slow
def test_what_the_first_run_has_is_refused_as_a_sibling(cli: CommandLine, db: Path) -> None:
    questions = [row["question"] for row in map(json.loads, Path("sums.jsonl").read_text().splitlines())]
    first = [{"question": one, "candidate": f"Please tell: {one}"} for one in questions]
    write_rows(Path("first.jsonl"), *first)
    write_rows(Path("again.jsonl"), *first)
    file = ["--proposer", "file", "--n", "2"]
    cli(*propose(*file, "--candidates", "first.jsonl", name="first"))
    kept = rows(db, "SELECT count(*) FROM standings WHERE status = 'unverified'")
    assert kept[0][0] > 0
    cli(*propose(*file, "--candidates", "again.jsonl", "--tops-up", "first", name="second"))
    second = "FROM standings JOIN runs ON runs.id = run_id WHERE name = 'second'"
    assert rows(db, f"SELECT DISTINCT status {second}") == [("rejected",)]
    names = rows(
        db,
        "SELECT DISTINCT candidate_findings.name FROM candidate_findings JOIN runs ON runs.id = run_id "
        "WHERE runs.name = 'second'",
    )
    assert ("same_as_sibling",) in names
