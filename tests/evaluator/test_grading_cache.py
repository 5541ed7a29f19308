"""Verdicts kept in memory and in the database."""

from pathlib import Path

import pytest

from evaluator.grading import Grade, GradeValue
from evaluator.grading.versions import GradeCache
from evaluator.grading.workers.tasks import Task
from service.database import Database


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
