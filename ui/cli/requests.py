"""Settings of requests to models: how they are made and capped, which never shapes what comes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from service.models.settings import TOKENS_PER_S
from service.models.stopping import GRACE_S, HALT_AFTER, STALL_S
from ui.cli import output

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run


SAMPLING_HELP = (
    "Published settings by name (qwen3-thinking, qwen3-non-thinking, qwq, deepseek-r1, gpt-oss), or "
    "top_k=20, min_p, repetition_penalty, presence_penalty, frequency_penalty, or both after commas."
)


@dataclass(frozen=True)
class Requests:
    """How models are asked, for every command that asks some."""

    panel: ClassVar[str] = "Requests and their cost"

    max_usd: Annotated[
        float | None,
        Option(min=0, help="Hard cap on what the whole run may cost, in flight included; the run keeps it."),
    ] = None
    max_requests: Annotated[int | None, Option(min=1, help="Most HTTP requests of this invocation.")] = None
    price: Annotated[
        tuple[str, ...],
        Option(help="MODEL=IN,OUT in USD per million tokens, for models litellm cannot price."),
    ] = ()
    prices: Annotated[Path | None, Option(help="TOML or JSON file of prices, same units.")] = None
    max_concurrency: Annotated[int, Option(min=1, max=4096, help="Most requests in flight at one model.")] = (
        64
    )
    timeout: Annotated[
        float | None,
        Option(
            min=0.1,
            help="Seconds one attempt may take; default: 120 and what the longest response takes at "
            "--tokens-per-second.",
        ),
    ] = None
    tokens_per_second: Annotated[
        float, Option(min=0.01, help="The slowest that a response may come before it is given up.")
    ] = TOKENS_PER_S
    batch: Annotated[
        bool, Option(help="Batch jobs at half the price, hours instead of minutes; not for hosted_vllm/.")
    ] = False
    batch_poll: Annotated[float, Option(min=0.01, help="Seconds between two looks at a batch job.")] = 60.0
    grace: Annotated[
        float, Option(min=0, help="Seconds that requests in flight have to come home after SIGTERM.")
    ] = GRACE_S
    halt_after: Annotated[
        int, Option(min=1, help="End the run after so many failed requests in a row, with all that came.")
    ] = HALT_AFTER
    stall_after: Annotated[
        float, Option(min=1, help="Seconds without any answer after which to say what is waited for.")
    ] = STALL_S


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
