"""What this server shows: the database, and whether reviews may be written."""

import shlex
from dataclasses import dataclass

from service.database import Place, Server, locate_database


@dataclass(frozen=True)
class Settings:
    """Given by `tagrpo ui` before the first page is drawn."""

    database: Place
    review: bool = False
    shipped: str = ""
    """What the pages say about the demo that ships with tagrpo, where they show it."""
    is_private: bool = False
    """Whether only this machine's users can reach the server: only then are gated texts shown."""
    signing_in: bool = False
    """Whether browsers sign in, so that they can sign out."""

    @property
    def place_name(self) -> str:
        """The database's name, without the way to it."""
        place = self.database
        return str(place.url.database) if isinstance(place, Server) else place.name


_current: Settings | None = None


def use(settings: Settings | None) -> None:
    """Let the pages of this process show another database; None for the usual one."""
    global _current
    _current = settings


def current() -> Settings:
    """Return the settings; without a server (tests, `streamlit run`) those of `TAGRPO_DB`, read-only."""
    return _current or Settings(locate_database(None))


def command(words: str) -> str:
    """Return a command of tagrpo on the database that these pages show, ready to be copied."""
    return f"tagrpo {words} --db {shlex.quote(str(current().database))}"
