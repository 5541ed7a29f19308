"""Open the models of a command: each endpoint once, however many roles use it."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from service.asks.ask import Asker, Models
from service.asks.batch import LINES_PER_JOB, BatchJobs, check_batch
from service.asks.money import find_price
from service.asks.redaction import redact
from service.asks.servers import Endpoint
from service.config import pick
from service.database import Database
from service.engines.checkpoint import check_installed
from service.engines.vllm import VllmEndpoint
from service.errors import InputError
from service.models.access import ENGINE_SETTINGS, Access, Budget, Model


def remote_model(access: Access, model: str) -> Model:
    """Return a model that is asked over the network."""
    return Model(model=model, sampler="remote", **pick(access, Access))


AT_ONCE = 256
"""Tasks under way at least."""


class OpenModels(AsyncExitStack):
    """The models that a command has opened, as an async context that closes them."""

    def __init__(self, logs: Path, budget: Budget = Budget()) -> None:
        """Set up; nothing is opened. `logs` is the folder for `vllm-1.log`, `vllm-2.log`, ..."""
        super().__init__()
        self._logs, self._budget = logs, budget
        self._open: dict[tuple[Any, ...], tuple[Model, Endpoint]] = {}
        self._backends: dict[str, Callable[[Asker], BatchJobs]] = {}

    async def open(self, config: Model, table: str = "") -> Endpoint:
        """Return the endpoint of a model, opened at the first call.

        A remote model is asked at one place: an address that one role names holds for the others too.
        Errors name settings of the model after `table`, such as `solver.`.
        """
        key = config.sampler, *(getattr(config, name) for name in ("model", *ENGINE_SETTINGS[config.sampler]))
        if key in self._open:
            first, endpoint = self._open[key]
            if config.base_url not in ((), first.base_url):
                places = [", ".join(each.base_url) or "its provider" for each in (first, config)]
                raise InputError(
                    f"{config.model} has two different addresses: {redact(' and '.join(places))}. Use "
                    "the same base_url for every role of a model."
                )
            return endpoint
        endpoint = self._make(config, f"{table}price")
        self.push_async_callback(endpoint.close)
        await endpoint.open()
        self._open[key] = config, endpoint
        return endpoint

    def _make(self, config: Model, price_name: str) -> Endpoint:
        if config.sampler == "local":
            check_installed("local")
            from service.engines.batch_loop import TransformersEndpoint  # torch takes seconds to import

            return TransformersEndpoint(config)
        if config.sampler == "vllm":
            servers = sum(other.sampler == "vllm" for other, _ in self._open.values())
            return VllmEndpoint(config, self._logs / f"vllm-{servers + 1}.log")
        from service.asks.remote import RemoteEndpoint  # litellm takes seconds to import

        required = price_name if self._budget.max_usd is not None else ""
        price = find_price(config.model, config.price, required=required)
        endpoint = RemoteEndpoint(config, price)
        if config.has_batch_jobs:
            check_batch(endpoint)
            self._backends[endpoint.model] = partial(BatchJobs, endpoint, poll_s=config.batch_poll_s)
        return endpoint

    def models(self) -> Models:
        """Return everything that is open, as runs take it.

        At least as many tasks are under way as requests can be in flight or fill two batch jobs.
        """
        endpoints = {endpoint.model: endpoint for _, endpoint in self._open.values()}
        servers = (server for each in endpoints.values() for server in getattr(each, "servers", ()))
        places = sum(server.max_concurrency for server in servers)
        at_once = max(AT_ONCE, 2 * LINES_PER_JOB if self._backends else places)
        return Models(endpoints, self._backends, self._budget, at_once)

    @property
    def notices(self) -> list[str]:
        """What the user should know of the answers so far, each once."""
        return list(dict.fromkeys(note for _, endpoint in self._open.values() for note in endpoint.notices))


def engine_logs(db: Database) -> Path:
    """Return where engines on this machine write their logs: next to the database."""
    return db.place.parent if isinstance(db.place, Path) else Path()
