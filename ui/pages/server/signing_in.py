"""One shared password: checking it, remembering who knew it, slowing down who guesses."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MIN_LENGTH = 8
SESSION_S = 12 * 3600
MAX_SESSIONS = 1000

TRIES, ALL_TRIES, WINDOW_S = 5, 50, 60.0
"""Wrong passwords that one address, and all together, may send within a minute."""


class Password:
    """A password, kept as a keyed hash; comparing takes the same time whatever is sent."""

    def __init__(self, password: str) -> None:
        self._key = secrets.token_bytes(32)
        self._digest = self._hash(password)

    def _hash(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def matches(self, sent: str) -> bool:
        """Say whether this is the password."""
        return hmac.compare_digest(self._digest, self._hash(sent))

    def __repr__(self) -> str:
        return "Password(...)"


class Sessions:
    """Tokens of browsers that sent the password; they end after 12 hours and with the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def new(self) -> str:
        """Return a fresh token."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._ends[self._digest(token)] = self._clock() + SESSION_S
            while len(self._ends) > MAX_SESSIONS:
                self._ends.popitem(last=False)
        return token

    def knows(self, token: str) -> bool:
        """Say whether a token is valid now."""
        with self._lock:
            ends = self._ends.get(self._digest(token))
        return ends is not None and self._clock() < ends

    def end(self, token: str) -> None:
        """Forget a token."""
        with self._lock:
            self._ends.pop(self._digest(token), None)

    @staticmethod
    def _digest(token: str) -> bytes:
        return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Attempts:
    """Wrong passwords of the last minute, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque()
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Return for how many seconds an address must wait before its next try; 0 where it need not."""
        with self._lock:
            now = self._clock()
            while self._wrong and self._wrong[0][0] <= now - WINDOW_S:
                self._wrong.popleft()
            own = [at for at, who in self._wrong if who == address]
            if len(own) >= TRIES:
                return own[-TRIES] + WINDOW_S - now
            if len(self._wrong) >= ALL_TRIES:
                return self._wrong[-ALL_TRIES][0] + WINDOW_S - now
            return 0.0

    def wrong(self, address: str) -> None:
        """Remember a wrong password."""
        with self._lock:
            self._wrong.append((self._clock(), address))
