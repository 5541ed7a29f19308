"""Prices of models, and what a request may cost and has cost."""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from service.asks.request import Request
from service.errors import BudgetError, InputError

if TYPE_CHECKING:
    from service.questions.images import Image


PICO_PER_USD = 10**12
"""Money is counted in whole picodollars, so that sums are exact."""


@dataclass(frozen=True)
class Price:
    """USD per million tokens of prompt and of response."""

    prompt: float
    completion: float

    def scaled(self, factor: float) -> "Price":
        """Return this price times `factor`."""
        return Price(self.prompt * factor, self.completion * factor)

    @classmethod
    def parse(cls, value: Any, place: str) -> Self:
        """Return the price in `[10.0, 30.0]` or `{prompt = 10.0, completion = 30.0}`.

        Raises:
            InputError: it is no pair of finite numbers from 0; the message starts with `place`.
        """
        if isinstance(value, Mapping):
            value = [value.get("prompt"), value.get("completion")]
        try:
            prompt, completion = (float(number) for number in value)
        except (TypeError, ValueError):
            raise InputError(
                f"{place}: give two numbers, USD per million tokens of prompt and of response."
            ) from None
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise InputError(f"{place}: give finite numbers from 0, not {prompt} and {completion}.")
        return cls(prompt, completion)


class PriceTable:
    """The user's prices by model, then those of litellm's map.

    Models are spelled as litellm does; the name without its provider (`openai/`) matches too.
    """

    def __init__(self, prices: Mapping[str, Price] | None = None) -> None:
        self._prices = dict(prices or {})

    @classmethod
    def read(cls, path: Path | None = None, spellings: Iterable[str] = ()) -> Self:
        """Read prices from a TOML or JSON file and from `MODEL=IN,OUT`, which take precedence.

        Raises:
            InputError: the file cannot be read, or a price is invalid.
        """
        prices = _read_file(path) if path is not None else {}
        for spelling in spellings:
            model, _, numbers = spelling.rpartition("=")
            if not model:
                raise InputError(
                    f"--price {spelling}: give MODEL=IN,OUT in USD per million tokens, as gpt-4-turbo=10,30."
                )
            prices[model] = Price.parse(numbers.split(","), f"--price {spelling}")
        return cls(prices)

    def price(self, model: str) -> Price | None:
        """Return the price of a model, or None if it is not known."""
        for name in (model, model.partition("/")[2]):
            if name in self._prices:
                return self._prices[name]
        from service.asks.providers import known_price

        return known_price(model)

    def require(self, model: str) -> Price:
        """Return the price of a model.

        Raises:
            BudgetError: it is not known.
        """
        price = self.price(model)
        if price is None:
            raise BudgetError(
                f"tagrpo does not know the price of {model}, so it cannot keep a cap. Give --price "
                f"{model}=IN,OUT in USD per million tokens of prompt and response ({model}=0,0 if it is "
                "free), or remove the cap."
            )
        return price


def _read_file(path: Path) -> dict[str, Price]:
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot read prices: {error}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: give a table of prices by model, not a {type(table).__name__}.")
    return {model: Price.parse(value, f"{path}: {model}") for model, value in table.items()}


# A tokenizer makes at most one token of a byte; templates add role names and separators to each message.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64


def cost_pico(price: Price | None, prompt_tokens: int, completion_tokens: int) -> int | None:
    """Return a cost in picodollars, or None if the price is not known."""
    if price is None:
        return None
    per_million = price.prompt * prompt_tokens + price.completion * completion_tokens
    return round(per_million * PICO_PER_USD / 1_000_000)


def worst_pico(request: Request, price: Price | None) -> int | None:
    """Return the most that one attempt can cost in picodollars, or None if the price is not known."""
    return cost_pico(price, max_prompt_tokens(request), request.max_tokens * request.n)


def max_prompt_tokens(request: Request) -> int:
    """Return an upper bound of the prompt's tokens: its bytes, what chat templates add, and its images."""
    texts = [message.content for message in request.messages]
    if request.prompt is not None:
        texts.append(request.prompt)
    if request.response_schema is not None:
        texts.append(json.dumps(request.response_schema))
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    pictured = sum(max_image_tokens(image) for message in request.messages for image in message.images)
    return count + TOKENS_PER_MESSAGE * len(texts) + TOKENS_PER_REQUEST + pictured


def max_image_tokens(image: "Image") -> int:
    """Return an upper bound of the tokens that a provider bills for an image.

    The highest known rate: GPT-4o mini bills 2,833 tokens and 5,667 per tile of 512 x 512 pixels, with at
    most eight tiles. Qwen's models bill a token per 28 x 28 pixels.
    """
    tiles = min(8, math.ceil(image.width / 512) * math.ceil(image.height / 512))
    return max(2_833 + 5_667 * tiles, math.ceil(image.width * image.height / 28**2))
