"""Results of queries, kept in memory for as long as the database stays as it is."""

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

R = TypeVar("R")

MAX_BYTES = 64 * 2**20


class Results:
    """A cache of pickled results, least recently used out first, bounded in bytes; safe between threads.

    Callers get a copy each, so that no page changes what another one reads. A result larger than an eighth of
    the whole is not kept.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], R]) -> R:
        """Return what is kept under `key`, or make it; two threads may make the same at once."""
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
        """Say whether something is kept under `key`."""
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
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
