"""Sign-in: the password, sessions, failed attempts of the last minute, and the form."""

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from service.errors import InputError
from ui.charts.theme import page_colours

MIN_LENGTH = 8
TOKEN = "token"
"""Address parameter that contains the token, if the server created one."""

SESSION_S = 12 * 3600

TRIES, WINDOW_S = 5, 60.0
"""Maximum failed attempts per address and minute; other addresses are not locked out."""

_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Lock:
    """The access secret: a user's password, or a token that may be in the address, as notebooks print it."""

    secret: str
    by_address: bool = False

    def __post_init__(self) -> None:
        if len(self.secret) < MIN_LENGTH:
            raise InputError(f"the password has {len(self.secret)} characters. Use at least {MIN_LENGTH}.")

    @classmethod
    def token(cls) -> "Lock":
        """Return a random token, known only to readers of this server's output."""
        return cls(secrets.token_urlsafe(24), by_address=True)

    def opened(self, url: str) -> str:
        """Return the printed address of the server."""
        return f"{url}/?{TOKEN}={self.secret}" if self.by_address else url

    def opens(self, sent: str) -> bool:
        """Say whether this is the secret; the comparison takes constant time."""
        own, other = (text.encode("utf-8", "surrogatepass") for text in (self.secret, sent))
        return hmac.compare_digest(own, other)


class Sessions:
    """Tokens of signed-in browsers, stored as hashes; they expire after 12 hours and with the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def new(self) -> str:
        token, now = secrets.token_urlsafe(32), self._clock()
        self._ends = {digest: end for digest, end in self._ends.items() if now < end}
        self._ends[_digest(token)] = now + SESSION_S
        return token

    def knows(self, token: str) -> bool:
        return self._clock() < self._ends.get(_digest(token), 0.0)

    def end(self, token: str) -> None:
        self._ends.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Attempts:
    """Failed attempts of the last minute, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque(maxlen=_MOST_REMEMBERED)

    def wait_s(self, address: str) -> float:
        """Return the seconds until an address may try again; 0 if it may now."""
        start = self._clock() - WINDOW_S
        own = [at for at, who in self._wrong if who == address and at > start]
        return own[-TRIES] - start if len(own) >= TRIES else 0.0

    def wrong(self, address: str) -> None:
        self._wrong.append((self._clock(), address))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>tagrpo: {title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; --paper: light-dark({light[backgroundColor]}, {dark[backgroundColor]});
  --primary: light-dark({light[primaryColor]}, {dark[primaryColor]});
  --border: light-dark({light[borderColor]}, {dark[borderColor]}) }}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center;
  background: light-dark({light[sidebar.backgroundColor]}, {dark[sidebar.backgroundColor]});
  color: light-dark({light[textColor]}, {dark[textColor]});
  font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif }}
form {{ width: min(22rem, calc(100vw - 2rem)); padding: 1.75rem; background: var(--paper);
  border: 1px solid var(--border); border-radius: 10px }}
h1 {{ margin: 0 0 .25rem; font-size: 1.3rem; font-weight: 600 }}
p {{ margin: 0 0 1.1rem; opacity: .7 }}
p.wrong {{ color: light-dark({light[redColor]}, {dark[redColor]}); margin: .8rem 0 0; opacity: 1 }}
label {{ display: block; margin-bottom: .3rem; font-size: .9rem }}
input {{ width: 100%; padding: .55rem .7rem; font: inherit; color: inherit;
  background: light-dark({light[codeBackgroundColor]}, {dark[codeBackgroundColor]});
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


def login_page(action: str, following: str, message: str = "", *, by_address: bool = False) -> str:
    """Return the page, `by_address` for a token; `following` is where the browser goes afterwards."""
    alert = f'<p class="wrong" role="alert">{escape(message)}</p>\n' if message else ""
    if by_address:
        label, reason = "Token", "Open the address printed by <code>tagrpo ui</code>, or enter its token."
    else:
        label, reason = "Password", "These pages are protected by a password."
    fields = _FIELDS.format(label=label, next=escape(following), message=alert)
    return _page("sign in", action, reason, fields, "Sign in")


def logout_page(action: str) -> str:
    return _page("sign out", action, "This browser will need to sign in again.", "", "Sign out")


def _page(title: str, action: str, reason: str, fields: str, button: str) -> str:
    light, dark = page_colours("light"), page_colours("dark")
    return _PAGE.format(
        light=light, dark=dark, title=title, action=action, reason=reason, fields=fields, button=button
    )
