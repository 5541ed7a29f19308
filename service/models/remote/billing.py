"""What requests cost: the worst case before, the bill after."""

import json
from dataclasses import dataclass

from service.models.remote.prices import Price
from service.models.remote.types import ChatRequest

# A tokenizer makes at most one token of a byte; templates add role names and separators to each message.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64


def most_prompt_tokens(request: ChatRequest) -> int:
    """Return an upper bound of the prompt's tokens: its bytes plus what chat templates add."""
    texts = [message.content for message in request.messages]
    if request.prompt is not None:
        texts.append(request.prompt)
    if request.response_schema is not None:
        texts.append(json.dumps(request.response_schema))
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return count + TOKENS_PER_MESSAGE * len(texts) + TOKENS_PER_REQUEST


def worst_case_usd(request: ChatRequest, price: Price | None) -> float | None:
    """Return the most that one attempt can cost, or None where the price is not known."""
    if price is None:
        return None
    return price.cost(most_prompt_tokens(request), request.max_tokens * request.n)


@dataclass
class Bill:
    """The attempts of one request so far."""

    price: Price | None
    worst_usd: float | None
    attempts: int = 0
    usd: float = 0.0
    doubtful_usd: float = 0.0
    unpriced: bool = False

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
