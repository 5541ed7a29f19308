"""Requests to models: how they are made and capped, what they will cost, what became of them and was paid."""

import os
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from service.asks.redaction import redact
from service.errors import InputError
from service.models.settings import TOKENS_PER_S
from service.models.stopping import GRACE_S, HALT_AFTER, STALL_S
from ui.cli import output
from ui.cli.output import plural
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.asks.ask import Models
    from service.asks.money import Price, PriceTable
    from service.database import Database
    from service.models.estimate import Estimate, PriceOf, Range
    from service.runs.progress import ErrorCount
    from service.runs.spending import LedgerLine
    from service.runs.store import Run


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
SAMPLING_HELP = (
    "More sampling settings: a published profile (qwen3-thinking, qwen3-non-thinking, qwq, deepseek-r1, "
    "gpt-oss), or top_k=20, min_p, repetition_penalty, presence_penalty, frequency_penalty. Separate "
    "several by commas."
)


def _check_key_variable(name: str | None) -> str | None:
    """Return the name of a variable that is set; it may be a key itself, so no error repeats it."""
    if name is None or os.environ.get(name):
        return name
    if _VARIABLE.fullmatch(name) is None or name != redact(name):
        raise InputError(
            "--api-key-env takes the name of an environment variable, but this looks like a key itself. "
            "Never write keys into files or commands: `export LAB_KEY=...` and give LAB_KEY."
        )
    raise InputError(f"--api-key-env {name}: the variable is not set. Run `export {name}=...` first.")


KeyVariable = Annotated[
    str | None,
    Option(
        metavar="VARIABLE",
        callback=_check_key_variable,
        help="Environment variable with the API key for --api-base. Default: the provider's usual variable.",
    ),
]


DryRun = Annotated[
    bool, Option("--dry-run", help="Print the planned requests and their cost; send and store nothing.")
]


@dataclass(frozen=True)
class Requests:
    """How models are asked, for every command that asks some."""

    panel: ClassVar[str] = "Requests and their cost"

    max_usd: Annotated[
        float | None,
        Option(
            min=0,
            help="Hard cap on the cost of the whole run, in-flight requests included. The run keeps it when "
            "resumed.",
        ),
    ] = None
    max_requests: Annotated[int | None, Option(min=1, help="Maximum HTTP requests in this invocation.")] = (
        None
    )
    prices: Annotated[
        tuple[str, ...],
        Option(
            "--price",
            help="Price as MODEL=IN,OUT in USD per million tokens, for models that litellm cannot price.",
        ),
    ] = ()
    prices_file: Annotated[
        Path | None, Option("--prices", help="TOML or JSON file of prices in the same units.")
    ] = None
    max_concurrency: Annotated[
        int, Option(min=1, max=4096, help="Maximum in-flight requests per server.")
    ] = 64
    timeout_s: Annotated[
        float | None,
        Option(
            "--timeout",
            min=0.1,
            help="Timeout per attempt in seconds. Default: 120, plus the time of the longest response at "
            "--tokens-per-second.",
        ),
    ] = None
    tokens_per_s: Annotated[
        float,
        Option(
            "--tokens-per-second",
            min=0.01,
            help="Lowest generation speed for which the timeout still leaves enough time.",
        ),
    ] = TOKENS_PER_S
    batch: Annotated[
        bool, Option(help="Use batch jobs: half the price, hours instead of minutes. Not for hosted_vllm/.")
    ] = False
    batch_poll_s: Annotated[
        float, Option("--batch-poll", min=0.01, help="Seconds between two polls of a batch job.")
    ] = 60.0
    grace_s: Annotated[
        float, Option("--grace", min=0, help="Seconds that in-flight requests get to finish after SIGTERM.")
    ] = GRACE_S
    halt_after: Annotated[
        int, Option(min=1, help="Stop after this many consecutive failed requests; all answers are kept.")
    ] = HALT_AFTER
    retry_final: Annotated[
        bool,
        Option(
            help="Retry requests that failed for good: too long, refused by a policy, or timed out twice."
        ),
    ] = False
    stall_s: Annotated[
        float,
        Option(
            "--stall-after",
            min=1,
            help="Seconds without an answer before the run reports what it waits for.",
        ),
    ] = STALL_S

    def price_table(self) -> "PriceTable":
        """Return the prices that are given, over litellm's."""
        from service.asks.money import PriceTable

        return PriceTable.read(self.prices_file, self.prices)

    def prices_in_force(self) -> "PriceOf":
        """Return what finds the price of a model: half of it in batch jobs."""
        from service.asks.batch import BATCH_PRICE

        prices = self.price_table()

        def price_of(model: str) -> "Price | None":
            price = prices.price(model)
            in_jobs = self.batch and not model.startswith("hosted_vllm/")
            return price.scaled(BATCH_PRICE) if price is not None and in_jobs else price

        return price_of

    def options(self) -> "Models":
        """Return how models are asked, without any that is open."""
        from service.asks.ask import Models, RetryPolicy

        return Models(
            {},
            retries=RetryPolicy(halt_after=self.halt_after),
            max_requests=self.max_requests,
            grace_s=self.grace_s,
            stall_s=self.stall_s,
        )


def log_folder(database: "Database") -> Path:
    """Return where engines on this machine write their logs: next to the database."""
    return database.path.parent if isinstance(database.place, Path) else Path()


def cap_in_force(session: "Session", run: "Run", max_usd: float | None) -> float | None:
    """Return the cap that is given, else the one that the run keeps; say what differs from what is given."""
    from service.runs.spending import read_account

    account = read_account(session, run.id)
    if max_usd is None and account.max_usd is not None:
        output.note(f"{run.name} keeps its cap of ${account.max_usd:g}; ${account.spent_usd:.2f} is spent")
        return account.max_usd
    if account.max_usd not in (None, max_usd):
        output.note(f"{run.name}: the cap changes from ${account.max_usd:g} to ${max_usd:g}")
    return max_usd


def hold_cap(database: "Database", runs: "Sequence[Run]", max_usd: float | None) -> None:
    """Cap what the runs cost together, or leave them the caps that they have."""
    from service.runs.spending import set_cap

    with database.write() as session:
        for run in runs:
            cap_in_force(session, run, max_usd)
        if max_usd is not None:
            set_cap(session, [run.id for run in runs], max_usd)


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
            "flight at a kill may have cost less"
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
    output.say(f"total: {_money(estimate.usd)}" + (" USD" if estimate.usd else " (set it with --price)"))
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
