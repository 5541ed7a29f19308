"""Requests to models: how they are made and capped, what they will cost, what became of them and was paid."""

import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ui.cli.output import plural
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from service.models.estimate import Estimate

DryRun = Annotated[
    bool, Option("--dry-run", help="Print the planned requests and their cost; send and store nothing.")
]
LONGEST_WORDS = 200


def error_words(errors: Mapping[str, int], kinds: Collection[str] | None = None) -> str:
    """Say why requests failed: each kind (of these) with what a server, or the network, says most often."""
    words: dict[str, str] = {}
    for error in errors:
        kind, _, message = error.partition(": ")
        short = textwrap.shorten(message, LONGEST_WORDS, placeholder=" ...")
        if kinds is None or kind in kinds:
            words.setdefault(kind, f"{kind}: {short}" if short else kind)
    return ", ".join(words.values())


def open_words(name: str, open_: int, failed: int, errors: Mapping[str, int]) -> list[str]:
    """Name the unanswered requests of a run, the reason and the way on; empty if there are none."""
    parts = []
    if open_:
        parts.append(f"{plural(open_, 'request')} {'is' if open_ == 1 else 'are'} open")
    if failed:
        words = error_words(errors)
        parts.append(f"{plural(failed, 'request')} failed" + (f" ({words})" if words else ""))
    return [f"{name}: {' and '.join(parts)}; resume with {resume_command(name)}"] if parts else []


def estimate_notes(estimates: "Collection[Estimate]", max_usd: float | None) -> Iterator[str]:
    """Say whether the cap suffices for an estimate, what the estimate lacks, and what it comes from."""
    from service.models.estimate import IMAGE_TOKENS

    ranges = [estimate.usd for estimate in estimates if estimate.usd is not None]
    if max_usd is not None and sum(high for _, high in ranges) > max_usd:
        surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
        yield f"--max-usd {max_usd:g} {surely} the run before it is complete."
    if len(ranges) < len(estimates):
        yield "A price is unknown. Set the model's price=[IN,OUT]."
    if any(estimate.images and estimate.trial is None for estimate in estimates):
        low, high = IMAGE_TOKENS
        yield f"Images are assumed to take {low:,.0f} to {high:,.0f} tokens each; models differ."
    if any(estimate.trial is None for estimate in estimates):
        yield "Estimated from text lengths. A trial run on a few (--limit) narrows the ranges."
    yield "Nothing was sent or stored."
