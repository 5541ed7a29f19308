"""A hard cap on money and requests that counts what is in flight at its worst case."""

import asyncio
import math
from dataclasses import dataclass

from service.errors import BudgetError, InputError

ROUNDING_USD = 1e-12  # sums of floats; far below any price


@dataclass(frozen=True)
class Reservation:
    """`count` requests in flight that may cost up to `usd` together (None: their price is not known)."""

    number: int
    usd: float | None
    count: int


class Budget:
    """Money and requests of one run, shared by all its clients in this process.

    Spent is what answers cost by their usage; `doubtful_usd` of it is the worst case of attempts whose bill
    cannot be known. At every moment spent + reserved <= `max_usd`, as long as servers keep to max_tokens.
    Not for use from several threads.
    """

    def __init__(
        self,
        *,
        max_usd: float | None = None,
        max_requests: int | None = None,
        spent_usd: float = 0.0,
        requests: int = 0,
    ) -> None:
        """Begin with what the run has already spent.

        Raises:
            InputError: a cap that is negative or no number.
        """
        if max_usd is not None and not 0 <= max_usd < math.inf:
            raise InputError(f"--max-usd {max_usd}: give an amount from 0")
        if max_requests is not None and max_requests < 0:
            raise InputError(f"--max-requests {max_requests}: give a number from 0")
        self.max_usd, self.max_requests = max_usd, max_requests
        self.spent_usd, self.requests = spent_usd, requests
        self.doubtful_usd = 0.0
        self.unpriced = 0  # billed requests without a known price
        self.elsewhere_usd = 0.0  # what other processes of the run have spent and reserved
        self._reserved: dict[int, float] = {}
        self._numbers = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def reserved_usd(self) -> float:
        """The worst case of all requests in flight."""
        return math.fsum(self._reserved.values())

    @property
    def in_flight(self) -> int:
        return len(self._reserved)

    @property
    def exhausted(self) -> str | None:
        """Why no request can ever start again ("budget", "requests"), or None."""
        if self.max_requests is not None and self.requests >= self.max_requests:
            return "requests"
        if self.max_usd is not None and self.spent_usd + self.elsewhere_usd > self.max_usd:
            return "budget"
        return None

    def reserve(self, usd: float | None, *, count: int = 1) -> Reservation | None:
        """Reserve the worst case of `count` requests; None when it does not fit now.

        Raises:
            BudgetError: their price is not known although there is a cap on money.
        """
        if self.max_usd is not None:
            if usd is None:
                raise BudgetError("a cap on money cannot be kept for a request whose price is not known")
            planned = self.spent_usd + self.elsewhere_usd + self.reserved_usd + usd
            if planned > self.max_usd + ROUNDING_USD:
                return None
        if self.max_requests is not None and self.requests + count > self.max_requests:
            return None
        return self.adopt(usd, count=count)

    def adopt(self, usd: float | None, *, count: int = 1) -> Reservation:
        """Reserve for requests that are under way already, as a batch job of a killed process, cap or not."""
        self.requests += count
        self._numbers += 1
        self._reserved[self._numbers] = usd or 0.0
        return Reservation(self._numbers, usd, count)

    async def reserve_or_wait(self, usd: float | None) -> Reservation | None:
        """Reserve for one request, waiting for those in flight to turn out cheaper than their worst case.

        None when that is hopeless: nothing is in flight any more, or a cap is reached.
        """
        while (reservation := self.reserve(usd)) is None:
            if not self._reserved or self.exhausted is not None:
                return None
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            try:
                await changed
            finally:
                self._waiting.discard(changed)
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Take back a reservation whose requests were never sent."""
        self.requests -= reservation.count
        del self._reserved[reservation.number]
        self._wake()

    def settle(self, reservation: Reservation, usd: float | None, *, doubtful: bool = False) -> None:
        """Replace a reservation by what the request cost. None: billed, at a price that is not known."""
        del self._reserved[reservation.number]
        if usd is None:
            self.unpriced += reservation.count
        else:
            self.spent_usd += usd
            if doubtful:
                self.doubtful_usd += usd
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
