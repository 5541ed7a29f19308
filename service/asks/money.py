"""Model prices, and the possible and actual cost of requests."""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.asks.request import Request
from service.errors import BudgetError
from service.runs.tables import PICO_PER_USD

if TYPE_CHECKING:
    from service.questions.images import Image


@dataclass(frozen=True)
class Price:
    """USD per million tokens of prompt and of response."""

    prompt: float
    completion: float

    def scaled(self, factor: float) -> "Price":
        """Return this price times `factor`."""
        return Price(self.prompt * factor, self.completion * factor)


def find_price(model: str, given: tuple[float, float] | None = None, *, required: str = "") -> Price | None:
    """Return the price of a model: what the user gives (prompt, response), else litellm's.

    None if it is not known; that is an error if it is `required` by the name of its setting.
    """
    if given is not None:
        return Price(*given)
    from service.asks.remote import known_price

    price = known_price(model)
    if price is None and required:
        raise BudgetError(
            f"tagrpo does not know the price of {model}, so it cannot enforce the cap. Set the price in "
            f"USD per million prompt tokens and response tokens, such as {required}=[10,30] ([0,0] if it is "
            "free). Or remove the cap."
        )
    return price


# A tokenizer makes at most one token of a byte; templates add role names and separators to each message.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64


def cost_pico(price: Price | None, prompt_tokens: int, completion_tokens: int) -> int | None:
    """Return a cost in picodollars, or None if the price is unknown."""
    if price is None:
        return None
    per_million = price.prompt * prompt_tokens + price.completion * completion_tokens
    return round(per_million * PICO_PER_USD / 1_000_000)


def worst_pico(request: Request, price: Price | None) -> int | None:
    """Return the maximum cost of an attempt in picodollars, or None if the price is unknown."""
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
