"""Answers to a question and its neighbor, as small bars side by side."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.characters import one_line
from ui.charts.theme import DARK_PALETTE, PALETTE

MOST_CLASSES = 6

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


def answer_rows(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how often each answer was given, most frequent first, then responses without an answer."""
    counts = evidence.get("counts") or {}
    classes = zip(*(counts.get(name, ()) for name in ("classes", "original", "candidate")), strict=True)
    gold = counts.get("gold")
    rows = [(str(answer), place == gold, *given) for place, (answer, *given) in enumerate(classes)]
    rows.sort(key=lambda row: -row[2] - row[3])
    for label, kind in (("(no answer found)", "unparsed"), ("(comparison timed out)", "unsettled")):
        given = [counts.get(f"{side}_{kind}", 0) for side in ("original", "candidate")]
        if any(given):
            rows.append((label, False, *given))
    return [dict(zip(("answer", "gold", "original", "neighbor"), row, strict=True)) for row in rows]


def show_answers(evidence: Mapping[str, Any]) -> None:
    """Show the most frequent answers and how many responses of each side gave them, if there are any."""
    if answer_rows(evidence):
        st.html(answers_html(evidence, DARK_PALETTE if st.context.theme.type == "dark" else PALETTE))  # safe


def answers_html(evidence: Mapping[str, Any], colours: Sequence[str] = PALETTE) -> str:
    """Return the answers as bars; texts are text in it, whatever they hold."""
    rows = answer_rows(evidence)
    sides = ("original", "neighbor")
    of = {side: sum(row[side] for row in rows) for side in sides}
    classes = len((evidence.get("counts") or {}).get("classes", ()))
    given, rest = rows[:classes], rows[classes:]
    if others := given[MOST_CLASSES:]:
        label = f"({len(others)} other answer{'s' * (len(others) > 1)})"
        rest.insert(0, {"answer": label, **{side: sum(row[side] for row in others) for side in sides}})
    lines = []
    for row in given[:MOST_CLASSES]:
        title, name = (html.escape(one_line(row["answer"], most)) or "(empty)" for most in (240, 60))
        gold = "<span class='gold'>gold</span>" if row["gold"] else ""
        lines.append((f"<span class='name' title='{title}'>{name}{gold}</span>", row))
    lines += [(f"<span>{row['answer'].strip('()')}</span>", row) for row in rest]
    heads = f"<span class='head'>answer</span><span class='head'>question, {of['original']} responses</span>"
    heads += f"<span class='head'>neighbor, {of['neighbor']} responses</span>"
    cells = "".join(
        name + "".join(_bar(row[side], of[side], colours[at]) for at, side in enumerate(sides))
        for name, row in lines
    )
    return f"<style>{_STYLE}</style><div class='answers'>{heads}{cells}</div>"


def _bar(count: int, of: int, colour: str) -> str:
    width = 100 * count / of if of else 0
    return (
        f"<span class='cell'><span class='track'><span class='bar' "
        f"style='width:{width:.1f}%;background:{colour}'></span></span>"
        f"<span class='count'>{count}</span></span>"
    )
