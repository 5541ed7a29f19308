"""Importing: golds checked against themselves, near-duplicates; nothing twice, changed or half-written."""

from typing import Any

import pytest
from importing import import_questions
from json_rows import write_rows

from rephraser.questions.duplicates import NearIndex, compare_members
from rephraser.questions.store import Member, load_members
from service.answer_kinds import AnswerKind
from service.database import Database
from service.errors import DatabaseError
from service.program_gold import read_gold
from service.questions.columns import Columns
from service.questions.question import make_question, question_id

ROWS = [
    {"question": "What is 1+1?", "answer": "2", "level": "Level 1", "subject": "Sums"},
    {"question": "What is half of 1?", "answer": r"\frac{1}{2}", "level": "Level 2"},
    {"question": "How many are there?", "answer": ""},
    {"question": "What is 3+4?", "answer": "7"},
]


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


def test_ids_are_those_of_the_content_and_stay_so():
    assert question_id("What is 1+1?", "2") == "q_9702b3401da16c4b6d9e2588"
    assert question_id(" What is 1+1?  \r\n", "2\n") == question_id("What is 1+1?", "2")
    assert question_id("What is 1+1?", "3") != question_id("What is 1+1?", "2")
    assert question_id("cafe\u0301", "1") == question_id("caf\u00e9", "1")


def test_repeated_rows_are_stored_once_and_contradictions_reported(db, tmp_path):
    other = {"question": "What is  3+4?", "answer": "8"}
    again = {"question": "What is 3+4? ", "answer": "7.0"}
    report = import_questions(db, write_rows(tmp_path / "a.jsonl", ROWS[0], ROWS[3], ROWS[0], other, again))
    assert pairs(report, "duplicates") == [(2, 0)]
    assert pairs(report, "conflicts") == [(3, 1)]
    assert pairs(report, "near_duplicates") == [(4, 1)]
    assert (report["rows"], report["usable"]) == (5, 4)


@pytest.mark.sqlite  # by a trigger in its words
def test_a_failure_while_writing_leaves_nothing_half_written(db, tmp_path, monkeypatch):
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
def test_math_arrives_at_7498(db, data_folder):
    report = import_questions(db, data_folder / "math_train.jsonl")
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


@pytest.mark.bubblewrap
def test_rows_whose_program_fails_and_tests_that_tell_nothing_are_held_back(db, tmp_path):
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
    assert report["spec"]["answer_kind"] == "code"
    with db.read() as session:
        members = load_members(session, "mine")
    assert {member.question.kind for member in members} == {AnswerKind.CODE}
    gold = read_gold(members[0].question.answer)
    assert (gold.names, gold.helpers) == (("up",), "import math\n\n\n")
    asked = members[2].question.text  # one test is shown, the others are not
    assert asked.endswith("The code has to pass this test:\n\n    assert sum(1, 2) == 3")
    assert [member.held for member in members] == [
        None,
        "its own solution does not pass: tests failed at `assert candidate(1.5) == 2`",
        None,
        "its own solution does not pass: tests failed at `assert sum(1, 2) == 3`",
        "its tests cannot be used: bad tests: the tests never call the program",
        "no tests",
    ]


LONG = "A farmer has seventeen sheep, and all but nine of them run away over the hill. How many remain?"


def members(*rows: tuple[str, str]) -> list[Member]:
    return [Member(position, make_question(text, answer)) for position, (text, answer) in enumerate(rows)]


def test_a_match_with_the_same_digits_goes_before_a_closer_one_with_others():
    index = NearIndex()
    index.nearest(make_question(LONG + " Give 3 facts.", "8"), 0)
    index.nearest(make_question(LONG.replace("farmer", "farmer's son") + " Give 2 facts.", "8"), 1)
    match = index.nearest(make_question(LONG + " Give 2 facts.", "8"))
    assert (match.key, match.same_digits) == (1, True)


def test_look_alikes_are_sorted_by_what_they_mean():
    question = "If $x+y=12$ and $x-y=6$, what is the value of $x$?"
    likeness = compare_members(
        members(
            (question, "9"),
            ("If  $x+y=12$ and $x - y = 6$, what is the value of $x$ ?", "9"),
            ("If $x+y=12$  and $x-y=6$, what is the value of $x$?", "8"),
            ("If $x+y=12$ and $x-y=6$, what is the value of $y$?", "3"),
            ("If $x+y=14$ and $x-y=6$, what is the value of $x$?", "10"),
            ("Name a prime number above one hundred.", "101"),
        ),
        lambda pairs: [first == second for first, second in pairs],
    )
    assert [(pair["row"], pair["earlier"]) for pair in likeness["near_duplicates"]] == [(1, 0)]
    assert [(pair["row"], pair["earlier"]) for pair in likeness["conflicts"]] == [(2, 0)]
    assert [pair["row"] for pair in likeness["look_alikes"]] == [3, 4]


def test_equal_texts_in_a_set_from_one_template_are_conflicts():
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")
    tail = "more. Each apple is washed, dried, weighed and put on a shelf of the shop. How many are there?"
    rows = [
        (f"{names[n % 6]} has {n % 17 + 2} apples and buys {n * 7 % 299} {tail}", "1") for n in range(280)
    ]
    rows += [(text.replace(" has ", "  has "), "2") for text, _ in rows[::14]]
    likeness = compare_members(members(*rows), lambda pairs: [first == second for first, second in pairs])
    assert [(pair["row"], pair["earlier"]) for pair in likeness["conflicts"]] == [
        (280 + n, 14 * n) for n in range(20)
    ]


def test_rows_of_a_template_find_their_twins_behind_hundreds_of_others():
    index, names = NearIndex(), ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus")
    tail = "more. Each apple is washed, dried, weighed and put on a shelf of the shop. How many are there?"
    texts = [
        f"{names[n % 7]} has {n * 7919 % 9973} apples and buys {n * 4001 % 997} {tail}" for n in range(300)
    ]
    for key, text in enumerate(texts):
        index.nearest(make_question(text, "1"), key)
    matches = [index.nearest(make_question(text.replace("washed", "cleaned"), "1")) for text in texts]
    twins = [key for key, match in enumerate(matches) if match and match.key == key and match.same_digits]
    assert len(twins) >= 0.99 * len(texts)
