"""The only file that imports litellm: calls, prices and abilities of models, without its own retries."""

import contextlib
import logging
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from service.errors import PrerequisiteError
from service.models.remote.chat import ChatRequest, Endpoint, Message
from service.models.remote.redaction import name_secret
from service.models.settings import NEUTRAL
from service.questions.images import data_address

# Read by litellm when it is imported: its price map comes from the package, not from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import openai  # comes with litellm

try:
    # litellm's mark for calls that are not to be logged. Without it each answer is prepared for loggers that
    # do not exist; where another version of litellm lacks the mark, only the time for that is lost.
    from litellm._internal_context import is_internal_call as _unlogged
except ImportError:
    _unlogged = None

OWN_SERVER = "hosted_vllm"
NO_KEY = "no-key-needed"  # servers of one's own ask for none, the OpenAI client insists on one
_BY_ADDRESS = ("openai", "hosted_vllm", "anthropic")  # asked at api_base and nowhere else
_WITH_COMPLETIONS = ("hosted_vllm", "openai", "text-completion-openai")
_WITH_EXTRA_BODY = ("hosted_vllm", "openai", "text-completion-openai")
LATER_S = 5.0  # litellm's own time-outs only stand behind ours

litellm.suppress_debug_info = True
litellm.num_retries = None
litellm.callbacks = []
litellm.success_callback = []
litellm.failure_callback = []
for _name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Backend:
    """litellm for one endpoint. Fields a server refuses are remembered and left out afterwards."""

    def __init__(self, endpoint: Endpoint, model: str, provider: str) -> None:
        """Look up what litellm knows of `model`, named as the provider names it."""
        self.endpoint, self.model, self.provider = endpoint, model, provider
        self.supported = frozenset(
            litellm.get_supported_openai_params(model=self.model, custom_llm_provider=self.provider) or ()
        )
        self.refused: set[str] = set()
        self._text_client: openai.AsyncOpenAI | None = None
        own_server = endpoint.api_base is not None
        # litellm's map does not know models of one's own server; those are tried until the server refuses.
        self.structured = "response_format" in self.supported and (
            own_server or litellm.supports_response_schema(model=endpoint.model)
        )
        self._fixed: dict[str, Any] = {
            "model": endpoint.model,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": False,  # what decides the distribution is sent, or refused by name
            "no-log": True,
        }
        if own_server:
            self._fixed["api_base"] = endpoint.api_base
            if self._missing:
                self._fixed["api_key"] = NO_KEY
        if endpoint.key_env is not None:
            name_secret(endpoint.key_env)
            self._fixed["api_key"] = self.key() or NO_KEY

    @property
    def _missing(self) -> list[str]:
        """The environment variables that litellm would need and does not find."""
        environment = litellm.validate_environment(model=self.endpoint.model)
        return [str(name) for name in environment.get("missing_keys", [])]

    def key(self) -> str | None:
        """Return the key that the environment holds for this endpoint, else for this provider, or None."""
        return os.environ.get(self.endpoint.key_env or f"{self.provider}_API_KEY".upper()) or None

    def missing_key(self) -> str | None:
        """Return what has to be told before this model can be asked, or None."""
        if self.provider == OWN_SERVER and self.base is None:  # litellm would ask OpenAI
            return f"{self.endpoint.model} needs the address of its server: --api-base http://HOST:8000/v1"
        if self.endpoint.key_env is not None or self.endpoint.api_base is not None or not self._missing:
            return None
        return f"{self.endpoint.model} needs a key: set {' and '.join(self._missing)} in the environment"

    def sends(self, field: str) -> bool:
        """Return whether a field of the request reaches the server."""
        if field == "response_format" and not self.structured:
            return False
        return field in self.supported and field not in self.refused

    @property
    def enforces_schema(self) -> bool:
        """Whether the provider itself keeps every answer to a schema: OpenAI, for models that litellm names.

        Of other providers litellm says the same where a schema is a tool's, or no more than a wish; a server
        of one's own may have any model behind it.
        """
        return self.provider == "openai" and self.base is None and self.structured

    @property
    def takes_raw_text(self) -> bool:
        """Whether litellm reaches a page of this provider where raw text is continued."""
        return self.provider in _WITH_COMPLETIONS

    @property
    def takes_extra(self) -> bool:
        """Whether fields of a server's own reach it: a server of one's own that speaks OpenAI's protocol."""
        return self.provider in _WITH_EXTRA_BODY and self.base is not None

    @property
    def base(self) -> str | None:
        """The address of an own server, given or in litellm's environment variables; None: a provider's."""
        names = ["OPENAI_BASE_URL"] if self.provider == "openai" else []
        names.append(f"{self.provider}_API_BASE".upper())
        return self.endpoint.api_base or next(filter(None, map(os.environ.get, names)), None)

    def arguments(self, request: ChatRequest) -> dict[str, Any]:
        """Return the arguments of `litellm.acompletion`."""
        return {
            **self._fixed,
            "timeout": self.endpoint.attempt_s(request.max_tokens) + LATER_S,
            "messages": _messages(request),
            **self._settings(request),
        }

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of the HTTP request, as a line of a batch job holds it."""
        settings = litellm.utils.get_optional_params(
            model=self.model, custom_llm_provider=self.provider, drop_params=False, **self._settings(request)
        )
        settings.pop("stream", None)
        extra = settings.pop("extra_body", None) or {}
        return {"model": self.model, "messages": _messages(request), **settings, **extra}

    def _settings(self, request: ChatRequest) -> dict[str, Any]:
        left_out = {  # where the provider does not know them
            "n": request.n if request.n != 1 else None,
            "seed": request.seed,
            "response_format": response_format(request.response_schema),
        }
        own, extra = self._own_settings(request), dict(request.extra)
        if self.takes_extra:
            own, extra = {}, {**own, **extra}
        decoding = {
            "max_tokens": request.max_tokens,  # litellm spells it as the provider wants it
            "temperature": request.temperature,
            "top_p": request.top_p,
            "presence_penalty": self._penalty(request.presence_penalty),
            "frequency_penalty": self._penalty(request.frequency_penalty),
            "stop": list(request.stop) or None,
            **own,
            "extra_body": extra or None,
        }
        sent = {field: value for field, value in left_out.items() if self.sends(field)} | decoding
        return {field: value for field, value in sent.items() if value is not None}

    def _penalty(self, value: float | None) -> float | None:
        """Return a penalty as it is sent; one of 0 to vLLM alone, for the reason of `_own_settings`."""
        return value if value or self.provider == OWN_SERVER else None

    def _own_settings(self, request: ChatRequest) -> dict[str, Any]:
        """Return the settings that OpenAI's protocol lacks.

        vLLM fills those that are not sent from the model's `generation_config`, so neutral ones are sent too.
        """
        given = {name: getattr(request, name) for name in ("top_k", "min_p", "repetition_penalty")}
        neutral = {name for name in given if self.provider != OWN_SERVER and given[name] == NEUTRAL[name]}
        if given["top_k"] == 0:
            given["top_k"] = -1  # all tokens, in vLLM's versions before and since 0.9
        return {name: value for name, value in given.items() if value is not None and name not in neutral}

    def takes(self, setting: str, value: Any) -> bool:
        """Return whether a setting of this value reaches the server, as far as litellm knows."""
        if setting in ("top_k", "min_p", "repetition_penalty") and self.takes_extra:
            return True
        try:
            litellm.utils.get_optional_params(
                model=self.model, custom_llm_provider=self.provider, drop_params=False, **{setting: value}
            )
        except litellm.UnsupportedParamsError:
            return False
        return setting in self.supported

    def forget_refused(self, request: ChatRequest, complaint: str) -> bool:
        """Leave a field out from now on that the server complains about; return whether to try again.

        Only fields whose absence changes no answer's meaning: the messages ask for structured output too, and
        without seed the answers are drawn anew. Other settings are the user's to change.
        """
        words = {
            "response_format": ("response_format", "json_schema", "structured output", "guided"),
            "seed": ("seed",),
        }
        sent = {"response_format": request.response_schema, "seed": request.seed}
        complained = [
            field
            for field, names in words.items()
            if sent[field] is not None and any(name in complaint.lower() for name in names)
        ]
        self.refused.update(complained)
        return bool(complained)

    async def warm_up(self) -> None:
        """Load what litellm loads at the first call (a second or more), so that no time-out counts it.

        The address is none, so the call fails before anything is sent.
        """
        if self.provider not in _BY_ADDRESS and self.provider not in litellm.openai_compatible_providers:
            return
        nowhere = {**self._fixed, "api_base": "none://none", "api_key": NO_KEY, "max_tokens": 1}
        with contextlib.suppress(Exception):
            await litellm.acompletion(**nowhere, messages=[{"role": "user", "content": ""}])

    async def complete(self, request: ChatRequest) -> Any:
        """Ask once; return litellm's `ModelResponse`, for raw text OpenAI's `Completion`, or raise."""
        if request.prompt is not None:
            return await self._texts().completions.create(
                model=self.model,
                prompt=request.prompt,
                timeout=self.endpoint.attempt_s(request.max_tokens) + LATER_S,
                **self._settings(request),
            )
        if _unlogged is None:
            return await litellm.acompletion(**self.arguments(request))
        token = _unlogged.set(True)
        try:
            return await litellm.acompletion(**self.arguments(request))
        finally:
            _unlogged.reset(token)

    def _texts(self) -> openai.AsyncOpenAI:
        """Return the client for raw text, as litellm is built on it.

        litellm's own function would make a session for each call that nobody closes, and knows no page for
        raw text at hosted_vllm.
        """
        if self._text_client is None:
            self._text_client = self.openai_client()
        return self._text_client

    def openai_client(self) -> openai.AsyncOpenAI:
        """Return a client of OpenAI's protocol for the endpoint; close it."""
        return openai.AsyncOpenAI(
            api_key=self.key() or NO_KEY,
            base_url=self.base,
            timeout=self.endpoint.attempt_s(0) + LATER_S,
            max_retries=0,
        )

    async def close(self) -> None:
        """Close the connections for raw text; litellm keeps those for chats."""
        client, self._text_client = self._text_client, None
        if client is not None:
            await client.close()


def open_backend(endpoint: Endpoint) -> Backend:
    """Return litellm for the endpoint.

    Raises:
        PrerequisiteError: litellm knows no provider for the model's spelling.
    """
    try:
        model, provider, _, _ = litellm.get_llm_provider(model=endpoint.model, api_base=endpoint.api_base)
    except litellm.exceptions.BadRequestError as error:
        raise PrerequisiteError(
            f"model {endpoint.model!r} has no provider that litellm knows: spell it as in gpt-4-turbo, "
            "openai/NAME (any server that speaks OpenAI's protocol) or hosted_vllm/NAME."
        ) from error
    _register(endpoint.model, str(provider))
    return Backend(endpoint, str(model), str(provider))


def _register(model: str, provider: str) -> None:
    """Enter a model in litellm's map, without a price, where it has no entry.

    litellm looks a model up many times in each call, and searching in vain is a good part of the call's time.
    """
    try:
        litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for models that it does not know
        litellm.register_model({model: {"litellm_provider": provider, "mode": "chat"}})


def _messages(request: ChatRequest) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": _content(message)} for message in request.messages]


def _content(message: Message) -> str | list[dict[str, Any]]:
    """Return a message's text, or with images OpenAI's list of parts."""
    if not message.parts:
        return message.content
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_address(part)}}
        for part in message.parts
    ]


def response_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return OpenAI's `response_format` for a JSON Schema."""
    if schema is None:
        return None
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)},
    }


@lru_cache(maxsize=1024)
def known_price(model: str) -> tuple[float, float] | None:
    """Return litellm's USD a token of prompt and of answer from its local map, or None.

    A model of one's own server has no entry, or one of `_register`. Entries that stand at 0 for both are
    taken as not known: litellm also writes 0 where it does not know (its issue 20412).
    """
    try:
        info = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for models that it does not know
        return None
    prompt, completion = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if prompt is None or completion is None or (prompt == 0 and completion == 0):
        return None
    return float(prompt), float(completion)
