"""Decide from answer counts alone whether a candidate asks the same problem; pure functions."""

from rephraser.verdict.judge import Verdict as Verdict
from rephraser.verdict.judge import judge as judge
from rephraser.verdict.judge import rule_spec as rule_spec
from rephraser.verdict.overlap import AnswerCounts as AnswerCounts
from rephraser.verdict.overlap import OverlapRule as OverlapRule
from rephraser.verdict.overlap import count_answers as count_answers
