"""What the test server may do wrong, and plans that say to which request it happens."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATUS = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached"),
    "quota": (429, "insufficient_quota", "You exceeded your current quota, please check your plan"),
    "server_error": (500, "server_error", "The server had an error"),
    "unavailable": (503, "unavailable", "The engine is not ready"),
    "bad_request": (400, "invalid_value", "Invalid value for 'temperature'"),
    "no_model": (404, "model_not_found", "The model does not exist"),
    "content_filter": (400, "content_filter", "The response was filtered by the content management policy"),
    "context_length": (400, "context_length_exceeded", "This model's maximum context length is 4096 tokens"),
    "no_images": (400, "BadRequestError", "test-model is not a multimodal model"),
    "no_template": (
        400,
        "BadRequestError",
        "default chat template is no longer allowed, so you must provide a chat template",
    ),
}
"""Faults that are an error of the provider: status, code and message."""

UNPAID = {
    *STATUS,
    "unauthorized",  # 401, with the key of the caller in the message
    "no_room",  # 400, as vLLM answers if max_tokens alone fills the model's context
    "hang",  # never answers
    "cut_early",  # cuts the connection before the answer
}
PAID = {
    *("drip", "cut"),  # a byte at a time for ever; half of the answer
    *("invalid_json", "wrong_type", "wrong_shape"),  # no completion
    *("empty_choices", "fewer_choices", "null_content"),
    *("filtered", "truncated", "aborted"),  # by finish_reason
}
"""Faults of answers with status 200."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and the text of the Retry-After header for 429 and 503."""

    name: str
    retry_after: str | None = None

    def __post_init__(self) -> None:
        assert self.name in UNPAID | PAID, f"no fault {self.name!r}"

    @property
    def paid(self) -> bool:
        """Whether the provider would bill the request."""
        return self.name in PAID


@dataclass(frozen=True)
class Seen:
    """A chat request as the server saw it."""

    ordinal: int  # 0.. over all requests
    key: str  # hash of what was asked (messages, n, seed): the same for a request sent again
    earlier: int  # how often the same key was asked before
    body: Mapping[str, Any]
    authorization: str | None


FaultPlan = Callable[[Seen], Fault | None]


def no_faults(_: Seen) -> Fault | None:
    """Plan: everything goes well."""
    return None


def fault_sequence(*faults: Fault | str | None) -> FaultPlan:
    """Plan: the first request meets the first fault (None: goes well), and so on; later ones go well."""
    made = _faults(faults)
    return lambda seen: made[seen.ordinal] if seen.ordinal < len(made) else None


def always(fault: Fault | str) -> FaultPlan:
    """Plan: every request meets the fault."""
    (made,) = _faults([fault])
    return lambda _: made


def _faults(given: Sequence[Fault | str | None]) -> list[Fault | None]:
    return [Fault(fault) if isinstance(fault, str) else fault for fault in given]


def random_faults(shares: Mapping[str, float], *, seed: int = 0, retry_after: str | None = None) -> FaultPlan:
    """Plan: each fault hits its share of requests, drawn from the seed, the key and its repetition.

    The draw does not depend on the order in which requests arrive. A key that met three faults goes well,
    so that a client that tries often enough gets through.
    """
    made = {name: Fault(name, retry_after if name == "rate_limit" else None) for name in shares}

    def plan(seen: Seen) -> Fault | None:
        if seen.earlier >= 3:
            return None
        digest = hashlib.sha256(f"{seed}|{seen.key}|{seen.earlier}".encode()).digest()
        drawn = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in shares.items():
            if drawn < share:
                return made[name]
            drawn -= share
        return None

    return plan


def spoil(completion: dict[str, Any], name: str) -> dict[str, Any]:
    """Change a completion in place as the fault says; return it."""
    choices = completion["choices"]
    if name == "empty_choices":
        completion["choices"] = []
    elif name == "fewer_choices":
        completion["choices"] = choices[:-1]
    for choice in choices:
        message, field = (choice["message"], "content") if "message" in choice else (choice, "text")
        if name == "null_content":
            message[field] = None
        elif name == "filtered":
            message[field], choice["finish_reason"] = "", "content_filter"
        elif name in ("truncated", "aborted"):
            message[field] = message[field][: len(message[field]) // 2]
            choice["finish_reason"] = "length" if name == "truncated" else "abort"
    return completion
