"""The embedded questions and the steps of the demo."""

import json
from pathlib import Path

import pytest
from typer.main import get_command

from evaluator.grading import Grader, GradeValue
from sandbox.demo import QUESTIONS_FILE, Step, demo_steps, embedded_questions
from ui.cli.app import app


def rows() -> list[dict[str, str]]:
    return [json.loads(line) for line in embedded_questions().splitlines()]


def test_there_are_42_different_questions_with_all_labels() -> None:
    assert len(rows()) == 42
    assert len({row["question"] for row in rows()}) == 42
    assert all(set(row) == {"question", "answer", "level", "subject"} for row in rows())
    assert all(value.strip() for row in rows() for value in row.values())


def test_every_gold_grades_as_correct_against_itself() -> None:
    with Grader(workers=1) as grader:
        grades = grader.check_golds([row["answer"] for row in rows()])
    assert {grade.value for grade in grades} == {GradeValue.CORRECT}


def test_all_steps_are_commands_that_keep_to_the_folder() -> None:
    folder = Path("some") / "folder"
    steps = demo_steps(folder)
    assert [step.arguments[:2] for step in steps] == [
        ("questions", "import"),
        ("neighbors", "propose"),
        ("sets", "publish"),
        ("sets", "verify"),
        ("sets", "export"),
        ("sets", "export"),
    ]
    assert steps[0].arguments[2] == str(folder / QUESTIONS_FILE)
    for step in steps:
        assert step.arguments[step.arguments.index("--db") + 1] == str(folder / "tagrpo.db")
        group = get_command(app).commands[step.arguments[0]]  # type: ignore[attr-defined]
        assert step.arguments[1] in group.commands
        assert step.title
        assert step.words


@pytest.mark.parametrize("step", demo_steps(Path("x")), ids=lambda step: step.title)
def test_no_step_needs_a_model(step: Step) -> None:
    assert not {"--model", "--solver", "--api-base", "--push"} & set(step.arguments)
