"""Verdicts kept in memory and in the database."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluator.grading import AnswerKind, Grade, GradeCase, Grader, GradeValue
from evaluator.grading.versions import GradeCache
from evaluator.grading.workers.tasks import Task
from service.database import Database

CASES: list[GradeCase | tuple[str, str]] = [
    (r"\boxed{\sin(1)+\sin(1)}", r"2\sin(1)"),
    (r"\boxed{\sin(1)+\sin(1)}", r"3\sin(1)"),
    (r"\boxed{4}", "4.0"),
    GradeCase(r"\boxed{\sqrt{2}}", "1.41", AnswerKind.TOLERANCE),
    GradeCase(r"\boxed{\sqrt{2}}", "1.41", AnswerKind.LATEX),
]
VALUES = ["correct", "wrong", "correct", "correct", "wrong"]


def forbid_workers(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(tasks: Sequence[Task], *_: Any) -> list[Grade]:
        raise AssertionError(f"worked on again: {tasks}")

    monkeypatch.setattr(grader._pool, "run", run)


def test_a_later_grader_reads_what_an_earlier_one_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(tmp_path / "a.db") as db:
        with Grader(workers=1, cache=GradeCache(db)) as grader:
            first = grader.grade_many(CASES)
            assert [grade.value for grade in first] == VALUES
            forbid_workers(grader, monkeypatch)
            assert grader.grade_many(CASES) == first
        with Grader(workers=1, cache=GradeCache(db)) as grader:
            forbid_workers(grader, monkeypatch)
            assert grader.grade_many(CASES) == first
            with pytest.raises(AssertionError, match="worked on again"):
                grader.grade_many([(r"\boxed{\sin(2)}", r"\sin(3)")])


def test_another_version_of_the_grader_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("grade", r"2\sqrt2", r"\sqrt8")
    grade = Grade(GradeValue.CORRECT, None, "symbolic")
    with Database.open(tmp_path / "a.db") as db:
        cache = GradeCache(db)
        assert cache.load([task]) == {}
        cache.save({task: grade})
        cache.save({task: Grade(GradeValue.WRONG, None, "different")})
        assert cache.load([task]) == {task: grade}, "what is stored stays"
        monkeypatch.setattr("evaluator.grading.versions.GRADER_VERSION", "another")
        assert cache.load([task]) == {}
        cache.save({task: Grade(GradeValue.WRONG, None, "different")})
        assert cache.load([task])[task].value is GradeValue.WRONG
