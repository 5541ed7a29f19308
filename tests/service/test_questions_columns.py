"""Columns: found by usual names, named by the user, and what is read from them."""

import pytest

from service.questions.columns import Columns, RowLimits, RowProblem, read_question, resolve
from service.questions.files import JsonNumber


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("question answer solution", "question=question answer=answer"),
        ("problem level type solution", "question=problem solution=solution level=level subject=type"),
        ("ID Question Equation Answer", "question=Question answer=Answer"),
        ("Question question Answer", "question=question answer=Answer"),
        ("problem solution answer problem_type", "question=problem answer=answer subject=problem_type"),
    ],
)
def test_usual_columns_are_found(present, expected):
    assert resolve(Columns(), present.split(), "s") == Columns.parse(expected.split())


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
def test_further_columns_stand_below_the_question(value, expected):
    values = {"body": "Ada has 3 or 4 apples.", "ask": "How many?", "options": value, "answer": "A"}
    columns = resolve(Columns("body", further=("ask", "options")), values, "s")
    text = "Ada has 3 or 4 apples.\nHow many?" + f"\n{expected}" * bool(expected)
    assert read_question(values, columns, RowLimits()).text == text


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("solution", r"First \boxed{1}. Then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("solution", r"so \boxed 5", "5"),
        ("solution", r"so \fbox{\{1,2\}}", r"\{1,2\}"),
        ("solution", r"there are \boxed{} of them", ""),
        ("solution", "no box at all", ""),
        ("solution", r"cut off \boxed{12", ""),
        ("solution", None, ""),
        ("answer", " 12 ", "12"),
        ("answer", 12, "12"),
        ("answer", JsonNumber("2.50"), "2.50"),
        ("answer", 2.5, "2.5"),
        ("answer", 1e20, "1e+20"),
        ("answer", ["2", "3"], "2, 3"),
        ("answer", [], ""),
        ("answer", None, ""),
        ("answer", r"It is \boxed{4}.", "4"),
        ("answer", "She has 3 + 4 = 7.\n#### 7", "7"),
    ],
)
def test_golds_in_many_forms(column, value, expected):
    values = {"question": "q", column: value}
    assert read_question(values, resolve(Columns(), values, "s"), RowLimits()).answer == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"question": "  ", "answer": "1"}, '"question" is empty'),
        ({"question": None, "answer": "1"}, '"question" is empty'),
        ({"question": JsonNumber("5"), "answer": "1"}, '"question" is 5, not text'),
        ({"question": True, "answer": "1"}, '"question" is True, not text'),
        ({"question": [{"role": "user"}], "answer": "1"}, r'"question" is \[.*, not text'),
        ({"question": "q", "answer": {"value": 1}}, "--column answer=answer.NAME"),
        ({"question": "q", "answer": b"1"}, "contains bytes"),
        ({"question": "q", "answer": float("inf")}, '"answer" is an infinite number'),
        ({"question": "q", "answer": "1", "task": {"text": ["1"]}}, r"--column question=task\.NAME"),
        ({"question": "q", "answer": "1", "task": ["a", "b\0"]}, r'"task" contains .* U\+0000 at'),
        ({"question": "q", "answer": "1", "task": "t" * 100_001}, r'"task" has 100,001 characters'),
        ({"question": "q", "solution": "\x0crac12 \\boxed{1}"}, r'"solution" contains .* U\+000C'),
    ],
)
def test_rows_that_cannot_be_used_say_why(values, message):
    columns = Columns(further=("task",) if "task" in values else ())
    with pytest.raises(RowProblem, match=message):
        read_question(values, resolve(columns, values, "s"), RowLimits())


def test_a_question_may_be_the_one_message_of_a_user():
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 3+4?"}
    other = {"role": "assistant", "content": "\0" + "7" * 100_001}  # its text is not used
    values = {"prompt": [system, user, other], "reward_model": {"ground_truth": "7"}}
    columns = resolve(Columns(answer="reward_model.ground_truth"), values, "s")
    assert read_question(values, columns, RowLimits()).text == "What is 3+4?"
    for messages in ([user, user], [system], [{"role": "user", "content": [user]}], []):
        with pytest.raises(RowProblem, match=r'"prompt" is \[.*, not text'):
            read_question(values | {"prompt": messages}, columns, RowLimits())
    with pytest.raises(RowProblem, match=r'"prompt" contains .* U\+0000'):
        read_question(values | {"prompt": [user | {"content": "What\0?"}]}, columns, RowLimits())


def test_labels_that_are_no_single_value_are_ignored():
    nested: list[object] = ["algebra\0"]
    for _ in range(2_000):
        nested = [nested]
    for subject in (nested, ["algebra\0"], {"name": "t" * 100_001}):
        values = {"question": "q", "answer": "1", "subject": subject}
        assert read_question(values, resolve(Columns(), values, "s"), RowLimits()).subject is None
