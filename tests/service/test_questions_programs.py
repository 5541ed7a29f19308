"""Importing questions that ask for programs: rows as HumanEval and MBPP have them, and what is held back."""

from pathlib import Path

import pytest
from importing import import_questions
from json_rows import write_rows

from service.answer_kinds import AnswerKind
from service.database import Database
from service.errors import InputError
from service.program_gold import ProgramGold, read_gold
from service.questions import Columns, load_members
from service.questions.programs.rows import read_asked

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
PLAIN = {
    "task": "Write `twice`.",
    "checks": "assert twice(2) == 4",
    "reference": "def twice(n): return 2 * n",
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


def test_plain_tests_name_what_nobody_defines() -> None:
    asked = read_asked({}, "Write f.", "import math\nx = [1]\nassert f(x, len(x)) == math.pi", "")
    assert read_gold(asked.gold).names == ("f",)


@pytest.mark.parametrize("entry", [5, "two words", ["f"]])
def test_a_function_without_a_name_is_a_fault_of_the_row(entry: object) -> None:
    with pytest.raises(ValueError, match='"entry_point" is not a valid function name'):
        read_asked({"entry_point": entry}, "def f(): ...", "def check(candidate): ...", "")


def test_rows_whose_program_fails_and_tests_that_tell_nothing_are_held_back(
    db: Database, tmp_path: Path
) -> None:
    rows = [
        HUMANEVAL,
        HUMANEVAL | {"prompt": "def up(x):\n", "canonical_solution": "    return int(x)\n"},
        MBPP | {"prompt": MBPP["text"]},
        MBPP | {"prompt": "Multiply.", "code": "def sum(a, b): return a * b"},
        MBPP | {"prompt": "Anything.", "code": "", "test_list": ["assert True"], "challenge_test_list": []},
        MBPP | {"prompt": "No tests.", "test_list": [], "test_setup_code": "", "challenge_test_list": []},
    ]
    report = import_questions(
        db,
        write_rows(tmp_path / "mine.jsonl", *rows),
        kind=AnswerKind.CODE,
        columns=Columns(question="prompt"),
    )
    assert report.spec["answer_kind"] == "code"
    with db.read() as session:
        members = load_members(session, "mine")
    assert {member.question.kind for member in members} == {AnswerKind.CODE}
    held = [member.held for member in members]
    assert held == [
        None,
        "its own solution does not pass: tests failed at `assert candidate(1.5) == 2`",
        None,
        "its own solution does not pass: tests failed at `assert sum(1, 2) == 3`",
        "its tests are not informative: bad tests: the tests call nothing in the program",
        "no tests",
    ]


def test_the_first_program_of_a_repeated_row_is_the_one_that_counts(db: Database, tmp_path: Path) -> None:
    report = import_questions(
        db, write_rows(tmp_path / "two.jsonl", HUMANEVAL, HUMANEVAL | {"level": "1"}), kind=AnswerKind.CODE
    )
    assert (report.usable, report.duplicates) == (1, ((1, 0),))


def test_columns_may_be_named(db: Database, tmp_path: Path) -> None:
    columns = Columns(question="task", answer="checks", solution="reference")
    report = import_questions(
        db, write_rows(tmp_path / "own.jsonl", PLAIN), kind=AnswerKind.CODE, columns=columns
    )
    assert (report.usable, len(report.held)) == (1, 0)


def test_a_missing_kind_or_column_is_named(db: Database, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", HUMANEVAL)
    with pytest.raises(InputError, match="pass --kind code"):
        import_questions(db, path)
    with pytest.raises(InputError, match=r"no column looks like tests\. Pass --answer-column"):
        import_questions(db, write_rows(tmp_path / "bare.jsonl", {"prompt": "f"}), kind=AnswerKind.CODE)
