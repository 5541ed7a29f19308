"""Requests to models: how they are made and capped, what they will cost, what became of them and was paid."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli.output import Heading, Part, Table, plural
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from service.models.estimate import Estimate, Range
    from service.runs.progress import ErrorCount
    from service.runs.spending import LedgerLine


DryRun = Annotated[
    bool, Option("--dry-run", help="Print the planned requests and their cost; send and store nothing.")
]


LONGEST_WORDS = 200
COST_COLUMNS = ("requests for", "model", "requests", "prompt tokens", "answer tokens", "USD")


def words_by_kind(errors: "Sequence[ErrorCount]") -> dict[str, str]:
    """Return by kind of failure what a server, or the network, says most often of it."""
    words: dict[str, str] = {}
    for each in errors:
        kind, _, message = each.error.partition(": ")
        words.setdefault(kind, textwrap.shorten(message, LONGEST_WORDS, placeholder=" ..."))
    return words


def error_words(errors: "Sequence[ErrorCount]", kinds: Collection[str] | None = None) -> str:
    """Say why requests failed: each kind (of these) with the words of the server."""
    return ", ".join(
        f"{kind}: {message}" if message else kind
        for kind, message in words_by_kind(errors).items()
        if kinds is None or kind in kinds
    )


def open_words(name: str, open_: int, failed: int, errors: "Sequence[ErrorCount]") -> list[str]:
    """Name the unanswered requests of a run, the reason and the way on; empty if there are none."""
    parts = []
    if open_:
        parts.append(f"{plural(open_, 'request')} {'is' if open_ == 1 else 'are'} open")
    if failed:
        words = error_words(errors)
        parts.append(f"{plural(failed, 'request')} failed" + (f" ({words})" if words else ""))
    return [f"{name}: {' and '.join(parts)}; resume with {resume_command(name)}"] if parts else []


def errors_table(errors: "Sequence[ErrorCount]") -> Table | None:
    """Return the errors of failed requests, the most frequent first; None if there are none."""
    rows = [[each.error, each.count] for each in errors]
    return Table(["failed request", "count"], rows) if rows else None


def ledger_parts(ledger: "Sequence[LedgerLine]") -> list[Part]:
    """Return a run's costs by kind of request and model, and which are worst cases."""
    if not ledger:
        return []
    rows = [
        [
            line.kind,
            line.model if line.model != "-" else "(no answer)",
            line.requests,
            line.prompt_tokens,
            line.completion_tokens,
            f"{line.usd:.4f}" + (f" + {line.unpriced:,} unpriced" if line.unpriced else ""),
        ]
        for line in ledger
    ]
    doubtful = sum(line.doubtful_usd for line in ledger)
    note = (
        f"${doubtful:.4f} of this is a worst case: requests that timed out, were cut off or were in flight "
        "when the process was killed may have cost less"
    )
    return ["", Table(COST_COLUMNS, rows), note if doubtful else None]


def estimate_parts(
    estimates: "Mapping[str, Estimate]", unit: str, spread: str, max_usd: float | None
) -> list[Part]:
    """Return the expected cost of runs, each below its name if there may be several.

    Requests, tokens, money and hours are ranges; `spread` says of what, if they come from lengths alone.
    """
    from service.models.estimate import IMAGE_TOKENS

    parts: list[Part] = []
    for name, estimate in estimates.items():
        if estimate.trial is None:
            size = (
                f"{plural(estimate.questions, unit)}; estimated from text lengths, {spread}. A trial run "
                "on a few (--limit) narrows the range."
            )
        else:
            of_trial = plural(estimate.trial_questions or 0, unit)
            size = f"{plural(estimate.questions, unit)}; scaled from {of_trial} of run {estimate.trial}."
        rows = [
            [
                stage.kind,
                stage.model,
                *map(_whole, (stage.requests, stage.prompt_tokens, stage.completion_tokens)),
                _money(stage.usd),
            ]
            for stage in estimate.stages
        ]
        parts += [Heading(name) if name else None, size, Table(COST_COLUMNS, rows)]
        if estimate.images and estimate.trial is None:
            parts.append(
                f"{plural(estimate.images, 'image')}: each model counts image tokens differently; assumed "
                f"{IMAGE_TOKENS[0]:,.0f} to {IMAGE_TOKENS[1]:,.0f} tokens each. A trial run measures it."
            )
        unit_text = " USD" if estimate.usd else " (set the model's price=[IN,OUT])"
        parts.append(f"total: {_money(estimate.usd)}{unit_text}")
        if estimate.hours is not None:
            low, high = estimate.hours
            parts.append(f"hours at the speed of run {estimate.trial}: {low:.1f} to {high:.1f}")
    ranges = [estimate.usd for estimate in estimates.values() if estimate.usd is not None]
    if max_usd is not None and ranges and sum(high for _, high in ranges) > max_usd:
        surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
        parts.append(f"--max-usd {max_usd:g} {surely} the run before it is complete")
    return [*parts, "Nothing was sent or stored."]


def _whole(values: "Range") -> str:
    low, high = round(values[0]), round(values[1])
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _money(values: "Range | None") -> str:
    if values is None:
        return "price unknown"
    return f"{values[0]:,.2f}" if values[0] == values[1] else f"{values[0]:,.2f} to {values[1]:,.2f}"
