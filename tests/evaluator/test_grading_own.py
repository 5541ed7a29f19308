"""A grader of the user's own, `module:function`: in the pool, with its limits, marked as such."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.grading import Grade, GradeCase, Grader
from service.errors import InputError

NAME = "graders_of_the_tests:grade"
SOURCE = """
    import os, re

    def grade(response, gold, tolerance):
        if "boom" in response:
            raise ValueError(response)
        if "hang" in response:
            re.match(r"(a+)+$", "a" * 40 + "!")
        if "die" in response:
            os._exit(3)
        if "half" in response:
            return 0.5
        return None if not gold else gold in response or tolerance == "any"

    number = 5
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    path = folder / "graders_of_the_tests.py"
    path.write_text(textwrap.dedent(SOURCE))
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        yield path


@pytest.fixture(scope="module")
def grader(module: Path) -> Iterator[Grader]:
    with Grader(1, time_limit_s=3, own=NAME) as grader:
        yield grader


def verdicts(grades: list[Grade]) -> list[tuple[str, str]]:
    return [(grade.value.value, grade.reason) for grade in grades]


@pytest.mark.slow
def test_its_verdicts_are_marked_and_what_it_cannot_say_is_unknown(grader: Grader) -> None:
    cases = [
        *(GradeCase("has five", "five"), GradeCase("has six", "five"), GradeCase("has six", "")),
        *(GradeCase("six", "five", tolerance="any"), GradeCase("boom", "5"), GradeCase("half", "5")),
        *(GradeCase("hang", "5"), GradeCase("die", "5")),
    ]
    marked = [("correct", "own grader"), ("wrong", "own grader"), ("unknown", "own grader")]
    failed = [("unknown", "crashed"), ("unknown", "crashed"), ("unknown", "timeout"), ("unknown", "crashed")]
    counted: list[tuple[int, int]] = []
    grades = grader.grade_many(cases, lambda *counts: counted.append(counts))
    assert verdicts(grades) == [*marked, ("correct", "own grader"), *failed]
    assert counted[-1] == (8, 8)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grade", "give module:function"),
        ("no_such_module:grade", "add its folder to PYTHONPATH"),
        ("graders_of_the_tests:missing", "has no missing"),
        ("graders_of_the_tests:number", "is int, not a function"),
    ],
)
def test_one_that_is_not_there_is_refused_before_anything_starts(module: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Grader(1, own=name)
