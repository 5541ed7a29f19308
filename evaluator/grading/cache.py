"""Verdicts that were computed once: in memory for one grader, in the database for all later ones.

Only what needed algebra is written to the database; the rest is computed again faster than it is read. An
outcome that hangs on the machine (time-out, memory, crash) is never kept: another try may do better.
"""

import threading
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeVar

from evaluator.grading.outcomes import Outcome
from evaluator.grading.types import GRADER_VERSION, GradeValue
from evaluator.grading.worker import Task

if TYPE_CHECKING:
    from service.database import Database

Key = TypeVar("Key")
Value = TypeVar("Value")

_KEYS_PER_QUERY = 500
_LASTING_UNKNOWNS = ("unparsable", "too large", "no answer")


def lasting(outcome: Outcome) -> bool:
    """True for outcomes that every machine would reach."""
    return outcome.value is not GradeValue.UNKNOWN or outcome.reason in _LASTING_UNKNOWNS


class Memory(dict[Key, Value], Generic[Key, Value]):
    """A dict that forgets its oldest half when it is full."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._lock = threading.Lock()

    def keep(self, key: Key, value: Value) -> None:
        """Stores a value; safe to call from several threads."""
        if len(self) >= self._most:
            with self._lock:
                for old in list(self)[: self._most // 2] if len(self) >= self._most else []:
                    self.pop(old, None)
        self[key] = value


class VerdictCache:
    """Verdicts in the table `verdict_cache` of a database, for this version of the grader.

    A database opened read-only is read and never written to.
    """

    def __init__(self, db: "Database") -> None:
        self._db = db

    def load(self, tasks: Iterable[Task]) -> dict[Task, Outcome]:
        """The stored outcomes of those tasks that have one."""
        from sqlalchemy import select

        from evaluator.grading.tables import CachedVerdictRow as Row
        from evaluator.grading.versions import find_grader

        tasks_by_key = {task_key(task): task for task in tasks}
        keys = list(tasks_by_key)
        found: dict[Task, Outcome] = {}
        with self._db.read() as session:
            grader = find_grader(session, GRADER_VERSION)
            if grader is None:
                return found
            for start in range(0, len(keys), _KEYS_PER_QUERY):
                wanted = keys[start : start + _KEYS_PER_QUERY]
                rows = session.execute(
                    select(Row.key, Row.value, Row.reason).where(Row.grader_id == grader, Row.key.in_(wanted))
                )
                for key, value, reason in rows:
                    found[tasks_by_key[key]] = Outcome(GradeValue(value), reason)
        return found

    def save(self, outcomes: Mapping[Task, Outcome]) -> None:
        """Stores the lasting ones of these outcomes, in one transaction; one that is there stays."""
        from sqlalchemy.dialects.sqlite import insert

        from evaluator.grading.tables import CachedVerdictRow as Row
        from evaluator.grading.versions import grader_id

        kept = {task_key(task): outcome for task, outcome in outcomes.items() if lasting(outcome)}
        if not kept or self._db.read_only:
            return
        with self._db.write() as session:
            grader = grader_id(session, GRADER_VERSION)
            rows = [
                {"grader_id": grader, "key": key, "value": outcome.value.value, "reason": outcome.reason}
                for key, outcome in kept.items()
            ]
            session.execute(insert(Row).on_conflict_do_nothing(), rows)


def task_key(task: Task) -> bytes:
    """16 bytes of BLAKE2b over what is asked, the kind, the tolerance and both answers."""
    parts = (task.what, task.kind.value, task.tolerance or "", task.first, task.second)
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    lengths = ",".join(str(len(part)) for part in encoded).encode()
    return blake2b(b"".join([lengths, b";", *encoded]), digest_size=16).digest()
