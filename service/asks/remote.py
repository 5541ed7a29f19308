"""A model that the user chose by provider or address, asked through litellm; only this file imports it."""

import contextlib
import json
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar
from weakref import WeakSet

from service.asks.faults import classify
from service.asks.money import Price
from service.asks.redaction import name_secret, redact, redact_values, secret_values
from service.asks.request import (
    BAD_REQUEST,
    Answer,
    Fault,
    Request,
    chat_messages,
    optional_fields,
    read_reply,
)
from service.asks.servers import ServedEndpoint, Server, Serving, look_at, vllm_settings
from service.errors import PrerequisiteError
from service.hashing import whole_characters
from service.models.settings import NEUTRAL, TOKENS_PER_S

# litellm reads this when it is imported: the price map comes from the package, not from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import openai  # a dependency of litellm
from litellm._internal_context import is_internal_call

OWN_SERVER = "hosted_vllm"
NO_KEY = "no-key-needed"  # own servers need none, but the OpenAI client insists on one
LATER_S = 5.0
"""litellm's own time-outs come so much later than the endpoint's."""
_OPENAI = "https://api.openai.com/v1"
_BY_ADDRESS = ("openai", "hosted_vllm", "anthropic")  # litellm asks these at api_base and nowhere else
_WITH_COMPLETIONS = ("hosted_vllm", "openai", "text-completion-openai")
_BEYOND_OPENAI = ("top_k", "min_p", "repetition_penalty")
_UNSENT: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""The values that a provider uses for settings that it does not accept."""
_COMPLAINTS = {
    "seed": (r"\bseed\b", "the run cannot be repeated exactly"),
    "n": (
        r"['\"`]n['\"`]|\bn (?:must|should|is|>|=)|multiple (?:completions|choices)",
        "tagrpo sends one request per response",
    ),
    "response_format": (
        r"response_format|json_schema|structured output|guided",
        "only the prompt requests structured output",
    ),
}
"""By optional field the words of a server that refuses it, and what follows."""

litellm.suppress_debug_info = True
for _name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class RemoteEndpoint(ServedEndpoint):
    """One model at its provider, or at the least loaded of several servers."""

    model = ""  # as litellm spells it
    _in_use: ClassVar[WeakSet["RemoteEndpoint"]] = WeakSet()  # open ones; litellm's clients serve them all

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
        """Find the provider; nothing is sent.

        `spelling` is litellm's (`hosted_vllm/Qwen/Qwen3-4B`), `bases` are addresses of own servers of the
        model, `key_env` is the environment variable with the key; for the rest see `ServedEndpoint`.
        """
        base = bases[0] if bases else None
        try:
            name, provider, _, _ = litellm.get_llm_provider(model=spelling, api_base=base)
        except litellm.exceptions.BadRequestError as error:
            raise PrerequisiteError(
                f"litellm knows no provider for the model {spelling!r}. Spell it as gpt-4-turbo, openai/NAME "
                "(any server that speaks OpenAI's protocol) or hosted_vllm/NAME."
            ) from error
        self.model, self.price, self.bases = spelling, price, tuple(bases)
        self.name, self.provider, self._key_env = str(name), str(provider), key_env
        self.where = redact(" and ".join(bases) or spelling)
        _register(spelling, self.provider)
        known = litellm.get_supported_openai_params(model=self.name, custom_llm_provider=self.provider)
        self._supported = frozenset(known or ())
        variables = [f"{provider}_API_BASE".upper()] + ["OPENAI_BASE_URL"] * (provider == "openai")
        self.base = base or next(filter(None, map(os.environ.get, variables)), None)
        # litellm's map does not know the models of an own server; those are tried until the server refuses.
        self._structured = "response_format" in self._supported and (
            base is not None or litellm.supports_response_schema(model=spelling)
        )
        # An own server with OpenAI's protocol gets the fields that only such servers know.
        self._takes_extra = provider in _WITH_COMPLETIONS and self.base is not None
        self._refused: set[str] = set()
        self._text_clients: dict[str | None, openai.AsyncOpenAI] = {}
        self._fixed: dict[str, Any] = {
            "model": spelling,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": False,  # a setting that shapes responses is sent, or refused by name
            "no-log": True,
        }
        self._missing = [*litellm.validate_environment(model=spelling).get("missing_keys", [])]
        if base is not None:
            self._fixed |= {"api_base": base} | ({"api_key": NO_KEY} if self._missing else {})
            self._missing = []
        if key_env is not None:
            name_secret(key_env)
            self._fixed["api_key"] = self.key or NO_KEY
            self._missing = [] if self.key else [key_env]
        self._secrets = secret_values()
        servers = [Server(each, redact(each or spelling), max_concurrency) for each in bases or (None,)]
        super().__init__(servers, timeout_s, tokens_per_s)

    @property
    def key(self) -> str | None:
        """The key in the environment: in `key_env`, else where the provider's key belongs."""
        return os.environ.get(self._key_env or f"{self.provider}_API_KEY".upper()) or None

    @property
    def description(self) -> dict[str, Any]:
        return {"sampler": "remote", "provider": self.provider, **self.serving}

    @property
    def enforces_schema(self) -> bool:
        """OpenAI's own models do; elsewhere a schema is a wish."""
        return self.provider == "openai" and self.base is None and self._structured

    @property
    def notices(self) -> list[str]:
        return [
            f"{self.model} does not accept {name}: {_COMPLAINTS[name][1]}." for name in sorted(self._refused)
        ]

    def takes(self, field: str) -> bool:
        known = self._structured if field == "response_format" else field in self._supported
        return known and field not in self._refused

    async def open(self) -> None:
        """Check the key, load what litellm's first call needs, and ask servers what they serve."""
        if self.provider == OWN_SERVER and self.base is None:  # litellm would ask OpenAI
            raise PrerequisiteError(
                f"{self.model} needs the address of its server: --base-url http://HOST:8000/v1"
            )
        if self._missing:
            variables = " and ".join(self._missing)
            raise PrerequisiteError(f"{self.model} needs an API key: set {variables} in the environment.")
        self._in_use.add(self)
        if self.provider in _BY_ADDRESS or self.provider in litellm.openai_compatible_providers:
            # The first call takes a second or more; nothing is sent, as the address does not exist.
            nowhere = {**self._fixed, "api_base": "none://none", "api_key": NO_KEY, "max_tokens": 1}
            with contextlib.suppress(Exception):
                await litellm.acompletion(**nowhere, messages=[{"role": "user", "content": ""}])
        if self.base is not None or self.provider == "openai":  # others have no list of models in its form
            await self.survey()

    async def look(self, server: Server) -> Serving | Fault:
        return await look_at((server.base or self.base or _OPENAI).rstrip("/"), self.name, self.key)

    def check(self, request: Request) -> None:
        if request.prompt is not None and self.provider not in _WITH_COMPLETIONS:
            raise PrerequisiteError(
                f"{self.model}: {self.provider} supports chat prompts only, not raw text. Use a chat "
                "prompt, or hosted_vllm/NAME with --base-url for a server that has /completions."
            )
        if request.extra and not self._takes_extra:
            raise PrerequisiteError(
                f"{self.model}: {self.provider} does not accept {', '.join(sorted(request.extra))}. "
                "Remove it or use your own server as hosted_vllm/NAME with --base-url."
            )
        for name, value in request.sampling.items():
            neutral = _UNSENT.get(name)
            value = tuple(value) if name == "stop" else value
            if name == "max_tokens" or value in (None, neutral) or self._takes_setting(name, value):
                continue
            way_out = f"Set it to {neutral}" if neutral is not None and neutral != () else "Remove it"
            raise PrerequisiteError(
                f"{self.model}: {self.provider} does not accept {name} ({value}). {way_out}, or use a "
                "vLLM server as hosted_vllm/NAME with --base-url; it accepts all settings."
            )

    def _takes_setting(self, name: str, value: Any) -> bool:
        try:
            self._optional_params({name: value})
        except litellm.UnsupportedParamsError:
            return False
        return name in self._supported or (name in _BEYOND_OPENAI and self._takes_extra)

    def _optional_params(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = litellm.utils.get_optional_params(
            model=self.name, custom_llm_provider=self.provider, drop_params=False, **settings
        )
        return params

    def batch_body(self, request: Request) -> str:
        """Return the JSON body of a chat for a line of a batch job."""
        settings = self._optional_params(self._settings(request, self._leave_out(request)))
        settings.pop("stream", None)
        extra = settings.pop("extra_body", None) or {}
        return json.dumps({"model": self.name, "messages": chat_messages(request), **settings, **extra})

    async def complete(self, request: Request, server: Server, timeout_s: float) -> Answer:
        """Send one attempt, and again without an optional field that the server refuses."""
        while True:
            without = self._leave_out(request)
            settings = self._settings(request, without) | {"timeout": timeout_s + LATER_S}
            try:
                reply = await self._send(request, settings, server.base)
            except Exception as error:
                if not self.learn_refused(request, without, classify(error)):
                    raise
            else:  # pydantic's own JSON cannot hold half of a surrogate pair
                body = json.dumps(reply.model_dump(mode="json"), ensure_ascii=False)
                return self.read(body, seeded="seed" not in without)

    async def _send(self, request: Request, settings: Mapping[str, Any], base: str | None) -> Any:
        if request.prompt is None:
            is_internal_call.set(True)  # nobody reads the records that litellm makes of a call
            fixed = self._fixed if base is None else self._fixed | {"api_base": base}
            return await litellm.acompletion(**fixed, messages=chat_messages(request), **settings)
        # litellm's own function makes a session per call that nothing closes, and knows no page for raw text
        # at hosted_vllm.
        if base not in self._text_clients:
            self._text_clients[base] = self.openai_client(base)
        return await self._text_clients[base].completions.create(
            model=self.name, prompt=request.prompt, **settings
        )

    def _settings(self, request: Request, without: Collection[str]) -> dict[str, Any]:
        given = vllm_settings(request.sampling)
        if self.provider != OWN_SERVER:
            given = {
                name: each for name, each in given.items() if request.sampling[name] != NEUTRAL.get(name)
            }
        extra = dict(request.extra)
        if self._takes_extra:
            extra = {name: given.pop(name) for name in _BEYOND_OPENAI if name in given} | extra
        optional = {name: value for name, value in optional_fields(request).items() if name not in without}
        return given | optional | ({"extra_body": extra} if extra else {})

    def read(self, body: str, *, seeded: bool) -> Answer:
        """Read a reply without keys of the environment and without half characters."""
        return read_reply(redact_values(whole_characters(body), self._secrets), seeded=seeded)

    def _leave_out(self, request: Request) -> set[str]:
        """Return the optional fields of the request that the server does not accept, and note them."""
        without = {name for name in optional_fields(request) if not self.takes(name)}
        self._refused |= without
        return without

    def learn_refused(self, request: Request, without: Collection[str], fault: Fault) -> bool:
        """Remember the optional fields that a server complains about; return whether there are new ones."""
        if fault.kind != BAD_REQUEST:
            return False
        sent = optional_fields(request).keys() - without
        refused = {name for name in sent if re.search(_COMPLAINTS[name][0], fault.message, re.IGNORECASE)}
        self._refused |= refused
        return bool(refused)

    def openai_client(self, base: str | None = None) -> openai.AsyncOpenAI:
        """Return a client of OpenAI's protocol without retries; close it."""
        return openai.AsyncOpenAI(
            api_key=self.key or NO_KEY, base_url=base or self.base, timeout=120.0, max_retries=0
        )

    async def close(self) -> None:
        """Close the connections; the last open endpoint also closes those that litellm keeps for all."""
        while self._text_clients:
            await self._text_clients.popitem()[1].close()
        self._in_use.discard(self)
        if not self._in_use:
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()


def _register(model: str, provider: str) -> None:
    """Enter a model without a price in litellm's map if it has no entry.

    litellm looks a model up many times per call; a search without a result takes a good part of the call.
    """
    try:
        litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for unknown models
        litellm.register_model({model: {"litellm_provider": provider, "mode": "chat"}})


@lru_cache(maxsize=1024)
def known_price(model: str) -> Price | None:
    """Return the price in litellm's map, or None.

    Two zeros mean nothing: litellm also writes 0 for prices that it does not know (its issue 20412).
    """
    try:
        info = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for unknown models
        return None
    prompt, completion = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if prompt is None or completion is None or (prompt == 0 and completion == 0):
        return None
    return Price(float(prompt), float(completion)).scaled(1e6)
