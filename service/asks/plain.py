"""Plain HTTP requests to a server that tagrpo started itself."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from service.asks.faults import fault_of_status
from service.asks.request import Reply, Request, chat_messages, optional_fields
from service.asks.servers import ServedEndpoint, Server, Serving, look_at
from service.models.settings import TOKENS_PER_S

if TYPE_CHECKING:
    import aiohttp

    from service.asks.request import Fault


class PlainEndpoint(ServedEndpoint):
    """A vLLM server on this machine.

    It queues by itself, so its concurrency does not adapt. It takes every setting, and costs nothing.
    """

    def __init__(
        self,
        base: str,
        served_name: str,
        *,
        max_concurrency: int = 256,
        timeout_s: float | None = None,
        tokens_per_s: float = TOKENS_PER_S,
    ) -> None:
        """Set up; nothing is sent. `base` ends in `/v1`; for the rest see `ServedEndpoint`."""
        self.base, self.served_name = base, served_name
        self._session: aiohttp.ClientSession | None = None
        server = Server(base, base, max_concurrency, limit=max_concurrency)
        super().__init__([server], timeout_s, tokens_per_s)

    @property
    def model(self) -> str:
        return self.served_name

    async def open(self) -> None:
        """Connect and query the served model."""
        import aiohttp

        self._session = aiohttp.ClientSession(
            headers={"Content-Type": "application/json"},
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        try:
            await self.survey()
        except BaseException:
            await self.close()
            raise

    async def look(self, server: Server) -> "Serving | Fault":
        return await look_at(self.base, self.served_name, None)

    async def complete(self, request: Request, server: Server, timeout_s: float) -> Reply:
        return await self.post(request)

    async def post(self, request: Request, token_ids: Sequence[int] | None = None) -> Reply:
        """Send one attempt; `token_ids` replace the chat."""
        assert self._session is not None, "the endpoint is closed"
        page, body = self._page_and_body(request, token_ids)
        async with self._session.post(f"{self.base}/{page}", data=json.dumps(body).encode()) as response:
            text = (await response.read()).decode("utf-8", "replace")
        if response.status != 200:
            raise fault_of_status(response.status, text, response.headers)
        return Reply(text)

    def _page_and_body(self, request: Request, token_ids: Sequence[int] | None) -> tuple[str, dict[str, Any]]:
        body = {"model": self.served_name, **_settings(request.sampling), **optional_fields(request)}
        if request.prompt is not None:
            return "completions", {**body, "prompt": request.prompt, **request.extra}
        if token_ids is not None:
            extra = {name: value for name, value in request.extra.items() if name != "chat_template_kwargs"}
            return "completions", {**body, "prompt": [token_ids], **extra}
        return "chat/completions", {**body, "messages": chat_messages(request), **request.extra}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _settings(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Return decoding settings as vLLM spells them, neutral ones too: it would take others from the model."""
    sent = {name: value for name, value in sampling.items() if value is not None}
    if sent.get("top_k") == 0:
        sent["top_k"] = -1  # all tokens, in every version of vLLM
    if not sent.get("stop"):
        sent.pop("stop", None)
    return sent
