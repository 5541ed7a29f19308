"""Whether an endpoint can be reached, knows the model, and what it supports; no request is paid for."""

import os
from typing import TYPE_CHECKING

from service.models.remote.faults import shorten
from service.models.remote.redaction import redact
from service.models.remote.types import EndpointCheck

if TYPE_CHECKING:
    from service.models.remote.backend import Backend

CHECK_TIMEOUT_S = 15.0
_OPENAI = "https://api.openai.com/v1"


async def check_endpoint(backend: "Backend", *, price_known: bool) -> EndpointCheck:
    """Ask the endpoint for its models.

    Providers without an OpenAI-style list of models are not asked; there only the key's presence is checked.
    """
    models: tuple[str, ...] | None = None
    problem: str | None = backend.missing_key()
    base = backend.endpoint.api_base
    if base is None and backend.provider in ("openai", "hosted_vllm"):
        base = _openai_address() if backend.provider == "openai" else backend.base
    if problem is None and base is not None:
        models, problem = await _list_models(base, backend.key())
    listed = backend.model in models if models else None
    if listed is False:
        shown = ", ".join((models or ())[:10])
        problem = redact(f"{base} does not list the model {backend.model!r}, only: {shown}")
    return EndpointCheck(
        reachable=problem is None or listed is False,
        model_listed=listed,
        models=models or (),
        structured=backend.sends("response_format"),
        supports_n=backend.sends("n"),
        price_known=price_known,
        problem=problem,
    )


def _openai_address() -> str:
    """Return where litellm sends OpenAI's models: a proxy named in the environment, or OpenAI itself."""
    named = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    return named or _OPENAI


async def _list_models(base: str, key: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    """Return (ids of the models or None where there is no such page, problem)."""
    import httpx  # comes with litellm

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = f"{base.rstrip('/')}/models"
    try:
        async with httpx.AsyncClient(timeout=CHECK_TIMEOUT_S) as http:
            response = await http.get(url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return None, redact(f"{url} cannot be reached: {str(error) or type(error).__name__}")
    if response.status_code in (401, 403):
        return None, redact(f"{url} refuses the key ({response.status_code}): {shorten(response.text)}")
    if response.status_code == 404:
        return None, None
    try:
        entries = response.json()["data"]
        return tuple(str(entry["id"]) for entry in entries), None
    except (ValueError, KeyError, TypeError):
        return None, redact(
            f"{url} does not speak OpenAI's protocol (status {response.status_code}): "
            f"{shorten(response.text)}"
        )
