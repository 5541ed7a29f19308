"""Query results, cached in memory until the database changes."""

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

R = TypeVar("R")

MAX_BYTES = 64 * 2**20


class Results:
    """A thread-safe LRU cache of pickled results, bounded in bytes.

    Callers get a copy each, so that no page changes another's result. A result larger than an eighth of the
    limit is not kept.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], R]) -> R:
        """Return the result under `key`, or compute it; two threads may compute the same at once."""
        with self._lock:
            pickled = self._kept.get(key)
            if pickled is not None:
                self._kept.move_to_end(key)
        if pickled is not None:
            return pickle.loads(pickled)  # type: ignore[no-any-return]
        result = make()
        self._put(key, pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL))
        return result

    def has(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._kept

    def _put(self, key: Hashable, pickled: bytes) -> None:
        if len(pickled) > self._max_bytes // 8:
            return
        with self._lock:
            self._bytes += len(pickled) - len(self._kept.pop(key, b""))
            self._kept[key] = pickled
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0
