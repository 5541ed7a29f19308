"""Open the models of a command: each endpoint once, however many roles use it."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.asks.ask import Models
from service.asks.backend import Endpoint
from service.asks.batch import LINES_PER_JOB, BatchJobs
from service.asks.money import PriceTable
from service.asks.redaction import redact
from service.asks.remote import RemoteEndpoint
from service.asks.request import Request
from service.engines.batch_loop import TransformersEndpoint, TransformersSettings
from service.engines.vllm import VllmEndpoint, VllmSettings
from service.errors import InputError
from service.models.settings import TOKENS_PER_S


class RemoteSettings(BaseModel):
    """How a model is asked at its provider, or at one or several servers of the user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(description="Model in litellm's spelling: gpt-4-turbo, hosted_vllm/Qwen/Qwen3-4B.")
    base_url: tuple[str, ...] = Field((), description="Addresses of servers that serve the same model.")
    api_key_env: str | None = Field(None, description="Environment variable with the key.")
    max_concurrency: int = Field(64, ge=1, le=4096, description="Maximum requests in flight per server.")
    timeout_s: float | None = Field(
        None, gt=0, description="Seconds per attempt; by default from max_tokens and tokens_per_s."
    )
    tokens_per_s: float = Field(TOKENS_PER_S, gt=0, description="Slowest server to wait for.")
    batch: bool = Field(False, description="Use the provider's batch jobs: half the price, hours to wait.")
    batch_poll_s: float = Field(60.0, gt=0, description="Seconds between two looks at a batch job.")


ModelSettings = RemoteSettings | VllmSettings | TransformersSettings
"""How one model is asked: over the network, or in an engine on this machine."""


def model_name(settings: ModelSettings) -> str:
    """Return the name that the user gave to a model."""
    return settings.model if isinstance(settings, RemoteSettings) else settings.checkpoint


class OpenModels:
    """The models that a command has opened, as an async context that closes them."""

    def __init__(self, logs: Path, prices: PriceTable, *, capped: bool = False) -> None:
        """Set up; nothing is opened.

        Args:
            logs: The folder for `vllm.log`, `vllm-2.log`, ...
            prices: Of models that are asked over the network.
            capped: Whether every price must be known.
        """
        self._logs, self._prices, self._capped = logs, prices, capped
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
                        f"{settings.model} is given two addresses, {redact(' and '.join(places))}. Ask one "
                        "model at one place, or at the same servers."
                    )
                return opened
        return settings

    def _make(self, settings: ModelSettings) -> Endpoint:
        if isinstance(settings, TransformersSettings):
            return TransformersEndpoint(settings)
        if isinstance(settings, VllmSettings):
            servers = sum(isinstance(each, VllmSettings) for each in self._open)
            return VllmEndpoint(settings, self._logs / f"vllm-{servers + 1}.log")
        price = self._prices.require if self._capped else self._prices.price
        return RemoteEndpoint(
            settings.model,
            settings.base_url,
            price=price(settings.model),
            max_concurrency=settings.max_concurrency,
            timeout_s=settings.timeout_s,
            tokens_per_s=settings.tokens_per_s,
            key_env=settings.api_key_env,
        )

    def models(self, options: Models | None = None) -> Models:
        """Return everything that is open, as runs take it; `options` says how it is asked.

        At least as many tasks are under way as requests can be in flight or fill two batch jobs.
        """
        options = options or Models({})
        endpoints = {endpoint.model: endpoint for endpoint in self._open.values()}
        places = sum(
            settings.max_concurrency * max(1, len(settings.base_url))
            for settings in self._open
            if isinstance(settings, RemoteSettings)
        )
        at_once = max(options.at_once, 2 * LINES_PER_JOB if self._backends else places)
        return replace(options, endpoints=endpoints, backends=dict(self._backends), at_once=at_once)

    @property
    def notices(self) -> list[str]:
        """What the user should know of the answers so far, each once."""
        return list(dict.fromkeys(note for endpoint in self._open.values() for note in endpoint.notices))


def has_batch_jobs(settings: RemoteSettings) -> bool:
    """Return whether requests go into batch jobs; the user's own vLLM servers have none."""
    return settings.batch and not settings.model.startswith("hosted_vllm/")


def describe_engine(endpoint: Endpoint) -> dict[str, Any]:
    """Return what shapes responses besides prompt and sampling: part of a run's key."""
    if isinstance(endpoint, RemoteEndpoint):
        serving = {name: value for name, value in vars(endpoint.serving).items() if value}
        return {"sampler": "remote", "provider": endpoint.provider.name, **serving}
    assert isinstance(endpoint, VllmEndpoint | TransformersEndpoint)
    return {"sampler": endpoint.engine["engine"], "identity": endpoint.model, **endpoint.engine}


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


__all__ = [
    "ModelSettings",
    "OpenModels",
    "RemoteSettings",
    "TransformersSettings",
    "VllmSettings",
    "check_request",
    "describe_engine",
    "has_batch_jobs",
    "model_name",
    "takes_n",
]
