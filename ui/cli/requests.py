"""Settings of requests to models: how they are made and capped, which never shapes what comes of them."""

import os
import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from service.errors import InputError
from service.models.remote.redaction import redact
from service.models.settings import TOKENS_PER_S
from service.models.stopping import GRACE_S, HALT_AFTER, STALL_S
from ui.cli import output
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.models.estimate import PriceOf
    from service.runs.progress import ErrorCount
    from service.runs.spending import LedgerLine
    from service.runs.store import Run


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
SAMPLING_HELP = (
    "Published settings by name (qwen3-thinking, qwen3-non-thinking, qwq, deepseek-r1, gpt-oss), or "
    "top_k=20, min_p, repetition_penalty, presence_penalty, frequency_penalty, or both, separated by commas."
)


def _check_key_variable(name: str | None) -> str | None:
    """Return the name of a variable that is set; it may be a key itself, so no error repeats it."""
    if name is None or os.environ.get(name):
        return name
    if _VARIABLE.fullmatch(name) is None or name != redact(name):
        raise InputError(
            "--api-key-env names the variable of the environment that holds the key, and what is given looks "
            "like a key itself. Keys stand in no file and on no command line: `export LAB_KEY=...` and give "
            "LAB_KEY."
        )
    raise InputError(f"--api-key-env {name}: it is not set; `export {name}=...` first.")


KeyVariable = Annotated[
    str | None,
    Option(
        metavar="VARIABLE",
        callback=_check_key_variable,
        help="Environment variable that holds the key of --api-base; else the provider's usual one.",
    ),
]


@dataclass(frozen=True)
class Requests:
    """How models are asked, for every command that asks some."""

    panel: ClassVar[str] = "Requests and their cost"

    max_usd: Annotated[
        float | None,
        Option(
            min=0,
            help="Hard cap on the cost of the whole run, requests in flight included; the run keeps it.",
        ),
    ] = None
    max_requests: Annotated[int | None, Option(min=1, help="Most HTTP requests in this invocation.")] = None
    price: Annotated[
        tuple[str, ...],
        Option(help="MODEL=IN,OUT in USD per million tokens, for models litellm cannot price."),
    ] = ()
    prices: Annotated[Path | None, Option(help="TOML or JSON file of prices, same units.")] = None
    max_concurrency: Annotated[
        int, Option(min=1, max=4096, help="Most requests in flight to one server.")
    ] = 64
    timeout: Annotated[
        float | None,
        Option(
            min=0.1,
            help="Seconds an attempt may take; default: 120, plus what the longest response takes at "
            "--tokens-per-second.",
        ),
    ] = None
    tokens_per_second: Annotated[
        float, Option(min=0.01, help="Slowest speed at which a response is still waited for.")
    ] = TOKENS_PER_S
    batch: Annotated[
        bool, Option(help="Use batch jobs: half the price, hours instead of minutes; not for hosted_vllm/.")
    ] = False
    batch_poll: Annotated[float, Option(min=0.01, help="Seconds between two polls of a batch job.")] = 60.0
    grace: Annotated[
        float, Option(min=0, help="Seconds given to requests in flight to finish after SIGTERM.")
    ] = GRACE_S
    halt_after: Annotated[
        int, Option(min=1, help="End the run after this many failed requests in a row, keeping all answers.")
    ] = HALT_AFTER
    retry_final: Annotated[
        bool,
        Option(help="Ask again what failed for good: too long, against a policy, out of time twice."),
    ] = False
    stall_after: Annotated[
        float,
        Option(min=1, help="Seconds without an answer after which the run reports what it is waiting for."),
    ] = STALL_S

    def prices_in_force(self) -> "PriceOf":
        """Return what finds the price of a model: in batch jobs, where it has some, half of it."""
        from service.models.remote import Price, PriceTable
        from service.models.remote.batch import BATCH_PRICE, has_jobs

        prices = PriceTable.read(self.prices, self.price)

        def price_of(model: str) -> Price | None:
            price = prices.price(model)
            if price is None or not self.batch or not has_jobs(model):
                return price
            return price.scaled(BATCH_PRICE)

        return price_of


def cap_in_force(session: "Session", run: "Run", max_usd: float | None) -> float | None:
    """Return the cap that is given, else the one that the run keeps; say what differs from what is given."""
    from service.runs.spending import read_account

    account = read_account(session, run.id)
    if max_usd is None and account.max_usd is not None:
        output.note(
            f"{run.name} keeps its cap of ${account.max_usd:g}, of which ${account.spent_usd:.2f} are spent"
        )
        return account.max_usd
    if account.max_usd not in (None, max_usd):
        output.note(f"the cap of {run.name} is ${max_usd:g} from now on, and was ${account.max_usd:g}")
    return max_usd


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
        parts.append(f"{output.plural(open_, 'request')} {'is' if open_ == 1 else 'are'} open")
    if failed:
        words = error_words(errors)
        parts.append(f"{output.plural(failed, 'request')} failed" + (f" ({words})" if words else ""))
    return [f"{name}: {' and '.join(parts)}; go on with {resume_command(name)}"] if parts else []


def print_errors(errors: "Sequence[ErrorCount]") -> None:
    """Print the errors of failed requests, the most frequent first."""
    if errors:
        output.table(["failed request", "count"], [[each.error, each.cells] for each in errors])


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
            f"${doubtful:.4f} of it are worst cases: time-outs, cut connections and what was in flight "
            "at a kill may have cost less"
        )
