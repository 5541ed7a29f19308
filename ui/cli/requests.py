"""Settings of requests to models: how they are made and capped, which never shapes what comes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from service.models.settings import TOKENS_PER_S
from service.models.stopping import GRACE_S


@dataclass(frozen=True)
class Requests:
    """How models are asked, for every command that asks some."""

    panel: ClassVar[str] = "Requests and their cost"

    max_usd: Annotated[
        float | None,
        Option(min=0, help="Hard cap on what the whole run may cost; counts requests in flight."),
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
