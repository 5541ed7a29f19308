"""A prompt's responses in numbers, as a table in which one is chosen."""

from collections.abc import Sequence

from trainer_adapter.record.rollout import RolloutHeader
from ui.characters import one_line
from ui.pages.state import links
from ui.pages.widgets.table_view import Heading, show_table
from ui.pages.widgets.tables import cell

MARKS = {"correct": "✓", "wrong": "✗", "unknown": "?"}
_ANSWER_MAX = 60

HEADINGS = (
    Heading("response", "text"),
    Heading("answer", "code"),
    Heading("reward"),
    Heading("advantage"),
    Heading("tokens"),
    Heading(
        "log-ratio",
        hint="nats per token: how much more likely the response is under the anchor",
    ),
)


def choose_response(rollouts: Sequence[RolloutHeader], name: str) -> int:
    """Show the numbers of each response, in order; return the place of the chosen one, from 1, or 0.

    The choice lives in the address under `name`.
    """
    head, rows = responses_table(rollouts)
    chosen = links.number(name, 0, low=1, high=len(rollouts))
    show_table(
        head,
        rows,
        f"responses-{name}",
        framed=False,
        words="" if chosen else "Choose a response to read it.",
        chosen=chosen - 1 if chosen else None,
        on_choose=lambda place: links.set_query(**{name: None if place + 1 == chosen else place + 1}),
    )
    return chosen


def responses_table(rollouts: Sequence[RolloutHeader]) -> tuple[list[Heading], list[list[str]]]:
    """Return headings and cells, as plain text; what no response has is left out."""
    rows = [_cells(place, rollout) for place, rollout in enumerate(rollouts, 1)]
    kept = [at for at in range(len(HEADINGS)) if at < 2 or any(row[at] for row in rows)]
    return [HEADINGS[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _cells(place: int, rollout: RolloutHeader) -> tuple[str, ...]:
    mark = f"{MARKS.get(rollout.grade, '')} {place}" + (", cut" if rollout.truncated else "")
    return (
        mark,
        one_line(rollout.extracted or "", _ANSWER_MAX),
        cell(rollout.reward, "number"),
        cell(rollout.advantage, "fixed"),
        cell(rollout.tokens, "whole"),
        cell(rollout.mean_log_ratio, "fixed"),
    )
