"""Sign-in: the password, sessions, failed attempts of the last minute, and the form."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from html import escape

from ui.charts.theme import page_theme

MIN_LENGTH = 8
SESSION_S = 12 * 3600
MAX_SESSIONS = 1000

TRIES, WINDOW_S = 5, 60.0
"""Maximum failed attempts per address and minute; other addresses are not locked out."""

_MOST_REMEMBERED = 10_000


class Password:
    """A password, stored as a keyed hash; the comparison takes constant time."""

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
    """Tokens of signed-in browsers; they expire after 12 hours and with the server."""

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
    """Failed attempts of the last minute, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque(maxlen=_MOST_REMEMBERED)
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Return the seconds until an address may try again; 0 if it may now."""
        with self._lock:
            now = self._clock()
            while self._wrong and self._wrong[0][0] <= now - WINDOW_S:
                self._wrong.popleft()
            own = [at for at, who in self._wrong if who == address]
            if len(own) >= TRIES:
                return own[-TRIES] + WINDOW_S - now
            return 0.0

    def wrong(self, address: str) -> None:
        """Record a failed attempt."""
        with self._lock:
            self._wrong.append((self._clock(), address))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>tagrpo: {title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--side);
  color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif }}
form {{ width: min(22rem, calc(100vw - 2rem)); padding: 1.75rem; background: var(--paper);
  border: 1px solid var(--border); border-radius: 10px }}
h1 {{ margin: 0 0 .25rem; font-size: 1.3rem; font-weight: 600 }}
p {{ margin: 0 0 1.1rem; color: var(--muted) }}
p.wrong {{ color: var(--red); margin: .8rem 0 0 }}
label {{ display: block; margin-bottom: .3rem; font-size: .9rem }}
input {{ width: 100%; padding: .55rem .7rem; font: inherit; color: inherit; background: var(--field);
  border: 1px solid var(--border); border-radius: 6px }}
input:focus-visible, button:focus-visible {{ outline: 2px solid var(--primary); outline-offset: 1px }}
button {{ width: 100%; margin-top: 1rem; padding: .55rem; font: inherit; font-weight: 600;
  color: var(--paper); background: var(--primary); border: 0; border-radius: 6px; cursor: pointer }}
</style>
</head>
<body>
<form method="post" action="{action}">
<h1>tagrpo</h1>
<p>{reason}</p>
{fields}<button type="submit">{button}</button>
</form>
</body>
</html>
"""

_FIELDS = """<label for="password">{label}</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{next}">
{message}"""

_NAMES = {
    "paper": "backgroundColor",
    "field": "secondaryBackgroundColor",
    "text": "textColor",
    "muted": "grayColor",
    "border": "borderColor",
    "primary": "primaryColor",
    "red": "redColor",
}


def login_page(action: str, following: str, message: str = "", *, by_address: bool = False) -> bytes:
    """Return the page; `following` is where the browser goes afterwards.

    `by_address`: ask for the token in the printed address instead of a password.
    """
    alert = f'<p class="wrong" role="alert">{escape(message)}</p>\n' if message else ""
    fields = _FIELDS.format(
        next=escape(following, quote=True), message=alert, label="Token" if by_address else "Password"
    )
    reason = (
        "Open the address printed by <code>tagrpo ui</code>, or enter its token."
        if by_address
        else "These pages are protected by a password."
    )
    return _page("sign in", action, reason, fields, "Sign in")


def logout_page(action: str) -> bytes:
    """Return the page that signs out on a click."""
    return _page("sign out", action, "This browser will need to sign in again.", "", "Sign out")


def _page(title: str, action: str, reason: str, fields: str, button: str) -> bytes:
    return _PAGE.format(
        light=_colours("light"),
        dark=_colours("dark"),
        title=title,
        action=escape(action, quote=True),
        reason=reason,
        fields=fields,
        button=button,
    ).encode("utf-8")


def _colours(mode: str) -> str:
    theme = page_theme()
    named = {name: theme[f"theme.{mode}.{option}"] for name, option in _NAMES.items()}
    named["side"] = theme[f"theme.{mode}.sidebar.backgroundColor"]
    return " ".join(f"--{name}: {value};" for name, value in named.items())
