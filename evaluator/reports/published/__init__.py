"""Figures of papers, with their sources and with what is odd in them."""

from evaluator.reports.published.checks import oddities
from evaluator.reports.published.papers import (
    Average,
    Column,
    find_model,
    in_order,
    layout_of,
    models,
    paper_of,
    papers,
    recognise,
)
from evaluator.reports.published.rows import flags, labels, printed_list, published_rows

__all__ = [
    "Average",
    "Column",
    "find_model",
    "flags",
    "in_order",
    "labels",
    "layout_of",
    "models",
    "oddities",
    "paper_of",
    "papers",
    "printed_list",
    "published_rows",
    "recognise",
]
