"""Models through litellm: calls, prices and supported settings. Only this file imports litellm."""

import contextlib
import json
import logging
import os
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from service.asks.money import Price
from service.asks.redaction import name_secret
from service.asks.request import Request, chat_messages, optional_fields
from service.errors import PrerequisiteError
from service.models.settings import NEUTRAL

# litellm reads this when it is imported: the price map comes from the package, not from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import openai  # a dependency of litellm

OWN_SERVER = "hosted_vllm"
NO_KEY = "no-key-needed"  # own servers need none, but the OpenAI client insists on one
LATER_S = 5.0
"""litellm's own time-outs come so much later than the endpoint's."""
_BY_ADDRESS = ("openai", "hosted_vllm", "anthropic")  # litellm asks these at api_base and nowhere else
_WITH_COMPLETIONS = ("hosted_vllm", "openai", "text-completion-openai")
_BEYOND_OPENAI = ("top_k", "min_p", "repetition_penalty")
_UNSENT: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, **NEUTRAL}
"""The values that a provider uses for settings that it does not accept."""

litellm.suppress_debug_info = True
litellm.num_retries = None
litellm.callbacks = []
litellm.success_callback = []
litellm.failure_callback = []
for _name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Provider:
    """litellm for one model, at its provider or at the user's servers; `base` is the first address."""

    def __init__(self, spelling: str, base: str | None = None, key_env: str | None = None) -> None:
        """Find the provider of a model in litellm's spelling."""
        try:
            model, provider, _, _ = litellm.get_llm_provider(model=spelling, api_base=base)
        except litellm.exceptions.BadRequestError as error:
            raise PrerequisiteError(
                f"litellm knows no provider for the model {spelling!r}. Spell it as gpt-4-turbo, openai/NAME "
                "(any server that speaks OpenAI's protocol) or hosted_vllm/NAME."
            ) from error
        self.spelling, self.model, self.name, self.key_env = spelling, str(model), str(provider), key_env
        _register(spelling, self.name)
        known = litellm.get_supported_openai_params(model=self.model, custom_llm_provider=self.name)
        self._supported = frozenset(known or ())
        variables = [f"{self.name}_API_BASE".upper()] + ["OPENAI_BASE_URL"] * (self.name == "openai")
        self.base = base or next(filter(None, map(os.environ.get, variables)), None)
        # litellm's map does not know the models of an own server; those are tried until the server refuses.
        self._structured = "response_format" in self._supported and (
            base is not None or litellm.supports_response_schema(model=spelling)
        )
        self._text_clients: dict[str | None, openai.AsyncOpenAI] = {}
        self._fixed: dict[str, Any] = {
            "model": spelling,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": False,  # a setting that shapes responses is sent, or refused by name
            "no-log": True,
        }
        if base is not None:
            self._fixed["api_base"] = base
            if self._missing_variables():
                self._fixed["api_key"] = NO_KEY
        if key_env is not None:
            name_secret(key_env)
            self._fixed["api_key"] = self.key() or NO_KEY

    def _missing_variables(self) -> list[str]:
        missing = litellm.validate_environment(model=self.spelling).get("missing_keys", [])
        return [str(name) for name in missing]

    def key(self) -> str | None:
        """Return the key in the environment: in `key_env`, else where the provider's key belongs."""
        return os.environ.get(self.key_env or f"{self.name}_API_KEY".upper()) or None

    def check_key(self) -> None:
        """Reject a model without the address or key that it needs."""
        if self.name == OWN_SERVER and self.base is None:  # litellm would ask OpenAI
            raise PrerequisiteError(
                f"{self.spelling} needs the address of its server: --base-url http://HOST:8000/v1"
            )
        if self.key_env is not None and self.key() is None:
            raise PrerequisiteError(
                f"{self.spelling} needs an API key: set {self.key_env} in the environment."
            )
        if self.key_env is None and "api_base" not in self._fixed and (missing := self._missing_variables()):
            raise PrerequisiteError(
                f"{self.spelling} needs an API key: set {' and '.join(missing)} in the environment."
            )

    def takes_field(self, name: str) -> bool:
        """Return whether an optional field (see `prompts`) reaches the server, as far as litellm knows."""
        return self._structured if name == "response_format" else name in self._supported

    @property
    def enforces_schema(self) -> bool:
        """Whether every reply keeps to the schema: OpenAI's own models. Elsewhere a schema is a wish."""
        return self.name == "openai" and self.base is None and self._structured

    @property
    def takes_extra(self) -> bool:
        """Whether fields of one kind of server reach it: an own server with OpenAI's protocol."""
        return self.name in _WITH_COMPLETIONS and self.base is not None

    def check(self, request: Request) -> None:
        """Reject a request if the server would not receive everything that shapes responses."""
        if request.prompt is not None and self.name not in _WITH_COMPLETIONS:
            raise PrerequisiteError(
                f"{self.spelling}: {self.name} supports chat prompts only, not raw text. Use a chat prompt, "
                "or hosted_vllm/NAME with --base-url for a server that has /completions."
            )
        if request.extra and not self.takes_extra:
            raise PrerequisiteError(
                f"{self.spelling}: {self.name} does not accept {', '.join(sorted(request.extra))}. Remove it "
                "or use your own server as hosted_vllm/NAME with --base-url."
            )
        for name, value in request.sampling.items():
            neutral = _UNSENT.get(name)
            value = tuple(value) if name == "stop" else value
            if name == "max_tokens" or value in (None, neutral) or self._takes(name, value):
                continue
            way_out = f"Set it to {neutral}" if neutral is not None and neutral != () else "Remove it"
            raise PrerequisiteError(
                f"{self.spelling}: {self.name} does not accept {name} ({value}). {way_out}, or use a vLLM "
                "server as hosted_vllm/NAME with --base-url; it accepts all settings."
            )

    def _takes(self, setting: str, value: Any) -> bool:
        if setting in _BEYOND_OPENAI and self.takes_extra:
            return True
        try:
            self._optional_params({setting: value})
        except litellm.UnsupportedParamsError:
            return False
        return setting in self._supported

    def _optional_params(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = litellm.utils.get_optional_params(
            model=self.model, custom_llm_provider=self.name, drop_params=False, **settings
        )
        return params

    def body(self, request: Request, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the JSON body of a chat for a line of a batch job."""
        settings = self._optional_params(self._settings(request, without))
        settings.pop("stream", None)
        extra = settings.pop("extra_body", None) or {}
        return {"model": self.model, "messages": chat_messages(request), **settings, **extra}

    async def complete(
        self, request: Request, without: Collection[str], timeout_s: float, base: str | None
    ) -> str:
        """Send one attempt and return the reply as JSON; every failure is raised as litellm raises it."""
        settings, timeout_s = self._settings(request, without), timeout_s + LATER_S
        if request.prompt is not None:
            # litellm's own function makes a session per call that nothing closes, and knows no page for raw
            # text at hosted_vllm.
            if base not in self._text_clients:
                self._text_clients[base] = self.openai_client(timeout_s, base)
            client = self._text_clients[base]
            return _to_json(
                await client.completions.create(
                    model=self.model, prompt=request.prompt, timeout=timeout_s, **settings
                )
            )
        fixed = self._fixed if base is None else self._fixed | {"api_base": base}
        return _to_json(
            await litellm.acompletion(**fixed, timeout=timeout_s, messages=chat_messages(request), **settings)
        )

    def _settings(self, request: Request, without: Collection[str]) -> dict[str, Any]:
        given = {name: value for name, value in request.sampling.items() if value is not None}
        given["stop"] = list(given.get("stop", ())) or None
        vllm = self.name == OWN_SERVER
        if not vllm:
            # vLLM gets neutral settings too, or it would take others from the model's generation_config.
            given = {name: value for name, value in given.items() if NEUTRAL.get(name) != value}
        elif given.get("top_k") == 0:
            given["top_k"] = -1  # all tokens, in every version of vLLM
        extra = dict(request.extra)
        if self.takes_extra:
            extra = {name: given.pop(name) for name in _BEYOND_OPENAI if name in given} | extra
        optional = {name: value for name, value in optional_fields(request).items() if name not in without}
        sent = given | optional | {"extra_body": extra or None}
        return {name: value for name, value in sent.items() if value is not None}

    async def warm_up(self) -> None:
        """Let litellm load what its first call needs (a second or more), so that no time-out counts it.

        The address does not exist, so nothing is sent.
        """
        if self.name not in _BY_ADDRESS and self.name not in litellm.openai_compatible_providers:
            return
        nowhere = {**self._fixed, "api_base": "none://none", "api_key": NO_KEY, "max_tokens": 1}
        with contextlib.suppress(Exception):
            await litellm.acompletion(**nowhere, messages=[{"role": "user", "content": ""}])

    def openai_client(self, timeout_s: float, base: str | None = None) -> openai.AsyncOpenAI:
        """Return a client of OpenAI's protocol without retries; close it."""
        return openai.AsyncOpenAI(
            api_key=self.key() or NO_KEY, base_url=base or self.base, timeout=timeout_s, max_retries=0
        )

    async def close(self) -> None:
        """Close the connections for raw text; litellm keeps those for chats."""
        while self._text_clients:
            await self._text_clients.popitem()[1].close()


def _to_json(reply: Any) -> str:
    try:
        return str(reply.model_dump_json())
    except ValueError:  # pydantic cannot write half of a surrogate pair
        return json.dumps(reply.model_dump())


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
