"""Answers to a question and its neighbor, as small bars side by side."""

import html
from collections.abc import Sequence
from typing import Any

import streamlit as st

from rephraser.views.candidates import AnswerClass, Evidence
from ui.characters import visible
from ui.charts.theme import DARK_PALETTE, PALETTE

MOST_CLASSES = 6
_NAME_MAX = 60

_STYLE = """
.answers{display:grid;grid-template-columns:minmax(4rem,max-content) 1fr 1fr;gap:.2rem .8rem;
 align-items:center;font-size:.85rem;font-variant-numeric:tabular-nums;max-width:44rem}
.answers .head{opacity:.7;font-size:.8rem}
.answers .name{max-width:16rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;
 font-family:monospace}
.answers .gold{font-family:inherit;font-size:.72rem;border:1px solid currentColor;border-radius:4px;
 padding:0 .3em;margin-left:.45em;opacity:.75}
.answers .cell{display:flex;align-items:center;gap:.5rem;min-width:0}
.answers .track{flex:1;min-width:2rem;height:.55rem;border-radius:3px;background:rgba(128,136,150,.16)}
.answers .bar{display:block;height:100%;border-radius:3px}
.answers .count{min-width:2.2em;text-align:right}
"""


def has_answers(evidence: Evidence) -> bool:
    return bool(evidence.classes or _without_class(evidence))


def answer_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Return how often each answer was given, most frequent first, as rows to download.

    The last rows count responses without an answer and comparisons that timed out, if there are any.
    """
    answers = [(row.answer, row.gold, row.original, row.candidate) for row in _by_frequency(evidence)]
    rest = [(f"({what})", False, original, neighbor) for what, original, neighbor in _without_class(evidence)]
    names = ("answer", "gold", "original", "neighbor")
    return [dict(zip(names, row, strict=True)) for row in answers + rest]


def show_answers(evidence: Evidence) -> None:
    """Show the most frequent answers and how many responses of each side gave them."""
    dark = st.context.theme.type == "dark"
    st.html(bars(evidence, DARK_PALETTE if dark else PALETTE))  # safe: it escapes


def bars(evidence: Evidence, palette: Sequence[str] = PALETTE) -> str:
    classes = _by_frequency(evidence)
    rest = _without_class(evidence)
    sides = (
        sum(given.original for given in classes) + sum(original for _, original, _ in rest),
        sum(given.candidate for given in classes) + sum(neighbor for _, _, neighbor in rest),
    )
    frequent, others = classes[:MOST_CLASSES], classes[MOST_CLASSES:]
    lines = [_line(_name(given), (given.original, given.candidate), sides, palette) for given in frequent]
    if others:
        counts = sum(given.original for given in others), sum(given.candidate for given in others)
        lines.append(
            _line(f"<span>{len(others)} other answer{'s' * (len(others) > 1)}</span>", counts, sides, palette)
        )
    lines += [
        _line(f"<span>{what}</span>", (original, neighbor), sides, palette)
        for what, original, neighbor in rest
    ]
    heads = f"<span class='head'>answer</span><span class='head'>question, {sides[0]} responses</span>"
    heads += f"<span class='head'>neighbor, {sides[1]} responses</span>"
    return f"<style>{_STYLE}</style><div class='answers'>{heads}{''.join(lines)}</div>"


def _by_frequency(evidence: Evidence) -> list[AnswerClass]:
    return sorted(evidence.classes, key=lambda given: -(given.original + given.candidate))


def _without_class(evidence: Evidence) -> list[tuple[str, int, int]]:
    """Return the responses that belong to no class: the reason, and the count on each side."""
    rest = (
        ("no answer found", evidence.original_unparsed, evidence.candidate_unparsed),
        ("comparison timed out", evidence.original_unsettled, evidence.candidate_unsettled),
    )
    return [counts for counts in rest if counts[1] or counts[2]]


def _name(given: AnswerClass) -> str:
    text = " ".join(visible(given.answer[: _NAME_MAX * 4]).split()) or "(empty)"
    cut = text if len(text) <= _NAME_MAX else text[:_NAME_MAX] + "…"
    gold = "<span class='gold'>gold</span>" if given.gold else ""
    return f"<span class='name' title='{html.escape(text)}'>{html.escape(cut)}{gold}</span>"


def _line(name: str, counts: tuple[int, int], sides: tuple[int, int], palette: Sequence[str]) -> str:
    cells = (
        f"<span class='cell'><span class='track'><span class='bar' "
        f"style='width:{100 * count / of if of else 0:.1f}%;background:{colour}'></span></span>"
        f"<span class='count'>{count}</span></span>"
        for count, of, colour in zip(counts, sides, palette[:2], strict=True)
    )
    return name + "".join(cells)
