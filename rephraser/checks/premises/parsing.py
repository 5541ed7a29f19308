"""Reading a model's list of premises. Nothing here raises on any text."""

import re
from dataclasses import dataclass

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.S | re.I)
_STATES = "kept|changed|dropped"
_TAGGED = re.compile(rf"<({_STATES})>(.*?)</\1>", re.S | re.I)
_OPEN = re.compile(rf"<({_STATES})>(?!.*</\1>)", re.S | re.I)
_LINE = re.compile(rf"^\W*(?:\d+[.)]\W*)?({_STATES})\W*[:–—-]\W*(\S.*)$", re.M | re.I)
_MENTION = frozenset({"", "and", "or", "...", "…"})  # the request's own words, repeated


@dataclass(frozen=True)
class Premises:
    """The premises of a question by what a candidate makes of them; none at all where nothing was read."""

    kept: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """dropped, changed or kept, the worst that was found; "unreadable" without any premise."""
        for name in ("dropped", "changed", "kept"):
            if getattr(self, name):
                return name
        return UNREADABLE


UNREADABLE = "unreadable"


def parse_premises(text: str, *, truncated: bool = False) -> Premises:
    """Return the premises that a model listed: between tags, or one a line behind its state and a colon.

    A list that was cut off is not read: what is missing of it may be what was dropped.
    """
    body = _THINKING.sub("", text)
    found = _TAGGED.findall(body)
    if truncated or _OPEN.search(_TAGGED.sub("", body)):
        return Premises()
    by_state: dict[str, list[str]] = {"kept": [], "changed": [], "dropped": []}
    for state, premise in found or _LINE.findall(body):
        said = " ".join(premise.split()).strip("`* ")
        if said not in _MENTION and said not in by_state[state.lower()]:
            by_state[state.lower()].append(said)
    return Premises(*(tuple(by_state[state]) for state in ("kept", "changed", "dropped")))
