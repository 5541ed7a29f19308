"""Structural checks: does a candidate keep what its question is made of? Pure functions, no model, no I/O."""

from rephraser.checks.check import check_candidate
from rephraser.checks.finding import CHECKS_VERSION, FATAL, FINDINGS, CheckOptions, Finding, Severity
from rephraser.checks.shape import estimate_tokens

__all__ = [
    "CHECKS_VERSION",
    "FATAL",
    "FINDINGS",
    "CheckOptions",
    "Finding",
    "Severity",
    "check_candidate",
    "estimate_tokens",
]
