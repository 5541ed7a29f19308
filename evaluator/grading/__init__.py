"""Answer extraction and grading. Importing this starts no process and loads neither math-verify nor sympy."""

from evaluator.grading.extraction import extract_answer, last_boxed
from evaluator.grading.grader import Grader
from evaluator.grading.types import (
    GRADER_VERSION,
    REASONS,
    AnswerKind,
    Clustering,
    ClusterJob,
    Grade,
    GradeCase,
    GradeValue,
)

__all__ = [
    "GRADER_VERSION",
    "REASONS",
    "AnswerKind",
    "ClusterJob",
    "Clustering",
    "Grade",
    "GradeCase",
    "GradeValue",
    "Grader",
    "extract_answer",
    "last_boxed",
]
