"""What a grader remembers."""

import threading
from hashlib import blake2b
from typing import Generic, TypeVar

from evaluator.grading.types import GradeCase

CaseKey = tuple[bytes, str, str, str | None, bool]

Key = TypeVar("Key")
Value = TypeVar("Value")


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


def case_key(case: GradeCase) -> CaseKey:
    """Returns what a case is remembered by: responses are long, so of theirs the hash."""
    digest = blake2b(case.response.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return digest, case.gold, case.kind, case.tolerance, case.boxed_only
