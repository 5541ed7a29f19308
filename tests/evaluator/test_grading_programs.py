"""Programs in responses: which one is run, and how it is graded by the tests of its question."""

import os

import pytest

from evaluator.grading import AnswerKind, GradeCase, Grader, GradeValue
from evaluator.grading.programs import PASSES
from service.program_gold import ProgramGold, write_gold

pytestmark = pytest.mark.bubblewrap
PROMPT = '''from typing import List

def half(number):
    return number / 2

def halves(numbers: List[int]) -> List[float]:
    """Halve each of the numbers.
    >>> halves([2, 4])
    [1.0, 2.0]
    """'''
TESTS = "assert halves([2, 4]) == [1.0, 2.0]\nassert halves([]) == []\nassert half(4) == 2"
GOLD = ProgramGold(TESTS, ("halves",), PROMPT)
BODY = "    return [half(number) for number in numbers]"
RIGHT = "def halves(numbers: List[int]) -> List[float]:\n" + BODY
CASES = {
    "a block": f"Sure!\n```python\n{RIGHT}\n```\nIt halves.",
    "the last of several": f"Try:\n```python\ndef halves(n): return n\n```\nBetter:\n```python\n{RIGHT}\n```",
    "examples behind it": f"```python\n{RIGHT}\n```\nUse it:\n```python\nprint(halves([2]))\n```\n",
    "output behind it": f"```\n{RIGHT}\n```\nwhich prints\n```text\n[1.0]\n```",
    "two blocks that work only together": (
        "```python\ndef one(number):\n    return number / 2\n```\nand with it\n"
        "```python\ndef halves(numbers):\n    return list(map(one, numbers))\n```"
    ),
    "a block without its end": f"```python\n{RIGHT}\n",
    "a block that was cut off": f"```python\n{RIGHT}\n\ndef test():\n    assert halves([1]) ==",
    "an indented block": "1. Write\n   ```py\n"
    + "\n".join("   " + line for line in RIGHT.split("\n"))
    + "\n   ```",
    "a block of the body": f"```python\n{BODY}\n```",
    "a body without indent": "```python\nnew = []\nfor n in numbers:\n    new += [half(n)]\nreturn new\n```",
    "text": RIGHT,
    "text in prose": f"Here it is:\n\n{RIGHT}\n\nThis halves each number.",
    "a completion": BODY,
    "a completion that goes on": f"{BODY}\n\n\nprint(halfs([3]))\ndef other():\n    return",
    "stripped": "new = []\n    for n in numbers:\n        new += [n / 2]\n    return new",
    "thinking before it": f"<think>```python\ndef halves(n): pass\n```</think>\n```python\n{RIGHT}\n```",
    "windows": f"```python\r\n{RIGHT}\r\n```".replace("\n", "\r\n").replace("\r\r", "\r"),
    "a main part": f"```python\n{RIGHT}\n\nif __name__ == '__main__':\n    print(halves(input()))\n```",
}


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, time_limit_s=1.0) as made:
        yield made


def case(response: str, gold: ProgramGold = GOLD) -> GradeCase:
    return GradeCase(response, write_gold(gold), AnswerKind.CODE)


@pytest.mark.parametrize("name", CASES)
def test_the_program_of_a_response(grader, name):
    (grade,) = grader.grade_many([case(CASES[name])])
    assert (grade.value, grade.extracted, grade.reason) == (GradeValue.CORRECT, PASSES, "tests passed")


def test_how_a_program_fails_stands_in_its_grade(grader):
    responses = [
        "```python\ndef halves(numbers): return numbers\n```",
        "```python\ndef halves(numbers): return numbrs\n```",
        "```python\ndef other(): pass\n```",
        "```python\nwhile True: pass\n```",
        "I do not know.",
        "",
        "<think>so",
    ]
    plain = ProgramGold(TESTS, ("halves",))
    grades = grader.grade_many([case(response, plain) for response in responses])
    assert [grade.value for grade in grades] == [GradeValue.WRONG] * 7
    assert [(grade.extracted, grade.reason) for grade in grades[:4]] == [
        ("tests failed at `assert halves([2, 4]) == [1.0, 2.0]`", "tests failed"),
        (
            "error raised: NameError: name 'numbrs' is not defined at `assert halves([2, 4]) == [1.0, 2.0]`",
            "error raised",
        ),
        (
            "tests failed: NameError: name 'halves' is not defined at `assert halves([2, 4]) == [1.0, 2.0]`",
            "tests failed",
        ),
        ("too slow", "too slow"),
    ]
    assert {grade.reason for grade in grades[4:]} == {"no answer found"}


def test_golds_are_checked_by_their_reference(grader):
    gold = write_gold(GOLD)
    broken, empty = write_gold(ProgramGold("assert halves([2]) = 1")), write_gold(ProgramGold("assert True"))
    given = [(gold, RIGHT), (gold, "def halves(n): pass"), (gold, ""), (broken, ""), (empty, "")]
    checked = grader.check_golds([GradeCase(own, tests, AnswerKind.CODE) for tests, own in given])
    assert [(grade.value.value, grade.reason) for grade in checked] == [
        ("correct", "tests passed"),
        ("wrong", "tests failed"),
        ("correct", "tests failed"),  # without a reference: tests that an empty program fails
        ("unknown", "bad tests"),
        ("unknown", "bad tests"),
    ]
    (first, second) = grader.check_golds([GradeCase(RIGHT, gold, AnswerKind.CODE), "3"])
    assert first.value == second.value == "correct"


def test_a_fork_grades_programs_too(grader):
    assert grader.grade_many([case(RIGHT)])[0].value is GradeValue.CORRECT
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            wrong = case(RIGHT.replace("half(", "abs("))
            value = grader.grade_many([wrong])[0].value
            grader.close()
            os.write(writes, value.encode())
        finally:
            os._exit(0)
    os.close(writes)
    assert os.read(reads, 100) == b"wrong"
    os.waitpid(child, 0)
    os.close(reads)
    assert grader.grade_many([case(f"{RIGHT}  # again")])[0].value is GradeValue.CORRECT
