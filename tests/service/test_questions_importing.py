"""Importing: golds checked against themselves, programs too; nothing twice, changed or half-written."""

import os
from pathlib import Path
from typing import Any

import pytest
from importing import import_questions
from json_rows import write_rows

from service.answer_kinds import AnswerKind
from service.database import Database
from service.errors import DatabaseError
from service.program_gold import ProgramGold, read_gold
from service.questions import load_members, question_id
from service.questions.programs import read_asked

ROWS = [
    {"question": "What is 1+1?", "answer": "2", "level": "Level 1", "subject": "Sums"},
    {"question": "What is half of 1?", "answer": r"\frac{1}{2}", "level": "Level 2"},
    {"question": "How many are there?", "answer": ""},
    {"question": "What is 3+4?", "answer": "7"},
]
DATA = Path(os.environ.get("TAGRPO_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))


def dump(db: Database) -> list[tuple[object, ...]]:
    with db.read() as session:
        connection = session.connection()
        return [
            tuple(row)
            for table in ("questions", "question_sets", "question_set_members")
            for row in connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2")
        ]


def pairs(report: dict[str, Any], kind: str) -> list[tuple[int, int]]:
    return [(pair["row"], pair["earlier"]) for pair in report[kind]]


def test_ids_are_those_of_the_content_and_stay_so() -> None:
    assert question_id("What is 1+1?", "2") == "q_9702b3401da16c4b6d9e2588"
    assert question_id(" What is 1+1?  \r\n", "2\n") == question_id("What is 1+1?", "2")
    assert question_id("What is 1+1?", "3") != question_id("What is 1+1?", "2")
    assert question_id("cafe\u0301", "1") == question_id("caf\u00e9", "1")


def test_repeated_rows_are_stored_once_and_contradictions_reported(db: Database, tmp_path: Path) -> None:
    other = {"question": "What is  3+4?", "answer": "8"}
    again = {"question": "What is 3+4? ", "answer": "7.0"}
    report = import_questions(db, write_rows(tmp_path / "a.jsonl", ROWS[0], ROWS[3], ROWS[0], other, again))
    assert pairs(report, "duplicates") == [(2, 0)]
    assert pairs(report, "conflicts") == [(3, 1)]
    assert pairs(report, "near_duplicates") == [(4, 1)]
    assert (report["rows"], report["usable"]) == (5, 4)


@pytest.mark.sqlite  # by a trigger in its words
def test_a_failure_while_writing_leaves_nothing_half_written(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db.write() as session:
        session.connection().exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON question_set_members WHEN NEW.position = 3 "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    before = dump(db)
    with pytest.raises(DatabaseError, match="disk is full"):
        import_questions(db, write_rows(tmp_path / "a.jsonl", *ROWS))
    assert dump(db) == before


@pytest.mark.slow
@pytest.mark.shared
def test_math_arrives_at_7498(db: Database) -> None:
    path = DATA / "math_train.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not there; set TAGRPO_DATA to the folder of the real data")
    report = import_questions(db, path)
    assert (report["rows"], report["usable"]) == (7500, 7498)
    held = [(each["row"], each["held"]) for each in report["held"]]
    assert held == [(5341, "no answer"), (5343, "no answer")]
    assert (report["duplicates"], report["conflicts"]) == ([], [])
    assert {(959, 925), (1227, 1168)} <= {*pairs(report, "near_duplicates")}


HUMANEVAL = {
    "task_id": "own/0",
    "prompt": 'import math\n\n\ndef up(x: float) -> int:\n    """Round up, 1.5 to 2."""\n',
    "entry_point": "up",
    "canonical_solution": "    return math.ceil(x)\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1.5) == 2\n",
}
MBPP = {
    "text": "Write a function to add two numbers.",
    "code": "def sum(a, b):\r\n  return a + b",
    "test_list": ["assert sum(1, 2) == 3", "assert sum(0, 0) == zero"],
    "test_setup_code": "zero = 0",
    "challenge_test_list": ["assert sum(-1, 1) == 0"],
}


def test_rows_of_humaneval() -> None:
    asked = read_asked(HUMANEVAL, HUMANEVAL["prompt"], HUMANEVAL["test"], HUMANEVAL["canonical_solution"])
    gold = read_gold(asked.gold)
    assert asked.text == HUMANEVAL["prompt"]
    assert gold.names == ("up",)
    assert gold.tests.endswith("    assert candidate(1.5) == 2\n\ncheck(up)")
    assert gold.helpers == "import math\n\n\n"
    assert asked.reference.endswith('"""\n    return math.ceil(x)\n')


def test_rows_of_mbpp_show_one_test_and_hide_the_others() -> None:
    asked = read_asked(MBPP, MBPP["text"], MBPP["test_list"], MBPP["code"])  # type: ignore[arg-type]
    assert asked.text.endswith("The code has to pass this test:\n\n    assert sum(1, 2) == 3")
    assert "-1" not in asked.text
    assert read_gold(asked.gold) == ProgramGold(
        "zero = 0\nassert sum(1, 2) == 3\nassert sum(0, 0) == zero\nassert sum(-1, 1) == 0", ("sum",)
    )


@pytest.mark.bubblewrap
def test_rows_whose_program_fails_and_tests_that_tell_nothing_are_held_back(
    db: Database, tmp_path: Path
) -> None:
    files: dict[str, list[dict[str, Any]]] = {
        "humaneval": [
            HUMANEVAL,
            HUMANEVAL | {"prompt": "def up(x):\n", "canonical_solution": "    return int(x)\n"},
        ],
        "mbpp": [
            MBPP,
            MBPP | {"text": "Multiply.", "code": "def sum(a, b): return a * b"},
            MBPP | {"text": "Anything.", "code": "", "test_list": ["assert True"], "challenge_test_list": []},
            MBPP | {"text": "No tests.", "test_list": [], "test_setup_code": "", "challenge_test_list": []},
        ],
    }
    held = []
    for name, rows in files.items():
        path = write_rows(tmp_path / f"{name}.jsonl", *rows)
        assert import_questions(db, path, kind=AnswerKind.CODE)["spec"]["answer_kind"] == "code"
        with db.read() as session:
            members = load_members(session, name)
        assert {member.question.kind for member in members} == {AnswerKind.CODE}
        held += [member.held for member in members]
    assert held == [
        None,
        "its own solution does not pass: tests failed at `assert candidate(1.5) == 2`",
        None,
        "its own solution does not pass: tests failed at `assert sum(1, 2) == 3`",
        "its tests cannot be used: bad tests: the tests never call the program",
        "no tests",
    ]
