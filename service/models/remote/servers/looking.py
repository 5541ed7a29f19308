"""What a server says of itself, and whether several of them serve the same. Nothing is paid for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from service.errors import PrerequisiteError
from service.models.remote.chat import AUTHENTICATION, CONNECTION, SERVER_ERROR, UNKNOWN_MODEL
from service.models.remote.faults import Fault, shorten
from service.models.remote.redaction import redact

if TYPE_CHECKING:
    import httpx

    from service.models.remote.backend import Backend

CHECK_TIMEOUT_S = 15.0


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


@dataclass(frozen=True)
class Look:
    """What a server serves, the longest prompt and answer together (None: not told), and all its models."""

    serving: Serving
    max_model_len: int | None = None
    models: tuple[str, ...] | None = None


async def look_at(backend: "Backend") -> Look | Fault:
    """Ask a server what it serves; the fault is one that a request would meet too, and is not billed."""
    base = (backend.base or "").rstrip("/")
    try:
        entries = await list_models(base, backend.key())
        if isinstance(entries, Fault):
            return entries
        version = await _read_page(f"{base.removesuffix('/v1')}/version", backend.key())
    except PrerequisiteError as error:
        return Fault(CONNECTION, str(error), billed=False)
    models = None if entries is None else tuple(str(entry["id"]) for entry in entries)
    if models and backend.model not in models:
        return Fault(UNKNOWN_MODEL, not_listed(base, backend.model, models), billed=False)
    entry = next((entry for entry in entries or () if entry["id"] == backend.model), {})
    length = entry.get("max_model_len")
    serving = Serving(
        backend.provider,
        backend.model,
        engine=_text(entry.get("owned_by")),
        version=_text(version.get("version")),
        root=_text(entry.get("root")),
    )
    return Look(serving, length if isinstance(length, int) else None, models)


def merge_looks(looks: Sequence[Look]) -> Look:
    """Return what all servers serve together, each detail as the first says it that tells it."""
    merged = looks[0]
    for look in looks[1:]:
        known = {
            name: getattr(merged.serving, name) or getattr(look.serving, name)
            for name in ("engine", "version", "root")
        }
        merged = Look(
            replace(merged.serving, **known),
            merged.max_model_len or look.max_model_len,
            merged.models or look.models,
        )
    return merged


def differences(look: Look, other: Look) -> str | None:
    """Say in what the first serves something else than the other; None where nothing that both tell differs.

    Requests that are spread over both would be drawn from two models, or be refused by one of them.
    """
    pairs = {
        each.name: (getattr(look.serving, each.name), getattr(other.serving, each.name))
        for each in fields(Serving)
    }
    pairs["max_model_len"] = (look.max_model_len, other.max_model_len)
    different = [
        f"{name} {mine} and not {theirs}"
        for name, (mine, theirs) in pairs.items()
        if mine is not None and theirs is not None and mine != theirs
    ]
    return redact("; ".join(different)) or None


def not_listed(base: str, model: str, models: Sequence[str]) -> str:
    """Say that a server does not list a model."""
    return redact(f"{base} does not list the model {model!r}, only: {', '.join(models[:10])}")


async def list_models(base: str, key: str | None) -> list[dict[str, Any]] | Fault | None:
    """Return the entries of a server's list of models, or None where there is no such page.

    Raises:
        PrerequisiteError: the server cannot be reached.
    """
    url = f"{base.rstrip('/')}/models"
    response = await _get(url, key)
    if response.status_code in (401, 403):
        refusal = f"{url} refuses the key ({response.status_code}): {shorten(response.text)}"
        return Fault(AUTHENTICATION, redact(refusal), billed=False)
    if response.status_code == 404:
        return None
    try:
        return [{**entry, "id": str(entry["id"])} for entry in response.json()["data"]]
    except (ValueError, KeyError, TypeError):
        status = response.status_code
        return Fault(
            SERVER_ERROR if status == 429 or status >= 500 else UNKNOWN_MODEL,
            redact(f"{url} does not speak OpenAI's protocol (status {status}): {shorten(response.text)}"),
            billed=False,
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
