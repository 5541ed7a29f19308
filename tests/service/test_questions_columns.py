"""Columns: found by usual names, named by the user, and what is read from them."""

from typing import Any

import pytest

from service.errors import InputError
from service.questions import Columns, RowLimits
from service.questions.columns import RowProblem, read_question, resolve
from service.questions.files import JsonNumber


def answer(value: Any, column: str = "answer") -> str:
    values = {"question": "q", column: value}
    return read_question(values, resolve(Columns(), values, "s"), RowLimits()).answer


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (["question", "answer", "solution"], {"question": "question", "answer": "answer"}),
        (
            ["problem", "level", "type", "solution"],
            {"question": "problem", "solution": "solution", "level": "level", "subject": "type"},
        ),
        (["ID", "Question", "Equation", "Answer"], {"question": "Question", "answer": "Answer"}),
        (["Question", "question", "Answer"], {"question": "question", "answer": "Answer"}),
        (
            ["problem", "solution", "answer", "problem_type", "source"],
            {"question": "problem", "answer": "answer", "subject": "problem_type"},
        ),
    ],
)
def test_usual_columns_are_found(present: list[str], expected: dict[str, str]) -> None:
    assert resolve(Columns(), present, "s").as_dict() == expected


def test_wrong_and_missing_columns_name_those_there_are() -> None:
    with pytest.raises(
        InputError, match=r'no column "body" \(--column question=\)\. Available: answer, text'
    ):
        resolve(Columns(question="body"), ["text", "answer"], "s")
    with pytest.raises(InputError, match="no column looks like the answer"):
        resolve(Columns(), ["question"], "s")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["3", "4", "none of these"], "(A) 3\n(B) 4\n(C) none of these"),
        (["A)3", "B)4"], "A)3\nB)4"),
        ("A) 3 B) 4", "A) 3 B) 4"),
        (None, ""),
        ([], ""),
        (JsonNumber("2.50"), "2.50"),
        ({"A": "3", "B": "4"}, "(A) 3\n(B) 4"),
    ],
)
def test_further_columns_stand_below_the_question(value: Any, expected: str) -> None:
    values = {"body": "Ada has 3 or 4 apples.", "ask": "How many?", "options": value, "answer": "A"}
    columns = resolve(Columns("body", further=("ask", "options")), values, "s")
    text = "Ada has 3 or 4 apples.\nHow many?" + f"\n{expected}" * bool(expected)
    assert read_question(values, columns, RowLimits()).text == text


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        (r"First \boxed{1}. Then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"so \boxed 5", "5"),
        (r"so \fbox{\{1,2\}}", r"\{1,2\}"),
        (r"there are \boxed{} of them", ""),
        ("no box at all", ""),
        (r"cut off \boxed{12", ""),
        (None, ""),
    ],
)
def test_the_gold_is_the_last_box_of_the_solution(solution: str | None, expected: str) -> None:
    assert answer(solution, "solution") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (" 12 ", "12"),
        (12, "12"),
        (JsonNumber("2.50"), "2.50"),
        (2.5, "2.5"),
        (1e20, "1e+20"),
        (["2"], "2"),
        (["2", "3"], "2, 3"),
        ([], ""),
        (None, ""),
        (r"It is \boxed{4}.", "4"),
        ("She has 3 + 4 = 7.\n#### 7", "7"),
    ],
)
def test_answers_in_many_forms(value: Any, expected: str) -> None:
    assert answer(value) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"question": "  ", "answer": "1"}, '"question" is empty'),
        ({"question": None, "answer": "1"}, '"question" is empty'),
        ({"question": JsonNumber("5"), "answer": "1"}, '"question" is the number 5, not text'),
        ({"question": True, "answer": "1"}, '"question" is true or false, not text'),
        ({"question": [{"role": "user"}], "answer": "1"}, '"question" is a list, not text'),
        ({"question": "q", "answer": {"value": 1}}, "--column answer=answer.NAME"),
        ({"question": "q", "answer": b"1"}, "contains bytes"),
    ],
)
def test_rows_that_cannot_be_used_say_why(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RowProblem, match=message):
        read_question(values, resolve(Columns(), values, "s"), RowLimits())


def test_a_further_column_that_is_missing_or_an_object_is_named() -> None:
    with pytest.raises(InputError, match=r'no column "options" \(--column question=\)'):
        resolve(Columns("question", further=("options",)), ["question", "answer"], "s")
    values = {"question": "q", "answer": "1", "choices": {"text": ["1"]}}
    with pytest.raises(RowProblem, match=r"--column question=choices\.NAME"):
        read_question(values, resolve(Columns(further=("choices",)), values, "s"), RowLimits())


def test_a_question_may_be_the_one_message_of_a_user() -> None:
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 3+4?"}
    values = {"prompt": [system, user], "reward_model": {"ground_truth": "7"}}
    columns = resolve(Columns(answer="reward_model.ground_truth"), values, "s")
    assert read_question(values, columns, RowLimits()).text == "What is 3+4?"
    for messages in ([user, user], [system], [{"role": "user", "content": [user]}], []):
        with pytest.raises(RowProblem, match=r'"prompt" is (a list|empty)'):
            read_question(values | {"prompt": messages}, columns, RowLimits())
