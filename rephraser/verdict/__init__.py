"""Decide from answer counts alone whether a candidate asks the same problem; pure functions."""

from rephraser.verdict.answer_counts import AnswerCounts, count_answers
from rephraser.verdict.judge import Verdict, judge, rule_from_spec, rule_spec
from rephraser.verdict.overlap import OverlapRule, new_top, original_top, overlap

__all__ = [
    "AnswerCounts",
    "OverlapRule",
    "Verdict",
    "count_answers",
    "judge",
    "new_top",
    "original_top",
    "overlap",
    "rule_from_spec",
    "rule_spec",
]
