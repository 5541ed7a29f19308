"""A model that the user chose by provider or address, asked through litellm; only this file imports it."""

import contextlib
import json
import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar
from weakref import WeakSet

from service.asks.faults import classify, shorten
from service.asks.money import Price
from service.asks.redaction import redact, remove_secrets
from service.asks.request import (
    BAD_REQUEST,
    UNKNOWN_MODEL,
    Answer,
    Fault,
    Request,
    chat_messages,
    read_reply,
    request_fields,
)
from service.asks.servers import START, ServedEndpoint, Server, Serving
from service.errors import PrerequisiteError
from service.hashing import whole_characters
from service.models.access import Model
from service.models.settings import NEUTRAL

# litellm reads this when it is imported: the price map comes from the package, not from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import httpx
import litellm
import openai  # a dependency of litellm
from litellm._internal_context import is_internal_call

AT_ONCE_PER_SERVER = 64
OWN_SERVER = "hosted_vllm"
NO_KEY = "no-key-needed"  # own servers need none, but the OpenAI client insists on one
LOOK_TIMEOUT_S = 15.0
NO_TIMEOUT_S = 1e6  # the endpoint has its own
_OPENAI = "https://api.openai.com/v1"
_WITH_COMPLETIONS = ("hosted_vllm", "openai", "text-completion-openai")
_BEYOND_OPENAI = ("top_k", "min_p", "repetition_penalty")
_DEFAULTS: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""The values that a model uses for settings that it does not accept."""
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

    def __init__(self, config: Model, price: Price | None = None) -> None:
        """Find the provider; nothing is sent."""
        self.model, self.price = config.model, price
        self.base = next(iter(config.base_url), None)
        try:
            self.name, self.provider, _, _ = litellm.get_llm_provider(model=self.model, api_base=self.base)
        except litellm.exceptions.BadRequestError as error:
            raise PrerequisiteError(
                f"litellm knows no provider for the model {self.model!r}. Spell it as gpt-4-turbo, "
                "openai/NAME (any server that speaks OpenAI's protocol) or hosted_vllm/NAME."
            ) from error
        # litellm looks a model up many times per call, and a search without a result is slow.
        if not _look_up(self.model):
            litellm.register_model({self.model: {"litellm_provider": self.provider, "mode": "chat"}})
        # litellm reads these variables too.
        variables = [f"{self.provider}_API_BASE".upper()] + ["OPENAI_BASE_URL"] * (self.provider == "openai")
        self.base = self.base or next(filter(None, map(os.environ.get, variables)), None)
        params = litellm.get_supported_openai_params(model=self.name, custom_llm_provider=self.provider)
        known = frozenset(params or ())
        self._lacks, self._left_out = _COMPLAINTS.keys() - known, set[str]()
        # litellm's map does not know the models of an own server; those are tried until the server refuses.
        if self.base is None and not litellm.supports_response_schema(model=self.model):
            self._lacks.add("response_format")
        # vLLM gets neutral settings too, as it would take others from the model.
        sent = {*_DEFAULTS} if self.provider == OWN_SERVER else {"temperature", "top_p"} & known
        self._neutral = {name: value for name, value in _DEFAULTS.items() if name not in sent}
        # OpenAI's own models enforce it; elsewhere a schema is a wish.
        self.enforces_schema = self.provider == "openai" and not self.base and self.takes("response_format")
        # An own server with OpenAI's protocol gets the fields that only such servers know.
        self._takes_extra = self.provider in _WITH_COMPLETIONS and self.base is not None
        self._beyond = [name for name in _BEYOND_OPENAI if self._takes_extra or name not in known]
        self.key = os.environ.get(config.api_key_env or f"{self.provider}_API_KEY".upper()) or None
        self._fixed: dict[str, Any] = {
            "model": self.model,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": False,  # a setting that shapes responses is sent, or refused by name
            "no-log": True,
            "timeout": NO_TIMEOUT_S,
        }
        self._missing = litellm.validate_environment(model=self.model).get("missing_keys") or []
        if config.api_key_env or (config.base_url and self._missing):
            self._fixed["api_key"], self._missing = self.key or NO_KEY, []
        most = config.max_concurrency or AT_ONCE_PER_SERVER
        bases = config.base_url or (self.base,)
        servers = [Server(each, redact(each or self.model), most, min(START, most)) for each in bases]
        super().__init__(servers, config.timeout_s, config.tokens_per_s)
        self.where = " and ".join(server.where for server in servers)

    @property
    def description(self) -> dict[str, Any]:
        return {"sampler": "remote", "provider": self.provider, **self.serving}

    @property
    def notices(self) -> list[str]:
        return [
            f"{self.model} does not accept {name}: {_COMPLAINTS[name][1]}." for name in sorted(self._left_out)
        ]

    def takes(self, field: str) -> bool:
        return field not in self._lacks

    async def open(self) -> None:
        """Check the key, ask servers what they serve, and load what litellm's first call needs."""
        if self.provider == OWN_SERVER and self.base is None:  # litellm would ask OpenAI
            raise PrerequisiteError(
                f"{self.model} needs the address of its server: --base-url http://HOST:8000/v1"
            )
        if self._missing:
            variables = " and ".join(self._missing)
            raise PrerequisiteError(f"{self.model} needs an API key: set {variables} in the environment.")
        self._in_use.add(self)
        if self.base is not None or self.provider == "openai":  # others have no list of models in its form
            await self.survey()
        if self.base is not None:
            # The first call takes a second or more; nothing is sent, as the address does not exist.
            nowhere = {**self._fixed, "api_base": "none://none", "api_key": NO_KEY, "max_tokens": 1}
            with contextlib.suppress(Exception):
                await litellm.acompletion(**nowhere, messages=[{"role": "user", "content": ""}])

    async def look(self, server: Server) -> Serving | Fault:
        """Query what a server serves, at no cost; return the fault that a request would also get."""
        base = (server.base or _OPENAI).rstrip("/")
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            async with httpx.AsyncClient(timeout=LOOK_TIMEOUT_S, headers=headers) as http:
                response = await http.get(f"{base}/models")
                described = await http.get(f"{base.removesuffix('/v1')}/version")
            has_list = response.status_code != 404  # 404: a server without this page
            listed = response.raise_for_status().json()["data"] if has_list else []
            entries: dict[str, dict[str, Any]] = {str(entry["id"]): entry for entry in listed}
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fault = classify(error)
            return replace(fault, message=f"{base}/models cannot be used ({str(fault).rstrip('.')})")
        except (ValueError, KeyError, TypeError):
            words = f"{base} does not speak OpenAI's protocol: {shorten(response.text)}"
            return Fault(UNKNOWN_MODEL, words)
        if entries and self.name not in entries:
            names = ", ".join(list(entries)[:10])
            return Fault(UNKNOWN_MODEL, f"{base} does not serve the model {self.name!r}. It serves: {names}")
        fields = {"engine": "owned_by", "root": "root", "max_model_len": "max_model_len"}
        serving = {name: entries.get(self.name, {}).get(field) for name, field in fields.items()}
        with contextlib.suppress(ValueError, AttributeError):  # a server without this page
            serving["version"] = described.json().get("version")
        return {name: value for name, value in serving.items() if value and isinstance(value, str | int)}

    def check(self, request: Request) -> None:
        if request.prompt is not None and self.provider not in _WITH_COMPLETIONS:
            raise PrerequisiteError(
                f"{self.model}: {self.provider} supports chat prompts only, not raw text. Use a chat "
                "prompt, or hosted_vllm/NAME with --base-url for a server that has /completions."
            )
        settings = self._settings(request)
        refused = {} if self._takes_extra else settings.pop("extra_body", {})
        for name, value in settings.items():
            try:
                self._optional_params({name: value})
            except litellm.UnsupportedParamsError:
                refused[name] = value
        if refused:
            name, value = next(iter(refused.items()))
            neutral = _DEFAULTS.get(name)
            way_out = "Remove it" if neutral in (None, ()) else f"Set it to {neutral}"
            raise PrerequisiteError(
                f"{self.model}: {self.provider} does not accept {name} ({value}). {way_out}, or use a "
                "vLLM server as hosted_vllm/NAME with --base-url; it accepts all settings."
            )

    def _optional_params(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = litellm.utils.get_optional_params(
            model=self.name, custom_llm_provider=self.provider, drop_params=False, **settings
        )
        return params

    def batch_body(self, request: Request) -> str:
        """Return the JSON body of a chat for a line of a batch job."""
        settings = self._optional_params(self._settings(request))
        settings.pop("stream", None)
        extra = settings.pop("extra_body", None) or {}
        return json.dumps({"model": self.name, "messages": chat_messages(request), **settings, **extra})

    async def complete(self, request: Request, server: Server) -> Answer:
        """Send one attempt, and again without an optional field that the server refuses."""
        while True:
            settings = self._settings(request)
            try:
                reply = await self._send(request, settings, server.base)
            except Exception as error:
                if not self.learn_refused(classify(error), settings):
                    raise
            else:  # pydantic's own JSON cannot hold half of a surrogate pair
                return self.read(json.dumps(reply.model_dump(mode="json"), ensure_ascii=False))

    async def _send(self, request: Request, settings: Mapping[str, Any], base: str | None) -> Any:
        if request.prompt is None:
            is_internal_call.set(True)  # nobody reads the records that litellm makes of a call
            messages = chat_messages(request)
            return await litellm.acompletion(**self._fixed, api_base=base, messages=messages, **settings)
        # litellm's own function makes a session per call that nothing closes, and knows no page for raw text
        # at hosted_vllm.
        client = self.client.with_options(base_url=base)
        return await client.completions.create(
            model=self.name, prompt=request.prompt, timeout=NO_TIMEOUT_S, **settings
        )

    def _settings(self, request: Request) -> dict[str, Any]:
        """Return the fields next to the model and the messages, without those that the server refuses."""
        fields = request_fields(request)
        self._left_out |= fields.keys() & self._lacks
        given = {
            name: value
            for name, value in fields.items()
            if self.takes(name) and request.sampling.get(name, name) != self._neutral.get(name)
        }
        extra = {name: given.pop(name) for name in self._beyond if name in given} | dict(request.extra)
        return given | ({"extra_body": extra} if extra else {})

    def read(self, body: str) -> Answer:
        """Read a reply without keys of the environment and without half characters."""
        return read_reply(remove_secrets(whole_characters(body)), seeded=self.takes("seed"))

    def learn_refused(self, fault: Fault, sent: Collection[str] = tuple(_COMPLAINTS)) -> bool:
        """Remember the optional fields that a server complains about; return whether some were sent."""
        refused = {
            name
            for name, (words, _) in _COMPLAINTS.items()
            if name in sent and re.search(words, fault.message, re.IGNORECASE)
        }
        if fault.kind != BAD_REQUEST or not refused:
            return False
        self._lacks |= refused
        self._left_out |= refused
        return True

    @cached_property
    def client(self) -> openai.AsyncOpenAI:
        """A client of OpenAI's protocol without retries, for raw text and batch jobs."""
        return openai.AsyncOpenAI(
            api_key=self.key or NO_KEY, base_url=self.base, timeout=120.0, max_retries=0
        )

    async def close(self) -> None:
        """Close the connections; the last open endpoint also closes those that litellm keeps for all."""
        if "client" in vars(self):
            await self.client.close()
        self._in_use.discard(self)
        if not self._in_use:
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()


@lru_cache(maxsize=1024)
def _look_up(model: str) -> Any:
    """Return what litellm's map knows of a model."""
    try:
        return litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for unknown models
        return {}


def known_price(model: str) -> Price | None:
    """Return the price in litellm's map, or None.

    Two zeros mean nothing: litellm also writes 0 for prices that it does not know (its issue 20412).
    """
    prompt, completion = map(_look_up(model).get, ("input_cost_per_token", "output_cost_per_token"))
    if prompt is None or completion is None or (prompt == 0 and completion == 0):
        return None
    return Price(float(prompt), float(completion)).scaled(1e6)
