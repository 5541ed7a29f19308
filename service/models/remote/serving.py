"""What serves a model: provider, engine, its version, and where the weights behind the served name lie."""

import asyncio
import importlib
from dataclasses import asdict, dataclass
from typing import Any

from service.errors import PrerequisiteError
from service.models.remote.checking import CHECK_TIMEOUT_S
from service.models.remote.redaction import redact
from service.models.remote.types import Endpoint


@dataclass(frozen=True)
class Serving:
    """None stands for what the server does not tell.

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


async def find_serving(endpoint: Endpoint) -> Serving:
    """Ask an own server what it is; providers are not asked. Nothing is paid for.

    Raises:
        PrerequisiteError: the server cannot be reached, or litellm does not understand the model's spelling.
    """
    backend_module = await asyncio.to_thread(importlib.import_module, "service.models.remote.backend")
    backend = backend_module.open_backend(endpoint)
    if backend.base is None:
        return Serving(backend.provider, backend.model)
    base = backend.base.rstrip("/")
    version = await _get(f"{base.removesuffix('/v1')}/version", backend.key())
    models = await _get(f"{base}/models", backend.key())
    entries = models.get("data") if isinstance(models, dict) else None
    named = [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("id") == backend.model
    ]
    listed = named[0] if named else {}
    return Serving(
        backend.provider,
        backend.model,
        engine=_text(listed.get("owned_by")),
        version=_text(version.get("version")) if isinstance(version, dict) else None,
        root=_text(listed.get("root")),
    )


async def _get(url: str, key: str | None) -> Any:
    """Return the JSON of a page, None where it is not there or no JSON."""
    import httpx  # comes with litellm

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as http:
            response = await http.get(url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PrerequisiteError(
            redact(f"{url} cannot be reached: {str(error) or type(error).__name__}")
        ) from error
    if response.status_code != 200:
        return None
    try:
        return response.json()
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
