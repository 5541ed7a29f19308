"""What an endpoint is and can: whether it answers, what it lists, takes and supports. Nothing is paid for."""

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.errors import PrerequisiteError
from service.models.remote.chat import CONNECTION, Endpoint
from service.models.remote.faults import Fault
from service.models.remote.servers.looking import Look, Serving, list_models, look_at, not_listed
from service.models.settings import NEUTRAL, Sampling

if TYPE_CHECKING:
    from service.models.remote.backend import Backend

_UNSENT: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""What a provider draws with where it takes no such setting."""

_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class EndpointCheck:
    """What `RemoteClient.check` found. `structured` tells whether response_schema is sent."""

    structured: bool
    price_known: bool
    problem: str | None


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
    if base is not None and models and backend.model not in models:
        problem = not_listed(base, backend.model, models)
    return EndpointCheck(backend.sends("response_format"), price_known, problem)


async def find_serving(endpoint: Endpoint) -> Serving:
    """Ask an own server what it is; providers are not asked.

    Raises:
        PrerequisiteError: the server cannot be reached, or litellm does not understand the model's spelling.
    """
    backend = await load_backend(endpoint)
    look = None if backend.base is None else await look_at(backend)
    if isinstance(look, Fault) and look.kind == CONNECTION:
        raise PrerequisiteError(look.message)
    return look.serving if isinstance(look, Look) else Serving(backend.provider, backend.model)


async def _list_models(base: str, key: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    """Return (ids of the models or None where there is no such page, problem)."""
    try:
        entries = await list_models(base, key)
    except PrerequisiteError as error:
        return None, str(error)
    if isinstance(entries, Fault):
        return None, entries.message
    return None if entries is None else tuple(entry["id"] for entry in entries), None
