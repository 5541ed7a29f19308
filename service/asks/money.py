"""Prices of models, and what a request may cost and has cost."""

from dataclasses import dataclass

from service.asks.request import Request

PICO_PER_USD = 10**12


@dataclass(frozen=True)
class Price:
    prompt: float
    completion: float


def cost_pico(price: Price | None, prompt_tokens: int, completion_tokens: int) -> int | None:
    return (
        None
        if price is None
        else round(1e6 * (price.prompt * prompt_tokens + price.completion * completion_tokens))
    )


def worst_pico(request: Request, price: Price | None) -> int | None:
    prompt = sum(len(m.content.encode()) for m in request.messages) + len(request.prompt or "") + 80
    return cost_pico(price, prompt, request.max_tokens * request.n)
