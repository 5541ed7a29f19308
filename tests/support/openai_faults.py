"""What the test server may do wrong, and plans that say to which request it happens."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# name: (answered with status 200 and so counted as paid, what happens)
FAULTS: dict[str, tuple[bool, str]] = {
    "rate_limit": (False, "429, with Retry-After where `retry_after` is given"),
    "quota": (False, "429 with code insufficient_quota, as an empty account answers"),
    "server_error": (False, "500"),
    "unavailable": (False, "503"),
    "overloaded": (False, "529"),
    "bad_request": (False, "400"),
    "unauthorized": (False, "401, with the key of the caller in the message"),
    "no_model": (False, "404, model_not_found"),
    "content_filter": (False, "400, content_filter"),
    "context_length": (False, "400, context_length_exceeded"),
    "no_room": (False, "400, as vLLM answers where max_tokens alone fills the model's context"),
    "no_images": (False, "400, as vLLM answers images for a model that reads text alone"),
    "no_template": (False, "400, as vLLM answers a chat to a model without a chat template"),
    "hang": (False, "accepts the request and never answers"),
    "drip": (True, "sends one byte at a time for ever"),
    "cut": (True, "cuts the connection in the middle of the answer"),
    "cut_early": (False, "cuts the connection before the answer"),
    "invalid_json": (True, "200 with half of the JSON"),
    "wrong_type": (True, "200 with a page of HTML"),
    "wrong_shape": (True, "200 with JSON that is no completion"),
    "empty_choices": (True, "200 without choices"),
    "fewer_choices": (True, "200 with one choice less than asked for"),
    "null_content": (True, "200 with content null in every choice"),
    "empty_content": (True, "200 with empty content in every choice"),
    "wrong_content": (True, "200 with text that answers nothing"),
    "filtered": (True, "200 with finish_reason content_filter"),
    "truncated": (True, "200 with half of the text and finish_reason length"),
    "aborted": (True, "200 with half of the text and finish_reason abort, as vLLM answers while it ends"),
    "missing_usage": (True, "200 without usage"),
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: a name of `FAULTS` and, for 429 and 503, the Retry-After header's text."""

    name: str
    retry_after: str | None = None

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise ValueError(f"no fault {self.name!r}, only: {', '.join(FAULTS)}")

    @property
    def paid(self) -> bool:
        """Whether the provider would bill the request."""
        return FAULTS[self.name][0]


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
    made = [Fault(fault) if isinstance(fault, str) else fault for fault in faults]
    return lambda seen: made[seen.ordinal] if seen.ordinal < len(made) else None


def always(fault: Fault | str) -> FaultPlan:
    """Plan: every request meets the fault."""
    made = Fault(fault) if isinstance(fault, str) else fault
    return lambda _: made


def for_text(text: str, *faults: Fault | str | None) -> FaultPlan:
    """Plan: the first asking of a message with `text` meets the first fault, its repetition the next."""
    made = [Fault(fault) if isinstance(fault, str) else fault for fault in faults]

    def plan(seen: Seen) -> Fault | None:
        told = seen.body.get("messages") or [{"content": seen.body.get("prompt")}]
        asked = any(text in str(message.get("content")) for message in told)
        return made[seen.earlier] if asked and seen.earlier < len(made) else None

    return plan


def random_faults(
    shares: Mapping[str, float], *, seed: int = 0, retry_after: str | None = None, at_most: int = 3
) -> FaultPlan:
    """Plan: each fault hits its share of requests, drawn from the seed, the key and its repetition.

    The draw does not depend on the order in which requests arrive. A key that met `at_most` faults goes well,
    so that a client that tries often enough gets through.
    """
    if sum(shares.values()) > 1:
        raise ValueError(f"shares of faults add up to more than 1: {dict(shares)}")
    made = {name: Fault(name, retry_after if name == "rate_limit" else None) for name in shares}

    def plan(seen: Seen) -> Fault | None:
        if seen.earlier >= at_most:
            return None
        digest = hashlib.sha256(f"{seed}|{seen.key}|{seen.earlier}".encode()).digest()
        drawn = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in shares.items():
            if drawn < share:
                return made[name]
            drawn -= share
        return None

    return plan


def first_of(*plans: FaultPlan) -> FaultPlan:
    """Plan: the first of the plans that has a fault for the request decides."""

    def plan(seen: Seen) -> Fault | None:
        return next((fault for each in plans if (fault := each(seen)) is not None), None)

    return plan


def parse_shares(spellings: Sequence[str]) -> dict[str, float]:
    """Return `{"rate_limit": 0.1}` for `["rate_limit=0.1"]`, as given on the command line."""
    shares: dict[str, float] = {}
    for spelling in spellings:
        name, _, share = spelling.partition("=")
        Fault(name)
        shares[name] = float(share)
    return shares


def spoil(completion: dict[str, Any], name: str) -> dict[str, Any]:
    """Change a completion in place as the fault says; return it."""
    choices = completion["choices"]
    if name == "empty_choices":
        completion["choices"] = []
    elif name == "fewer_choices":
        completion["choices"] = choices[:-1]
    elif name == "missing_usage":
        del completion["usage"]
    for choice in choices:
        message, field = (choice["message"], "content") if "message" in choice else (choice, "text")
        if name == "null_content":
            message[field] = None
        elif name == "empty_content":
            message[field] = ""
        elif name == "wrong_content":
            message[field] = "I'm sorry, but I can't help with that."
        elif name == "filtered":
            message[field], choice["finish_reason"] = "", "content_filter"
        elif name in ("truncated", "aborted"):
            message[field] = message[field][: len(message[field]) // 2]
            choice["finish_reason"] = "length" if name == "truncated" else "abort"
    return completion
