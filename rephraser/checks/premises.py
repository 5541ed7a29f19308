"""Ask a model whether a candidate keeps the question's premises, which answers may not reveal."""

import re
from dataclasses import dataclass

from evaluator.grading.extraction import after_thinking
from service.asks.request import Choice, Message

PREMISES_VERSION = "1"

_SYSTEM = (
    "You compare mathematical problems with rewrites of them, premise by premise. You do not solve them."
)
_ASK = """\
List every premise of the original problem: each quantity, each condition, each relation between them, each \
restriction of the answer, and what is asked. For each, say whether the rewrite still holds it:

- kept: the rewrite states it, in any words, order, notation or setting, or states something that implies it.
- changed: the rewrite states something else in its place.
- dropped: nothing in the rewrite states or implies it. Do not fill in what a reader might guess.

Write one premise a line, in a few words, between tags that say which it is: <kept> and </kept>, <changed> \
and </changed>, or <dropped> and </dropped>. Write nothing else."""

UNREADABLE = "unreadable"
_FINDINGS = ("premise_dropped", "premise_changed")
_STATES = "kept|changed|dropped"
_TAGGED = re.compile(rf"<({_STATES})>(.*?)</\1>", re.S | re.I)
_OPEN = re.compile(rf"<({_STATES})>(?!.*</\1>)", re.S | re.I)
_LINE = re.compile(rf"^[^\w\n]*(?:\d+[.)]\W*)?({_STATES})\W*[:–—-]\W*(\S.*)$", re.M | re.I)
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

    @property
    def findings(self) -> list[dict[str, str]]:
        """What was changed or dropped, in the form of findings of the structural checks."""
        return [
            {"name": name, "severity": "evidence", "detail": "; ".join(differing)}
            for name, differing in zip(_FINDINGS, (self.dropped, self.changed), strict=True)
            if differing
        ]


def parse_premises(reply: Choice) -> Premises:
    """Return the premises that a model listed: between tags, or one a line behind its state and a colon.

    A list that was cut off is not read: what is missing of it may be what was dropped.
    """
    if reply.finish_reason == "length":  # the search for tags takes long where a model went on repeating one
        return Premises()
    body = after_thinking(reply.text) or ""
    tagged = _TAGGED.findall(body)
    if _OPEN.search(_TAGGED.sub("", body)):
        return Premises()
    by_state: dict[str, list[str]] = {"kept": [], "changed": [], "dropped": []}
    for state, premise in tagged or _LINE.findall(body):
        words = " ".join(premise.split()).strip("`* ")
        if words not in _MENTION and words not in by_state[state.lower()]:
            by_state[state.lower()].append(words)
    return Premises(*(tuple(by_state[state]) for state in ("kept", "changed", "dropped")))


def build_messages(question: str, candidate: str) -> tuple[Message, Message]:
    """Return the chat messages that ask whether each premise of `question` is kept in `candidate`."""
    texts = f"<original>\n{question}\n</original>\n\n<rewrite>\n{candidate}\n</rewrite>"
    return Message("system", _SYSTEM), Message("user", f"{_ASK}\n\n{texts}")
