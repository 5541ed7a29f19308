"""A prompt's responses as a small table: one block of HTML, drawn at once where grids take a second."""

import html
from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from trainer_adapter.rollouts.browsing import RolloutHeader
from trainer_adapter.rollouts.group_browsing import log_ratio
from ui.pages.kit.characters import visible

MARKS = {"correct": "✓", "wrong": "✗", "unknown": "?"}
_ANSWER_MAX = 60

_STYLE = """<style>
.responses{overflow-x:auto}
.responses table{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
.responses :is(th,td){padding:.22rem .55rem;text-align:right;white-space:nowrap;
 border-bottom:1px solid rgba(128,136,150,.2)}
.responses th{font-weight:400;opacity:.7;font-size:.8rem}
.responses th[title]{text-decoration:underline dotted;cursor:help}
.responses :is(th,td):nth-child(-n+2){text-align:left}
.responses td:nth-child(2){max-width:11rem;overflow:hidden;text-overflow:ellipsis;font-family:monospace}
</style>"""


class Heading(NamedTuple):
    """A column's heading; `hint` says what is counted and how."""

    name: str
    hint: str = ""


HEADINGS = (
    Heading("response"),
    Heading("answer"),
    Heading("reward"),
    Heading("advantage"),
    Heading("tokens"),
    Heading(
        "log-ratio",
        "nats a token: how much likelier the response is under the anchor than under its own prompt",
    ),
)


def show_responses(rollouts: Sequence[RolloutHeader]) -> None:
    """Show the numbers of each response, in order; what no response has is left out."""
    st.html(_STYLE + responses_html(rollouts))  # safe: it escapes


def responses_html(rollouts: Sequence[RolloutHeader]) -> str:
    """Return the table as HTML; answers are text in it, whatever they hold."""
    rows = [_cells(place, rollout) for place, rollout in enumerate(rollouts, 1)]
    kept = [at for at in range(len(HEADINGS)) if at < 2 or any(row[at] for row in rows)]
    head = "".join(_head(HEADINGS[at]) for at in kept)
    body = "".join(f"<tr>{''.join(f'<td>{row[at]}</td>' for at in kept)}</tr>" for row in rows)
    return f"<div class='responses'><table><tr>{head}</tr>{body}</table></div>"


def _head(heading: Heading) -> str:
    hint = f" title='{html.escape(heading.hint)}'" if heading.hint else ""
    return f"<th{hint}>{html.escape(heading.name)}</th>"


def _cells(place: int, rollout: RolloutHeader) -> tuple[str, ...]:
    mark = f"{MARKS.get(rollout.grade, '')} {place}" + (", cut" if rollout.truncated else "")
    ratio = log_ratio(rollout)
    return (
        mark,
        _answer(rollout.extracted),
        f"{rollout.reward:.4g}".replace("-", "\u2212"),
        _fixed(rollout.advantage),
        f"{rollout.tokens:,}",
        _fixed(ratio),
    )


def _answer(extracted: str | None) -> str:
    line = " ".join(visible((extracted or "")[: _ANSWER_MAX * 4]).split())
    cut = line if len(line) <= _ANSWER_MAX else line[:_ANSWER_MAX] + "…"
    return f"<span title='{html.escape(line)}'>{html.escape(cut)}</span>" if cut else ""


def _fixed(value: float | None) -> str:
    return "" if value is None else f"{round(value, 3) + 0.0:.3f}".replace("-", "\u2212")
