"""A model server's description of itself."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from service.asks.faults import shorten
from service.asks.redaction import redact
from service.asks.request import AUTHENTICATION, CONNECTION, SERVER_ERROR, UNKNOWN_MODEL, Fault

if TYPE_CHECKING:
    import httpx

LOOK_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Serving:
    """A server's description of itself; None for details that it does not report.

    `engine` is the owner in the list of models (vllm, sglang, ...), `version` what vLLM's `/version` says,
    `root` the weights behind the served name, `max_model_len` the longest prompt and response together.
    """

    engine: str | None = None
    version: str | None = None
    root: str | None = None
    max_model_len: int | None = None

    def merged(self, other: "Serving") -> "Serving":
        """Return these details, completed by those of another server of the same model."""
        names = [each.name for each in fields(Serving)]
        return Serving(**{name: getattr(self, name) or getattr(other, name) for name in names})

    def differences(self, other: "Serving") -> str:
        """List the details in which both servers differ; "" if there are none."""
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(Serving)}
        different = [f"{name} {a} instead of {b}" for name, (a, b) in pairs.items() if a and b and a != b]
        return redact("; ".join(different))


async def look_at(base: str, model: str, key: str | None) -> Serving | Fault:
    """Query what a server serves, at no cost; return the fault that a request would also get."""
    import httpx

    url, headers = f"{base}/models", {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=LOOK_TIMEOUT_S, headers=headers) as http:
            response = await http.get(url)
            version = await http.get(f"{base.removesuffix('/v1')}/version")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Fault(CONNECTION, redact(f"{url} cannot be reached: {str(error) or type(error).__name__}"))
    status = response.status_code
    if status in (401, 403):
        return Fault(AUTHENTICATION, f"{url} rejects the API key ({status}): {shorten(response.text)}")
    if status == 404:  # a server without this page
        return Serving(version=_text(_json_object(version).get("version")))
    try:
        entries = {str(entry["id"]): entry for entry in response.json()["data"]}
    except (ValueError, KeyError, TypeError):
        kind = SERVER_ERROR if status == 429 or status >= 500 else UNKNOWN_MODEL
        problem = "is not ready" if kind == SERVER_ERROR else "does not speak OpenAI's protocol"
        return Fault(kind, redact(f"{url} {problem} (status {status}: {shorten(response.text)})"))
    if entries and model not in entries:
        names = ", ".join(list(entries)[:10])
        return Fault(UNKNOWN_MODEL, redact(f"{base} does not serve the model {model!r}. It serves: {names}"))
    entry = entries.get(model, {})
    length = entry.get("max_model_len")
    return Serving(
        engine=_text(entry.get("owned_by")),
        version=_text(_json_object(version).get("version")),
        root=_text(entry.get("root")),
        max_model_len=length if isinstance(length, int) else None,
    )


def _json_object(response: "httpx.Response") -> dict[str, Any]:
    try:
        page = response.json() if response.status_code == 200 else None
    except ValueError:
        return {}
    return page if isinstance(page, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
