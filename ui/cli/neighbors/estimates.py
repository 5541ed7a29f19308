"""`--dry-run` of commands that ask models: what the run will ask and cost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ui.cli import output
from ui.cli.output import plural

if TYPE_CHECKING:
    from service.models.estimate import Estimate, Range


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
            f"{plural(estimate.questions, unit)}; from their lengths, {spread}. A trial of some (--limit) "
            "narrows it."
        )
    else:
        of_trial = plural(estimate.trial_questions or 0, unit)
        output.say(f"{plural(estimate.questions, unit)}; scaled from run {estimate.trial} of {of_trial}.")
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
            f"{plural(estimate.images, 'image')}: each model counts their tokens in its own way; taken as "
            f"{IMAGE_TOKENS[0]:,.0f} to {IMAGE_TOKENS[1]:,.0f} each. A trial tells."
        )
    output.say(f"in all: {_money(estimate.usd)}" + (" USD" if estimate.usd else " (name it with --price)"))
    if estimate.hours is not None:
        output.say(
            f"hours at the pace of {estimate.trial}: {estimate.hours[0]:.1f} to {estimate.hours[1]:.1f}"
        )


def _print_cap(estimates: "Sequence[Estimate]", max_usd: float | None) -> None:
    """Say where a cap stops runs that are expected to take more, all together."""
    ranges = [estimate.usd for estimate in estimates if estimate.usd is not None]
    if max_usd is None or not ranges or sum(high for _, high in ranges) <= max_usd:
        return
    surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
    output.say(f"--max-usd {max_usd:g} {surely} it before its end")


def _whole(values: "Range") -> str:
    low, high = round(values[0]), round(values[1])
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _money(values: "Range | None") -> str:
    if values is None:
        return "price not known"
    return f"{values[0]:,.2f}" if values[0] == values[1] else f"{values[0]:,.2f} to {values[1]:,.2f}"
