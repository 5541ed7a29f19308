"""What an endpoint is and can: whether it answers, what it lists, takes and supports. Nothing is paid for."""

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from service.errors import PrerequisiteError
from service.models.remote.chat import Endpoint
from service.models.remote.faults import shorten
from service.models.remote.redaction import redact
from service.models.settings import NEUTRAL, Sampling

if TYPE_CHECKING:
    import httpx

    from service.models.remote.backend import Backend

CHECK_TIMEOUT_S = 15.0
_UNSENT: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""What a provider draws with where it takes no such setting."""

_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class EndpointCheck:
    """What `RemoteClient.check` found. None means that the endpoint does not say.

    `supports_n` False: ask for one answer a request. `structured` tells whether response_schema is sent.
    """

    reachable: bool
    model_listed: bool | None
    models: tuple[str, ...]
    structured: bool
    supports_n: bool
    price_known: bool
    problem: str | None


@dataclass(frozen=True)
class Serving:
    """What serves a model. None stands for what the server does not tell.

    `model` is the name without litellm's provider. `engine` is the owner that the list of models names (vllm,
    sglang, ...), `version` what vLLM's `/version` says, `root` the weights behind the served name.
    """

    provider: str
    model: str
    engine: str | None = None
    version: str | None = None
    root: str | None = None

    def to_json(self) -> dict[str, str | None]:
        return asdict(self)


async def load_backend(endpoint: Endpoint) -> "Backend":
    """Return litellm for an endpoint, imported in a thread, as that takes seconds.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    module = await asyncio.to_thread(importlib.import_module, "service.models.remote.backend")
    backend: Backend = module.open_backend(endpoint)
    return backend


def enforces_schema(endpoint: Endpoint) -> bool:
    """Return whether every answer of this endpoint keeps to the schema it is given; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    return open_backend(endpoint).enforces_schema


def supports_n(endpoint: Endpoint) -> bool:
    """Return whether several answers can be asked for in one request; nothing is sent.

    Raises:
        PrerequisiteError: litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    return open_backend(endpoint).sends("n")


def check_abilities(endpoint: Endpoint, *, raw_text: bool, extra: Mapping[str, Any]) -> None:
    """See that raw text, and fields of a server's own, would reach this endpoint; nothing is sent.

    Raises:
        PrerequisiteError: they would not, or litellm does not understand the model's spelling.
    """
    from service.models.remote.backend import open_backend

    backend = open_backend(endpoint)
    if raw_text and not backend.takes_raw_text:
        raise PrerequisiteError(
            f"{endpoint.model}: raw text cannot be continued at {backend.provider}, it takes chats only; "
            "give a chat prompt, or a server with /completions as hosted_vllm/NAME with --api-base."
        )
    if extra and not backend.takes_extra:
        names = ", ".join(sorted(extra))
        raise PrerequisiteError(
            f"{endpoint.model}: {backend.provider} takes no {names}; that belongs to servers of one's own, "
            "as hosted_vllm/NAME with --api-base. Without it: --chat-template-kwargs '{}'."
        )


def check_sampling(endpoint: Endpoint, sampling: Sampling) -> None:
    """See that all that decides the distribution of responses reaches this endpoint; nothing is sent.

    Raises:
        PrerequisiteError: the provider drops one of the settings, or litellm does not understand the model's
            spelling.
    """
    from service.models.remote.backend import open_backend

    backend = open_backend(endpoint)
    for name, value in sampling.decoding.items():
        if name == "max_tokens" or value == _UNSENT[name] or backend.takes(name, value):
            continue
        out = f"give {_UNSENT[name]}, with which it draws anyway" if _UNSENT[name] != () else "leave it out"
        raise PrerequisiteError(
            f"{endpoint.model}: {backend.provider} takes no {name} ({value}); {out}. A vLLM server takes all "
            "settings, as hosted_vllm/NAME with --api-base."
        )


async def check_endpoint(backend: "Backend", *, price_known: bool) -> EndpointCheck:
    """Ask the endpoint for its models.

    Providers without an OpenAI-style list of models are not asked; there only the key's presence is checked.
    """
    models: tuple[str, ...] | None = None
    problem = backend.missing_key()
    base = backend.endpoint.api_base
    if base is None and backend.provider in ("openai", "hosted_vllm"):
        base = backend.base or (_OPENAI if backend.provider == "openai" else None)
    if problem is None and base is not None:
        models, problem = await _list_models(base, backend.key())
    listed = backend.model in models if models else None
    if listed is False:
        names = ", ".join((models or ())[:10])
        problem = redact(f"{base} does not list the model {backend.model!r}, only: {names}")
    return EndpointCheck(
        reachable=problem is None or listed is False,
        model_listed=listed,
        models=models or (),
        structured=backend.sends("response_format"),
        supports_n=backend.sends("n"),
        price_known=price_known,
        problem=problem,
    )


async def find_serving(endpoint: Endpoint) -> Serving:
    """Ask an own server what it is; providers are not asked.

    Raises:
        PrerequisiteError: the server cannot be reached, or litellm does not understand the model's spelling.
    """
    backend = await load_backend(endpoint)
    if backend.base is None:
        return Serving(backend.provider, backend.model)
    base = backend.base.rstrip("/")
    version = await _read_page(f"{base.removesuffix('/v1')}/version", backend.key())
    models = await _read_page(f"{base}/models", backend.key())
    entries = models.get("data")
    named = (
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("id") == backend.model
    )
    entry = next(named, {})
    return Serving(
        backend.provider,
        backend.model,
        engine=_text(entry.get("owned_by")),
        version=_text(version.get("version")),
        root=_text(entry.get("root")),
    )


async def _list_models(base: str, key: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    """Return (ids of the models or None where there is no such page, problem)."""
    url = f"{base.rstrip('/')}/models"
    try:
        response = await _get(url, key)
    except PrerequisiteError as error:
        return None, str(error)
    if response.status_code in (401, 403):
        return None, redact(f"{url} refuses the key ({response.status_code}): {shorten(response.text)}")
    if response.status_code == 404:
        return None, None
    try:
        return tuple(str(entry["id"]) for entry in response.json()["data"]), None
    except (ValueError, KeyError, TypeError):
        return None, redact(
            f"{url} does not speak OpenAI's protocol (status {response.status_code}): "
            f"{shorten(response.text)}"
        )


async def _read_page(url: str, key: str | None) -> dict[str, Any]:
    """Return the JSON object of a page, empty where it is not there or no such object."""
    response = await _get(url, key)
    try:
        page = response.json() if response.status_code == 200 else None
    except ValueError:
        return {}
    return page if isinstance(page, dict) else {}


async def _get(url: str, key: str | None) -> "httpx.Response":
    import httpx  # comes with litellm

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as http:
            return await http.get(url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PrerequisiteError(
            redact(f"{url} cannot be reached: {str(error) or type(error).__name__}")
        ) from error


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
