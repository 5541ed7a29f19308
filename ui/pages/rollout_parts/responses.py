"""A prompt's responses as a small table in which one is chosen: drawn at once where grids take a second."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from trainer_adapter.rollouts.browsing import RolloutHeader
from trainer_adapter.rollouts.group_browsing import log_ratio
from ui.pages.kit import links
from ui.pages.kit.characters import visible

MARKS = {"correct": "✓", "wrong": "✗", "unknown": "?"}
_ANSWER_MAX = 60
_HERE = Path(__file__).resolve().parent


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


def choose_response(rollouts: Sequence[RolloutHeader], name: str) -> int:
    """Show the numbers of each response, in order; return the place of the chosen one, from 1, or 0.

    The choice lives in the address under `name`.
    """
    head, rows = responses_table(rollouts)
    chosen, key = links.number(name, 0, low=1, high=len(rollouts)), f"responses-{name}"

    def choose() -> None:
        place = st.session_state[key].get("chosen")
        if place in range(1, len(rollouts) + 1):
            links.put(**{name: None if place == chosen else place})

    _component()(key=key, data={"head": head, "rows": rows, "chosen": chosen}, on_chosen_change=choose)
    return chosen


def responses_table(rollouts: Sequence[RolloutHeader]) -> tuple[list[Heading], list[list[str]]]:
    """Return headings and cells, as plain text; what no response has is left out."""
    rows = [_cells(place, rollout) for place, rollout in enumerate(rollouts, 1)]
    kept = [at for at in range(len(HEADINGS)) if at < 2 or any(row[at] for row in rows)]
    return [HEADINGS[at] for at in kept], [[row[at] for at in kept] for row in rows]


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
    return line if len(line) <= _ANSWER_MAX else line[:_ANSWER_MAX] + "…"


def _fixed(value: float | None) -> str:
    return "" if value is None else f"{round(value, 3) + 0.0:.3f}".replace("-", "\u2212")


@cache
def _component() -> Any:
    html, css, js = (
        (_HERE / f"responses.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    return st.components.v2.component("tagrpo_responses", html=html, css=css, js=js)
