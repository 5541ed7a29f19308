"""Contamination: which texts of a set repeat problems of a benchmark, found and kept for reports."""

from service.questions.contamination.finding import MEASURES, VARIANT, Overlap, Settings, Text, find_overlaps
from service.questions.contamination.store import overlaps_with, store_check

__all__ = [
    "MEASURES",
    "VARIANT",
    "Overlap",
    "Settings",
    "Text",
    "find_overlaps",
    "overlaps_with",
    "store_check",
]
