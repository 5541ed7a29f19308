"""One reviewer's queue: keys, order, position, and the keys handled so far. No I/O.

The browser reports which item was on the screen when a key was pressed. The queue refuses a key for any other
item than its current one, so no decision can reach the wrong item. The browser numbers keys and repeats them
until they are acknowledged, so none is lost and none counts twice.

Keys are letters only: C and R belong to Streamlit, others collide with text areas.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from rephraser.reviews.store import Decision, Withdrawal

Act = Literal["accept", "accept in words", "reject", "reject in words", "skip", "undo"]


@dataclass(frozen=True)
class Key:
    """A letter, its label, its action, and the reason of a rejection (in words: typed) or the tooltip."""

    letter: str
    label: str
    act: Act
    reason: str = ""


REVIEW_KEYS = (
    Key("A", "Accept", "accept"),
    Key("N", "Note", "accept in words", "accept with a comment"),
    Key("D", "Other answer", "reject", "a different problem with another answer"),
    Key("M", "Missing", "reject", "a condition of the question is missing"),
    Key("X", "Added", "reject", "a condition was added"),
    Key("L", "Leaks", "reject", "the answer or part of the solution is revealed"),
    Key("B", "Broken", "reject", "broken text, formula or figure"),
    Key("W", "Other reason", "reject in words"),
    Key("S", "Skip", "skip"),
    Key("U", "Undo", "undo", "go back to the previous candidate and withdraw the decision on it"),
)
"""Keys if decisions can be stored."""

READ_ONLY_KEYS = (Key("S", "Next", "skip"), Key("U", "Back", "undo"))
"""Keys on read-only pages."""

MAX_REASON = 500
"""Maximum characters of a typed reason."""

Mark = Literal["accepted", "rejected", "skipped"]
MARKS: tuple[Mark, ...] = get_args(Mark)

CLIENTS_KEPT = 8


@dataclass(frozen=True)
class Event:
    seq: int
    item: str
    letter: str
    words: str = ""


_EVENT = TypeAdapter(Event)


@dataclass
class Queue:
    """The state of a reviewer's queue.

    `at` is the position of the current item in the `order`, `marks` are the actions on items on this page
    (the newest counts). `heard` is the highest number handled for each of the last browser tabs, and
    `refused` the keys that were pressed on another item than the current one.
    """

    order: Sequence[str]
    reviewer: str
    audit_id: int | None
    keys: Sequence[Key]
    at: int = 0
    marks: dict[str, Mark] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    refused: int = 0

    @property
    def current(self) -> str:
        return self.order[self.at] if self.at < len(self.order) else ""

    def count(self, mark: Mark) -> int:
        return sum(given == mark for given in self.marks.values())

    def handle_keys(
        self,
        client: str,
        events: Sequence[Event],
        store: Callable[[Sequence[Decision | Withdrawal]], object],
    ) -> None:
        """Handle the new keys in order; decisions are stored at once, all or none.

        Undo returns to the previous item and withdraws the decision made on it on this page. After a refused
        key, the following ones are refused too, since they were pressed on an unknown screen. If `store`
        raises, nothing changes, and the keys can be handled again.
        """
        known = {key.letter: key for key in self.keys}
        at, refused, last = self.at, 0, self.heard.get(client, 0)
        marks = dict(self.marks)
        changes: list[Decision | Withdrawal] = []
        for event in sorted(events, key=lambda event: event.seq):
            if event.seq <= last:
                continue
            last = event.seq
            key = known.get(event.letter)
            current = self.order[at] if at < len(self.order) else ""
            if refused or key is None or event.item != current:
                refused += 1
            elif key.act == "undo":
                if at > 0:
                    at -= 1
                    if marks.pop(self.order[at], "skipped") != "skipped":
                        changes.append(Withdrawal(self.order[at], self.reviewer, self.audit_id))
            elif not current:
                refused += 1
            else:
                made = self._decide(key, event)
                if made is not None:
                    changes.append(made)
                marks[current] = "skipped" if made is None else made.decision
                at += 1
        if changes:
            store(changes)
        self.at, self.refused = at, self.refused + refused
        self.marks = marks
        self.heard.pop(client, None)
        self.heard[client] = last
        while len(self.heard) > CLIENTS_KEPT:
            del self.heard[next(iter(self.heard))]

    def _decide(self, key: Key, event: Event) -> Decision | None:
        words = " ".join(event.words.split())[:MAX_REASON]
        if key.act == "skip":
            return None
        if key.act.startswith("accept"):
            comment = words if key.act == "accept in words" else ""
            return Decision(event.item, "accepted", comment, self.reviewer, self.audit_id)
        reason = key.reason or words or "no reason given"
        return Decision(event.item, "rejected", reason, self.reviewer, self.audit_id)


def read_events(value: Any) -> tuple[str, list[Event]]:
    """Return the contents of a browser's message: the tab's name and its keys; invalid parts are dropped."""
    client, sent = (value.get("client"), value.get("events")) if isinstance(value, Mapping) else (None, None)
    if not client or not isinstance(client, str) or not isinstance(sent, Sequence):
        return "", []
    events = []
    for each in sent:
        with suppress(ValidationError):
            events.append(_EVENT.validate_python(each))
    return client[:64], events
