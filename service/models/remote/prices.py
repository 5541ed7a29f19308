"""Prices of models: the user's own table first, then litellm's local map. Unknown is None, never 0."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import BudgetError, InputError

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

        return known_price(model)

    def require(self, model: str) -> Price:
        """Return the price of a model.

        Raises:
            BudgetError: it is not known.
        """
        price = self.price(model)
        if price is None:
            raise BudgetError(
                f"the price of {model} is not known, so --max-usd cannot be kept: give it as --price "
                f"{model}=IN,OUT (USD per million tokens of prompt and answer; {model}=0,0 where it costs "
                "nothing), or leave --max-usd out."
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
