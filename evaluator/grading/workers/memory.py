"""What a grader remembers."""

import threading
from typing import Generic, TypeVar

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
