"""What the clients of an endpoint share: budget, price, retries, and litellm once it is opened."""

import random
from typing import TYPE_CHECKING, Self

from service.models.remote.chat import Answer, ChatResponse, Endpoint
from service.models.remote.endpoint import load_backend
from service.models.remote.fates import Fates
from service.models.remote.faults import RetryPolicy
from service.models.remote.money import Bill, Budget, Price, PriceTable
from service.models.remote.redaction import redact, redact_values, secret_values

if TYPE_CHECKING:
    from service.models.remote.backend import Backend


class EndpointClient:
    """A client of an endpoint. Use as an asynchronous context manager, within one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget: Budget | None = None,
        prices: PriceTable | None = None,
        retries: RetryPolicy | None = None,
        seed: int | None = None,
        run_name: str = "",
    ) -> None:
        """Set up; nothing is imported or sent before the context is entered.

        Args:
            endpoint: Where to ask.
            budget: Caps and totals; default: no cap. It can be shared by the clients of several endpoints.
            prices: The user's prices; default: litellm's local map.
            retries: When and how often to try again.
            seed: Seed of the jitter between attempts; it has no influence on answers.
            run_name: What the log names beside the requests.
        """
        self.endpoint = endpoint
        self.budget = budget if budget is not None else Budget()
        self.retries = retries if retries is not None else RetryPolicy()
        self._prices = prices if prices is not None else PriceTable()
        self._rng = random.Random(seed)
        self._run_name = run_name
        self._price: Price | None = None
        self._backend: Backend | None = None
        self._secrets: tuple[str, ...] = ()
        self._fates = Fates(self.where, run_name)

    async def __aenter__(self) -> Self:
        """Load litellm and look up the price.

        Raises:
            BudgetError: the price is not known although the budget has a cap on money.
            PrerequisiteError: litellm does not understand the model's spelling.
        """
        self._backend = await load_backend(self.endpoint)
        self._price = self.budget.price_of(self.endpoint.model, self._prices)
        self._secrets = secret_values()
        return self

    async def __aexit__(self, *error: object) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    @property
    def where(self) -> str:
        """The endpoint in words, without a password."""
        model, bases = self.endpoint.model, self.endpoint.bases
        if len(bases) > 1:
            return redact(f"{model} at {len(bases)} servers")
        return redact(f"{model} at {bases[0]}" if bases else model)

    @property
    def price(self) -> Price | None:
        """The price in force; None: not known."""
        return self._price

    def _ready(self) -> "Backend":
        if self._backend is None:
            name = type(self).__name__
            raise RuntimeError(f"{name} is used outside of its context: async with {name}(...)")
        return self._backend

    def _response(self, answer: Answer, bill: Bill, latency_s: float) -> ChatResponse:
        prompt_tokens, completion_tokens = answer.usage or (0, 0)
        return ChatResponse(
            choices=answer.choices,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=bill.total_usd,
            model=answer.model or self.endpoint.model,
            raw=redact_values(answer.raw, self._secrets),
            attempts=bill.attempts,
            latency_s=latency_s,
            doubtful_usd=bill.doubtful_usd,
        )
