"""A model that the user chose by provider or address, reached through litellm."""

import asyncio
import importlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from service.asks.faults import classify
from service.asks.money import Price
from service.asks.redaction import redact, redact_values, secret_values
from service.asks.request import BAD_REQUEST, Fault, Reply, Request, optional_fields
from service.asks.servers import ServedEndpoint, Server, Serving, look_at
from service.hashing import whole_characters
from service.models.settings import TOKENS_PER_S

if TYPE_CHECKING:
    from service.asks.providers import Provider

_OPENAI = "https://api.openai.com/v1"
_COMPLAINTS = {
    "seed": re.compile(r"\bseed\b", re.IGNORECASE),
    "n": re.compile(
        r"['\"`]n['\"`]|\bn (?:must|should|is|>|=)|multiple (?:completions|choices)", re.IGNORECASE
    ),
    "response_format": re.compile(r"response_format|json_schema|structured output|guided", re.IGNORECASE),
}
_CONSEQUENCES = {
    "seed": "the run cannot be repeated exactly",
    "n": "tagrpo sends one request per response",
    "response_format": "only the prompt requests structured output",
}


class RemoteEndpoint(ServedEndpoint):
    """One model at its provider, or at the least loaded of several servers."""

    def __init__(
        self,
        spelling: str,
        bases: Sequence[str] = (),
        *,
        price: Price | None = None,
        max_concurrency: int = 64,
        timeout_s: float | None = None,
        tokens_per_s: float = TOKENS_PER_S,
        key_env: str | None = None,
    ) -> None:
        """Set up; nothing is imported or sent.

        `spelling` is litellm's (`hosted_vllm/Qwen/Qwen3-4B`), `bases` are addresses of own servers of the
        model, `key_env` is the environment variable with the key; for the rest see `ServedEndpoint`.
        """
        self.spelling, self.price = spelling, price
        self.bases = tuple(bases)
        self.where = redact(" and ".join(self.bases) or spelling)
        self._key_env = key_env
        self.provider: Provider
        """What litellm knows of the model, once it is loaded; see `Provider.check`."""
        self._refused: set[str] = set()
        self._left_out: set[str] = set()
        self._secrets: tuple[str, ...] = ()
        addresses = self.bases or (None,)
        servers = [Server(base, redact(base or spelling), max_concurrency) for base in addresses]
        super().__init__(servers, timeout_s, tokens_per_s)

    async def open(self) -> None:
        """Load litellm, check the key, and ask servers what they serve; nothing is paid."""
        await self.load()
        provider = self.provider
        provider.check_key()
        await provider.warm_up()
        if provider.base is None and provider.name != "openai":
            return  # no list of models in OpenAI's form
        await self.survey()

    async def load(self) -> None:
        """Load litellm, in a thread as it takes seconds; enough for `provider`, and nothing is sent."""
        module = await asyncio.to_thread(importlib.import_module, "service.asks.providers")
        self.provider = module.Provider(self.spelling, self.servers[0].base, self._key_env)
        self._secrets = secret_values()

    @property
    def model(self) -> str:
        return self.spelling

    @property
    def description(self) -> dict[str, Any]:
        return {"sampler": "remote", "provider": self.provider.name, **self.serving}

    def check(self, request: Request) -> None:
        self.provider.check(request)

    @property
    def enforces_schema(self) -> bool:
        return self.provider.enforces_schema

    def takes(self, field: str) -> bool:
        return field not in self._refused and self.provider.takes_field(field)

    async def look(self, server: Server) -> Serving | Fault:
        base = server.base or self.provider.base or _OPENAI
        return await look_at(base.rstrip("/"), self.provider.model, self.provider.key())

    async def complete(self, request: Request, server: Server, timeout_s: float) -> Reply:
        """Send one attempt, and again without an optional field that the server refuses."""
        while True:
            without = self.leave_out(request)
            try:
                body = await self.provider.complete(request, without, timeout_s, server.base)
            except Exception as error:
                if not self.learn_refused(request, without, classify(error)):
                    raise
            else:
                return Reply(self.redact(body), seeded="seed" not in without)

    def redact(self, body: str) -> str:
        """Return a reply without keys of the environment and without half characters."""
        return redact_values(whole_characters(body), self._secrets)

    def leave_out(self, request: Request) -> set[str]:
        """Return the optional fields of the request that the server does not accept, and note them."""
        without = {name for name in optional_fields(request) if not self.takes(name)}
        self._left_out |= without
        return without

    def learn_refused(self, request: Request, without: set[str], fault: Fault) -> bool:
        """Remember the optional fields that a server complains about; return whether there are new ones."""
        if fault.kind != BAD_REQUEST:
            return False
        sent = optional_fields(request).keys() - without
        refused = {name for name in sent if _COMPLAINTS[name].search(fault.message)}
        self._refused |= refused
        return bool(refused)

    @property
    def notices(self) -> list[str]:
        return [
            f"{self.spelling} does not accept {name}: {_CONSEQUENCES[name]}."
            for name in sorted(self._left_out | self._refused)
        ]

    async def close(self) -> None:
        if hasattr(self, "provider"):  # it was loaded
            await self.provider.close()
