"""`tagrpo rephrase run proposer=file`: candidates that someone already has."""

import json
from pathlib import Path

import pytest
import world
from command_line import CommandLine
from json_rows import write_rows
from proposing import from_file, refused
from world_runs import rows

pytestmark = pytest.mark.usefixtures("world_set")


def originals() -> list[str]:
    return [row["question"] for row in world.questions(6)]


def owning(question: str) -> str:
    return question.replace(" has ", " owns ", 1)


def test_a_file_by_text_with_rows_that_belong_to_no_question(cli: CommandLine, db: Path) -> None:
    source = write_rows(
        Path("c.jsonl"),
        *({"question": question, "rephrased": owning(question)} for question in originals()[:3]),
        {"question": "What is somebody else's question?", "rephrased": "Whose is it?"},
    )
    done = cli.ok(*from_file(source, "--n", "1"))
    assert "1 of 4 rows match no question of this run" in done.err
    assert "3 of 6 questions have all 1 neighbors" in done.out
    stored = rows(db, "SELECT text FROM candidates ORDER BY text")
    assert stored == [(owning(question),) for question in sorted(originals()[:3])]

    # The file belongs to the run: resuming takes the same candidates, and no others.
    assert cli("resume", "r", f"proposer.candidates={source}").code == 0
    assert cli("resume", "r").code == 0
    write_rows(source, {"question": originals()[0], "rephrased": "Something else."})
    changed = cli("resume", "r", f"proposer.candidates={source}")
    assert (changed.code, "source (" in changed.err) == (2, True)
    again = cli(*from_file(source, "--n", "1"))
    assert (again.code, "source (" in again.err) == (2, True)


def test_a_file_by_id_with_lists_and_named_columns(cli: CommandLine, db: Path) -> None:
    ids = [question for (question,) in rows(db, "SELECT id FROM questions ORDER BY id")]
    texts = dict(rows(db, "SELECT id, text FROM questions"))
    lists = [
        {"key": key, "mine": [owning(texts[key]), texts[key].replace(" has ", " holds ", 1)]} for key in ids
    ]
    source = write_rows(Path("c.jsonl"), *lists)
    columns = ["proposer.question_column=key", "proposer.candidate_column=mine"]
    refused(cli, from_file(source), "Choose another column with proposer.question_column")
    refused(cli, from_file(source, columns[0]), "Set proposer.candidate_column; available: key, mine")
    refused(
        cli, from_file(source, "proposer.question_column=foo"), "no column 'foo' (proposer.question_column)"
    )
    done = cli.ok(*from_file(source, *columns, "--n", "2", "--limit", "4"))
    assert "4 of 4 questions have all 2 neighbors" in done.out
    assert "2 of 6 rows match no question" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "c.jsonl: the file is empty"),
        ('{"question": "a", "candidate": "b"}\n{"question": "a"', "c.jsonl:2: not valid JSON"),
        ('{"question_id": "q_1", "candidate": "b"}', "none of its 1 rows belongs to a question of this set"),
    ],
)
def test_files_that_cannot_be_used(cli: CommandLine, content: str, message: str) -> None:
    Path("c.jsonl").write_text(content)
    refused(cli, from_file("c.jsonl"), message)
    refused(cli, from_file("absent.jsonl"), "absent.jsonl: no such file")


def test_the_strategy_names_the_candidates(cli: CommandLine) -> None:
    source = write_rows(Path("c.jsonl"), {"question": originals()[0], "candidate": owning(originals()[0])})
    refused(cli, from_file(source, "proposer.strategy=Very hard", name="other"), "proposer.strategy")
    assert cli(*from_file(source, "proposer.strategy=harder", "--n", "1")).code == 0
    listed = json.loads(cli("rephrase", "list", "--json").out)["candidates"]
    assert [item["strategy"] for item in listed] == ["harder"]


def test_hostile_candidates_are_rejected_and_printed_as_they_are(cli: CommandLine) -> None:
    first, second, third = originals()[:3]
    write_rows(
        Path("c.jsonl"),
        {"question": first, "candidate": first + " and so on" * 100_000},
        {"question": second, "candidate": "NUL \x00 " + second},
        {"question": third, "candidate": "[bold]Now[/] [/foo] " + owning(third)},
    )
    assert cli(*from_file("c.jsonl")).code == 0
    listed = cli("rephrase", "list", "--json").out
    # PostgreSQL keeps no NUL: there it becomes U+FFFD.
    statuses = {
        item["text"][:5].replace("\ufffd", "\0"): item["status"] for item in json.loads(listed)["candidates"]
    }
    assert statuses == {first[:5]: "rejected", "NUL \x00": "rejected", "[bold": "unverified"}
    assert "[bold]Now[/] [/foo]" in cli("rephrase", "list").out
