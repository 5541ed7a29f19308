"""Importing questions that ask for programs: rows as HumanEval and MBPP have them, and what is held back."""

from pathlib import Path

from importing import import_questions
from json_rows import write_rows

from service.answer_kinds import AnswerKind
from service.database import Database
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
        "its tests are not informative: bad tests: they call nothing of the program",
        "no tests",
    ]
