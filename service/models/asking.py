"""How remote models are asked, and capped: none of it shapes what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.models.remote import Price, PriceTable
from service.models.remote.batch import BATCH_PRICE, has_jobs
from service.models.settings import TOKENS_PER_S
from service.models.stopping import GRACE_S, HALT_AFTER, STALL_S


@dataclass(frozen=True)
class Asking:
    """How requests are made; another invocation of the same run may use other values.

    Attributes:
        max_usd: caps the whole run from now on, earlier invocations and other processes included; None: the
            cap it has.
        max_requests: caps the HTTP requests of this invocation.
        prices: of models that litellm cannot price, `MODEL=IN,OUT` in USD per million tokens.
        prices_file: TOML or JSON of such prices.
        max_concurrency: most requests in flight to one server.
        timeout_s: that an attempt may take; None: by the length of the longest response, at `tokens_per_s`.
        batch: sends batch jobs where the provider has them; servers of one's own are asked directly.
        batch_poll_s: between two looks at a batch job.
        grace_s: that requests in flight have to come home after SIGTERM.
        halt_after: failed requests in a row that end it.
        retry_final: asks again what failed for good.
        stall_s: without an answer after which it says what it waits for.
    """

    max_usd: float | None = None
    max_requests: int | None = None
    prices: tuple[str, ...] = ()
    prices_file: Path | None = None
    max_concurrency: int = 64
    timeout_s: float | None = None
    tokens_per_s: float = TOKENS_PER_S
    batch: bool = False
    batch_poll_s: float = 60.0
    grace_s: float = GRACE_S
    halt_after: int = HALT_AFTER
    retry_final: bool = False
    stall_s: float = STALL_S

    def price_table(self) -> PriceTable:
        """Return the prices that are given, over litellm's."""
        return PriceTable.read(self.prices_file, self.prices)

    def prices_in_force(self) -> Callable[[str], Price | None]:
        """Return what finds the price of a model: in batch jobs, where it has some, half of it."""
        prices = self.price_table()

        def price_of(model: str) -> Price | None:
            price = prices.price(model)
            if price is None or not self.batch or not has_jobs(model):
                return price
            return price.scaled(BATCH_PRICE)

        return price_of
