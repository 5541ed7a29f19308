"""Money: prices of models, what a request may cost and has cost, and a hard cap on all of it."""

import asyncio
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from service.errors import BudgetError, InputError
from service.models.remote.chat import ChatRequest

if TYPE_CHECKING:
    from service.questions.images import Image

PER_MILLION = 1_000_000.0


@dataclass(frozen=True)
class Price:
    """USD per million tokens of prompt and of answer."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost in USD."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / PER_MILLION

    def scaled(self, factor: float) -> "Price":
        """Return this price times `factor`, as for batch jobs at half price."""
        return Price(self.prompt * factor, self.completion * factor)


class PriceTable:
    """Prices by model name in litellm's spelling; the name without its provider (`openai/`) matches too."""

    def __init__(
        self,
        own: Mapping[str, Price] | None = None,
        known: Callable[[str], Price | None] | None = None,
    ) -> None:
        """Make a table from the user's prices; `known` is asked for other models (default: litellm's map)."""
        self._own = dict(own or {})
        self._known = known

    @classmethod
    def read(cls, path: Path | None = None, spellings: Iterable[str] = ()) -> "PriceTable":
        """Make a table of a file and of `MODEL=IN,OUT` spellings (USD per million tokens), which win.

        The file is TOML or JSON: `"gpt-4-turbo" = {prompt = 10.0, completion = 30.0}`, or `[10.0, 30.0]`.

        Raises:
            InputError: a file that cannot be read, or a price that is no pair of numbers from 0.
        """
        own = _read_file(path) if path is not None else {}
        for spelling in spellings:
            model, _, numbers = spelling.rpartition("=")
            if not model:
                raise InputError(
                    f"--price {spelling}: give MODEL=IN,OUT in USD per million tokens, as gpt-4-turbo=10,30"
                )
            own[model] = _price(numbers.split(","), f"--price {spelling}")
        return cls(own)

    def price(self, model: str) -> Price | None:
        """Return the price of a model, or None where nobody has told it."""
        for name in (model, model.partition("/")[2]):
            if name in self._own:
                return self._own[name]
        if self._known is not None:
            return self._known(model)
        from service.models.remote.backend import known_price

        of_a_token = known_price(model)
        return None if of_a_token is None else Price(*of_a_token).scaled(PER_MILLION)

    def require(self, model: str) -> Price:
        """Return the price of a model.

        Raises:
            BudgetError: it is not known.
        """
        price = self.price(model)
        if price is None:
            raise BudgetError(
                f"the price of {model} is not known, so no cap (--max-usd, or max-usd of a settings file) "
                f"can be kept: give it as --price {model}=IN,OUT (USD per million tokens of prompt and "
                f"answer; {model}=0,0 where it costs nothing), or take the cap away."
            )
        return price


def _read_file(path: Path) -> dict[str, Price]:
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no price table can be read from it: {error}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: a price table maps models to prices, this is a {type(table).__name__}")
    return {model: _price(value, f"{path}: {model}") for model, value in table.items()}


def _price(value: Any, where: str) -> Price:
    if isinstance(value, Mapping):
        value = [value.get("prompt"), value.get("completion")]
    try:
        prompt, completion = (float(number) for number in value)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: give two numbers, USD per million tokens of prompt and of answer"
        ) from None
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise InputError(f"{where}: prices are finite numbers from 0, not {prompt} and {completion}")
    return Price(prompt, completion)


# A tokenizer makes at most one token of a byte; templates add role names and separators to each message.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64


def most_prompt_tokens(request: ChatRequest) -> int:
    """Return an upper bound of the prompt's tokens: its bytes, what chat templates add, and its images."""
    texts = [message.content for message in request.messages]
    if request.prompt is not None:
        texts.append(request.prompt)
    if request.response_schema is not None:
        texts.append(json.dumps(request.response_schema))
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    pictured = sum(most_image_tokens(image) for message in request.messages for image in message.images)
    return count + TOKENS_PER_MESSAGE * len(texts) + TOKENS_PER_REQUEST + pictured


def most_image_tokens(image: "Image") -> int:
    """Return an upper bound of what an image is billed as.

    The dearest that is known: GPT-4o mini bills 2,833 tokens and 5,667 a tile of 512 x 512 pixels, of which
    there are at most eight. Qwen's models take a token for 28 x 28 pixels.
    """
    tiles = min(8, math.ceil(image.width / 512) * math.ceil(image.height / 512))
    return max(2_833 + 5_667 * tiles, math.ceil(image.width * image.height / 28**2))


def worst_case_usd(request: ChatRequest, price: Price | None) -> float | None:
    """Return the most that one attempt can cost, or None where the price is not known."""
    if price is None:
        return None
    return price.cost(most_prompt_tokens(request), request.max_tokens * request.n)


def check_amount(usd: float) -> None:
    """Raise `InputError` where `usd` cannot be a cap."""
    if not 0 <= usd < math.inf:
        raise InputError(f"--max-usd {usd}: give an amount from 0")


class Bill:
    """The attempts of one request so far."""

    def __init__(self, request: ChatRequest, price: Price | None) -> None:
        self.price, self.worst_usd = price, worst_case_usd(request, price)
        self.attempts = 0
        self.usd = self.doubtful_usd = 0.0
        self.unpriced = False

    @property
    def total_usd(self) -> float | None:
        """What all attempts cost; None where something was billed at a price that is not known."""
        return None if self.unpriced else self.usd

    def charge(self, usage: tuple[int, int] | None) -> tuple[float | None, bool]:
        """Add a billed attempt; return (USD or None, whether that is only the worst case)."""
        if self.price is None:
            self.unpriced = True
            return None, False
        if usage is not None:
            cost = self.price.cost(*usage)
            self.usd += cost
            return cost, False
        assert self.worst_usd is not None
        self.usd += self.worst_usd
        self.doubtful_usd += self.worst_usd
        return self.worst_usd, True


ROUNDING_USD = 1e-12  # sums of floats; far below any price


class Ledger(Protocol):
    """Where money is noted before it is spent, so that a cap outlives this process and holds for others."""

    @property
    def capped(self) -> bool:
        """Whether there is a cap, so that prices have to be known."""
        ...

    async def reserve(self, key: int | str, usd: float) -> bool:
        """Note that a request may cost `usd`, all its attempts together; False where the cap has no room.

        Waits while requests of this process are in flight that may turn out cheaper than their worst case.
        """
        ...

    async def release(self, key: int | str) -> None:
        """Take back what was reserved for a request that was never sent."""
        ...

    def settled(self, keys: Iterable[int | str]) -> None:
        """Learn that these requests are no longer in flight, their cost being stored."""
        ...

    def describe(self) -> str:
        """Say how the cap stands, for a message."""
        ...


@dataclass(frozen=True)
class Reservation:
    """A request in flight that may cost up to `usd` (None: its price is not known)."""

    number: int
    usd: float | None


class Budget:
    """Money and requests of one run, shared by all its clients in this process.

    Spent is what answers cost by their usage; `doubtful_usd` of it is the worst case of attempts whose bill
    cannot be known. At every moment spent + reserved <= `max_usd`, as long as servers keep to max_tokens.
    Where there is a ledger, it alone has the cap on money. Not for use from several threads.
    """

    def __init__(
        self,
        *,
        max_usd: float | None = None,
        max_requests: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Set the caps.

        Raises:
            InputError: a cap that is negative or no number.
        """
        if max_usd is not None:
            check_amount(max_usd)
        if max_requests is not None and max_requests < 0:
            raise InputError(f"--max-requests {max_requests}: give a number from 0")
        self.max_usd, self.max_requests = max_usd, max_requests
        self.ledger = ledger
        self.requests = 0
        self.spent_usd = self.doubtful_usd = 0.0
        self.unpriced = 0  # billed requests without a known price
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
        if self.ledger is None and self.max_usd is not None and self.spent_usd > self.max_usd:
            return "budget"
        return None

    def describe(self) -> str:
        """Say how the cap on money stands, for a message."""
        if self.ledger is not None:
            return self.ledger.describe()
        return f"${self.spent_usd:.4f} of --max-usd {self.max_usd} are spent"

    def price_of(self, model: str, prices: PriceTable) -> Price | None:
        """Return the price of a model to count with; None where it is not known.

        Raises:
            BudgetError: it is not known although there is a cap on money.
        """
        capped = self.max_usd is not None or (self.ledger is not None and self.ledger.capped)
        return prices.require(model) if capped else prices.price(model)

    def reserve(self, usd: float | None) -> Reservation | None:
        """Reserve the worst case of a request; None when it does not fit now.

        Raises:
            BudgetError: its price is not known although there is a cap on money.
        """
        if self.max_usd is not None and self.ledger is None:
            if usd is None:
                raise BudgetError("a cap on money cannot be kept for a request whose price is not known")
            if self.spent_usd + self.reserved_usd + usd > self.max_usd + ROUNDING_USD:
                return None
        if self.max_requests is not None and self.requests >= self.max_requests:
            return None
        self.requests += 1
        self._numbers += 1
        self._reserved[self._numbers] = usd or 0.0
        return Reservation(self._numbers, usd)

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
        """Take back a reservation whose request was never sent."""
        self.requests -= 1
        del self._reserved[reservation.number]
        self._wake()

    def settle(self, reservation: Reservation, usd: float | None, *, doubtful: bool = False) -> None:
        """Replace a reservation by what the request cost. None: billed, at a price that is not known."""
        del self._reserved[reservation.number]
        if usd is None:
            self.unpriced += 1
        else:
            self.spent_usd += usd
            if doubtful:
                self.doubtful_usd += usd
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
