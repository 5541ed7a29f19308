"""Results kept in memory: a key names what they were made from."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

R = TypeVar("R")


@dataclass(frozen=True)
class _Request:
    key: str
    make: Callable[[], Any] = field(compare=False)


def keep(key: Any, make: Callable[[], R]) -> R:
    """Return the result of `make`, made once for each `repr(key)`; callers get a copy each."""
    result: R = pickle.loads(_pickled(_Request(repr(key), make)))
    return result


@lru_cache(maxsize=500)
def _pickled(request: _Request) -> bytes:
    return pickle.dumps(request.make(), protocol=pickle.HIGHEST_PROTOCOL)


forget = _pickled.cache_clear
