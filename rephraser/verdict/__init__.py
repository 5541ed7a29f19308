"""Decide from answer counts alone whether a candidate asks the same problem; pure functions."""

from rephraser.verdict.answer_counts import AnswerCounts, count_answers
from rephraser.verdict.bayes_factor import BayesRule, log_bayes_factor, posterior
from rephraser.verdict.judge import (
    RULES,
    Rule,
    Structure,
    Verdict,
    judge,
    rule_for,
    rule_from_spec,
    rule_spec,
)
from rephraser.verdict.overlap import OverlapRule, new_top, original_top, overlap

__all__ = [
    "RULES",
    "AnswerCounts",
    "BayesRule",
    "OverlapRule",
    "Rule",
    "Structure",
    "Verdict",
    "count_answers",
    "judge",
    "log_bayes_factor",
    "new_top",
    "original_top",
    "overlap",
    "posterior",
    "rule_for",
    "rule_from_spec",
    "rule_spec",
]
