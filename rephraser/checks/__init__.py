"""Structural checks: does a candidate keep what its question is made of? Pure functions, no model, no I/O."""

from rephraser.checks.check import check_candidate
from rephraser.checks.finding import (
    CHECKS_VERSION,
    FATAL,
    FINDINGS,
    GROUPS,
    CheckOptions,
    Finding,
    Severity,
    groups_of,
)
from rephraser.checks.shape import estimate_tokens, same_language

__all__ = [
    "CHECKS_VERSION",
    "FATAL",
    "FINDINGS",
    "GROUPS",
    "CheckOptions",
    "Finding",
    "Severity",
    "check_candidate",
    "estimate_tokens",
    "groups_of",
    "same_language",
]
