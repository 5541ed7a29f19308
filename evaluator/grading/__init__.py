"""Answer extraction and grading. Importing this starts no process and loads neither math-verify nor sympy."""

from evaluator.grading.extraction import find_answer
from evaluator.grading.grader import Grader, grade
from evaluator.grading.types import (
    GRADER_VERSION,
    PROGRAM_SOURCES,
    SOURCES,
    AnswerKind,
    Clustering,
    ClusterJob,
    Grade,
    GradeCase,
    GradeValue,
)

__all__ = [
    "GRADER_VERSION",
    "PROGRAM_SOURCES",
    "SOURCES",
    "AnswerKind",
    "ClusterJob",
    "Clustering",
    "Grade",
    "GradeCase",
    "GradeValue",
    "Grader",
    "find_answer",
    "grade",
]
