"""Requests to models: how they are made and capped, what they will cost, what became of them and was paid."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli import output
from ui.cli.output import plural
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from service.models.estimate import Estimate, Range
    from service.runs.progress import ErrorCount
    from service.runs.spending import LedgerLine


DryRun = Annotated[
    bool, Option("--dry-run", help="Print the planned requests and their cost; send and store nothing.")
]


LONGEST_WORDS = 200


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
    """Say which requests of a run have no answer yet, why, and how it goes on; nothing where all have one."""
    parts = []
    if open_:
        parts.append(f"{plural(open_, 'request')} {'is' if open_ == 1 else 'are'} open")
    if failed:
        words = error_words(errors)
        parts.append(f"{plural(failed, 'request')} failed" + (f" ({words})" if words else ""))
    return [f"{name}: {' and '.join(parts)}; resume with {resume_command(name)}"] if parts else []


def print_errors(errors: "Sequence[ErrorCount]") -> None:
    """Print the errors of failed requests, the most frequent first."""
    if errors:
        output.table(["failed request", "count"], [[each.error, each.count] for each in errors])


def print_ledger(ledger: "Sequence[LedgerLine]") -> None:
    """Print what a run has paid for, by kind of request and model, and how much of it is a worst case."""
    if not ledger:
        return
    output.say()
    output.table(
        ["requests for", "model", "requests", "prompt tokens", "answer tokens", "USD"],
        [
            [
                line.kind,
                line.model if line.model != "-" else "(no answer)",
                line.requests,
                line.prompt_tokens,
                line.completion_tokens,
                f"{line.usd:.4f}" if not line.unpriced else f"{line.usd:.4f} + {line.unpriced:,} unpriced",
            ]
            for line in ledger
        ],
    )
    doubtful = sum(line.doubtful_usd for line in ledger)
    if doubtful:
        output.say(
            f"${doubtful:.4f} of this is a worst case: requests that timed out, were cut off or were in "
            "flight when the process was killed may have cost less"
        )


def print_estimates(
    estimates: "Mapping[str, Estimate]", unit: str, spread: str, max_usd: float | None
) -> None:
    """Print what runs are expected to take, each below its name where several may be meant."""
    for name, estimate in estimates.items():
        if name:
            output.heading(name)
        _print_estimate(estimate, unit, spread)
    _print_cap(list(estimates.values()), max_usd)
    output.say("Nothing was sent or stored.")


def _print_estimate(estimate: "Estimate", unit: str, spread: str) -> None:
    """Print requests, tokens, money and hours, least to most; `spread`: what both are, from lengths alone."""
    from service.models.estimate import IMAGE_TOKENS

    if estimate.trial is None:
        output.say(
            f"{plural(estimate.questions, unit)}; estimated from text lengths, {spread}. A trial run on a "
            "few (--limit) narrows the range."
        )
    else:
        of_trial = plural(estimate.trial_questions or 0, unit)
        output.say(f"{plural(estimate.questions, unit)}; scaled from {of_trial} of run {estimate.trial}.")
    output.table(
        ["requests for", "model", "requests", "prompt tokens", "answer tokens", "USD"],
        [
            [
                stage.kind,
                stage.model,
                _whole(stage.requests),
                _whole(stage.prompt_tokens),
                _whole(stage.completion_tokens),
                _money(stage.usd),
            ]
            for stage in estimate.stages
        ],
    )
    if estimate.images and estimate.trial is None:
        output.say(
            f"{plural(estimate.images, 'image')}: each model counts image tokens differently; assumed "
            f"{IMAGE_TOKENS[0]:,.0f} to {IMAGE_TOKENS[1]:,.0f} tokens each. A trial run measures it."
        )
    output.say(
        f"total: {_money(estimate.usd)}" + (" USD" if estimate.usd else " (set the model's price=[IN,OUT])")
    )
    if estimate.hours is not None:
        output.say(
            f"hours at the speed of {estimate.trial}: {estimate.hours[0]:.1f} to {estimate.hours[1]:.1f}"
        )


def _print_cap(estimates: "Sequence[Estimate]", max_usd: float | None) -> None:
    """Say where a cap stops runs that are expected to take more, all together."""
    ranges = [estimate.usd for estimate in estimates if estimate.usd is not None]
    if max_usd is None or not ranges or sum(high for _, high in ranges) <= max_usd:
        return
    surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
    output.say(f"--max-usd {max_usd:g} {surely} the run before it is complete")


def _whole(values: "Range") -> str:
    low, high = round(values[0]), round(values[1])
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _money(values: "Range | None") -> str:
    if values is None:
        return "price unknown"
    return f"{values[0]:,.2f}" if values[0] == values[1] else f"{values[0]:,.2f} to {values[1]:,.2f}"
