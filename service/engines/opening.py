"""Open the models of a command: each endpoint once, however many roles use it."""

import os
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from service.asks.ask import Models, RetryPolicy
from service.asks.backend import Endpoint
from service.asks.batch import BATCH_PRICE, LINES_PER_JOB, BatchJobs
from service.asks.money import Price, find_price, require_price
from service.asks.redaction import redact
from service.asks.remote import RemoteEndpoint
from service.asks.request import Request
from service.database import Database
from service.engines.batch_loop import TransformersEndpoint, TransformersSettings
from service.engines.vllm import VllmEndpoint, VllmSettings
from service.errors import InputError
from service.models.access import ENGINE_SETTINGS, Access, Budget, Model
from service.models.settings import TOKENS_PER_S


class RemoteSettings(BaseModel):
    """How a model is asked at its provider, or at one or several servers of the user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    base_url: tuple[str, ...] = ()
    api_key_env: str | None = None
    price: tuple[float, float] | None = None
    max_concurrency: int = 64
    timeout_s: float | None = None
    tokens_per_s: float = TOKENS_PER_S
    batch: bool = False
    batch_poll_s: float = 60.0


ModelSettings = RemoteSettings | VllmSettings | TransformersSettings
"""How one model is asked: over the network, or in an engine on this machine."""


def model_settings(config: Model) -> ModelSettings:
    """Return how a model is asked."""
    if config.sampler == "remote":
        return remote_settings(config, config.model)
    names = ENGINE_SETTINGS[config.sampler]
    given: dict[str, Any] = {name: value for name in names if (value := getattr(config, name)) is not None}
    if config.sampler == "local":
        return TransformersSettings(checkpoint=config.model, **given)
    if config.max_concurrency is not None:
        given["max_concurrency"] = config.max_concurrency
    gpus, shared = given.pop("gpus", None), given.pop("tensor_parallel", 1)
    if (address := given.pop("ray_address", None)) is not None:
        os.environ["RAY_ADDRESS"] = address
    return VllmSettings(
        checkpoint=config.model,
        tensor_parallel_size=shared,
        data_parallel_size=1 if gpus is None else gpus // shared,
        ray=address is not None,
        **given,
    )


def remote_settings(access: Access, model: str) -> RemoteSettings:
    """Return how a model is asked over the network."""
    shared = {name: getattr(access, name) for name in RemoteSettings.model_fields if name != "model"}
    return RemoteSettings(model=model, **{name: value for name, value in shared.items() if value is not None})


AT_ONCE = 256
"""Tasks under way at least."""


class OpenModels:
    """The models that a command has opened, as an async context that closes them."""

    def __init__(self, logs: Path, budget: Budget = Budget()) -> None:
        """Set up; nothing is opened. `logs` is the folder for `vllm-1.log`, `vllm-2.log`, ..."""
        self._logs, self._budget = logs, budget
        self._open: dict[ModelSettings, Endpoint] = {}
        self._backends: dict[str, BatchJobs] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "OpenModels":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self, settings: ModelSettings) -> Endpoint:
        """Return the endpoint with these settings, opened at the first call.

        A remote model is asked at one place: an address that one role names holds for the others too.

        Raises:
            PrerequisiteError, InputError: see `Endpoint.open`.
            InputError: a model is given two addresses.
            BudgetError: there is a cap, and the price is not known.
        """
        if isinstance(settings, RemoteSettings):
            settings = self._at_one_place(settings)
        if settings not in self._open:
            endpoint = self._make(settings)
            self._stack.push_async_callback(endpoint.close)
            await endpoint.open()
            if isinstance(settings, RemoteSettings) and has_batch_jobs(settings):
                jobs = BatchJobs(endpoint, poll_s=settings.batch_poll_s)  # type: ignore[arg-type]
                self._stack.push_async_callback(jobs.close)
                self._backends[endpoint.model] = jobs
            self._open[settings] = endpoint
        return self._open[settings]

    def _at_one_place(self, settings: RemoteSettings) -> RemoteSettings:
        """Return the settings with which the model is open, else these."""
        for opened in self._open:
            if isinstance(opened, RemoteSettings) and opened.model == settings.model:
                if settings.base_url not in ((), opened.base_url):
                    places = [", ".join(each.base_url) or "its provider" for each in (opened, settings)]
                    raise InputError(
                        f"{settings.model} has two different addresses: {redact(' and '.join(places))}. Use "
                        "the same base_url for every role of a model."
                    )
                return opened
        return settings

    def _make(self, settings: ModelSettings) -> Endpoint:
        if isinstance(settings, TransformersSettings):
            return TransformersEndpoint(settings)
        if isinstance(settings, VllmSettings):
            servers = sum(isinstance(each, VllmSettings) for each in self._open)
            return VllmEndpoint(settings, self._logs / f"vllm-{servers + 1}.log")
        price = find_price if self._budget.max_usd is None else require_price
        return RemoteEndpoint(
            settings.model,
            settings.base_url,
            price=price(settings.model, settings.price),
            max_concurrency=settings.max_concurrency,
            timeout_s=settings.timeout_s,
            tokens_per_s=settings.tokens_per_s,
            key_env=settings.api_key_env,
        )

    def models(self) -> Models:
        """Return everything that is open, as runs take it.

        At least as many tasks are under way as requests can be in flight or fill two batch jobs.
        """
        places = 0
        for settings in self._open:
            if isinstance(settings, RemoteSettings):
                places += settings.max_concurrency * max(1, len(settings.base_url))
            elif isinstance(settings, VllmSettings):
                places += settings.max_concurrency * settings.data_parallel_size
        return Models(
            {endpoint.model: endpoint for endpoint in self._open.values()},
            dict(self._backends),
            retries=RetryPolicy(halt_after=self._budget.halt_after),
            max_requests=self._budget.max_requests,
            at_once=max(AT_ONCE, 2 * LINES_PER_JOB if self._backends else places),
            grace_s=self._budget.grace_s,
            stall_s=self._budget.stall_s,
        )

    @property
    def notices(self) -> list[str]:
        """What the user should know of the answers so far, each once."""
        return list(dict.fromkeys(note for endpoint in self._open.values() for note in endpoint.notices))


def has_batch_jobs(settings: RemoteSettings) -> bool:
    """Return whether requests go into batch jobs; the user's own vLLM servers have none."""
    return settings.batch and not settings.model.startswith("hosted_vllm/")


def price_of(models: Iterable[ModelSettings]) -> Callable[[str], Price | None]:
    """Return what finds the price of these models for an estimate: half of it in batch jobs, 0 on
    this machine.
    """
    prices: dict[str, Price | None] = {}
    for each in models:
        if isinstance(each, RemoteSettings):
            price = find_price(each.model, each.price)
            halved = price is not None and has_batch_jobs(each)
            prices[each.model] = price.scaled(BATCH_PRICE) if price is not None and halved else price
        else:
            prices[each.checkpoint] = Price(0.0, 0.0)
    return prices.get


def describe_engine(endpoint: Endpoint) -> dict[str, Any]:
    """Return what shapes responses besides prompt and sampling: part of a run's key."""
    if isinstance(endpoint, RemoteEndpoint):
        serving = {name: value for name, value in vars(endpoint.serving).items() if value}
        return {"sampler": "remote", "provider": endpoint.provider.name, **serving}
    assert isinstance(endpoint, VllmEndpoint | TransformersEndpoint)
    return {"sampler": endpoint.engine["engine"], "identity": endpoint.model, **endpoint.engine}


def engine_of(endpoint: Endpoint) -> dict[str, Any] | None:
    """Return what tells apart the weights and the engine of a model on this machine; None for a
    remote model.
    """
    return None if isinstance(endpoint, RemoteEndpoint) else describe_engine(endpoint)


def takes_schema(endpoint: Endpoint) -> bool:
    """Return whether the provider of a model enforces a schema for its answers."""
    return isinstance(endpoint, RemoteEndpoint) and endpoint.provider.enforces_schema


def engine_logs(db: Database) -> Path:
    """Return where engines on this machine write their logs: next to the database."""
    return db.path.parent if isinstance(db.place, Path) else Path()


def check_request(endpoint: Endpoint, request: Request) -> None:
    """Refuse a request of which a part that shapes responses would not reach the model.

    Raises:
        PrerequisiteError: the provider does not take a setting, raw text or an extra field.
    """
    if isinstance(endpoint, RemoteEndpoint):
        endpoint.provider.check(request)


def takes_n(endpoint: Endpoint) -> bool:
    """Return whether one request can ask for several responses."""
    return not isinstance(endpoint, RemoteEndpoint) or endpoint.takes("n")
