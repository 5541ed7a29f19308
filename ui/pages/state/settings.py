"""Settings of this server: the database, and whether reviews can be written."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from service.database import Place, locate_database
from service.database.place import without_password


@dataclass(frozen=True)
class PageSettings:
    """Set by `tagrpo ui` before the first page is drawn."""

    database: Place
    review: bool = False
    shipped: str = ""
    """Note shown on the pages if they show the demo that ships with tagrpo."""
    is_private: bool = False
    """Whether only this machine's users can reach the server; gated texts are shown only then."""
    signing_in: bool = False
    """Whether browsers sign in, so that they can sign out."""

    @property
    def place_name(self) -> str:
        """The database's name, without its path."""
        place = self.database
        return place.name if isinstance(place, Path) else str(place.database)


_current: PageSettings | None = None


def use(settings: PageSettings | None) -> None:
    """Show another database in this process; None for the usual one."""
    global _current
    _current = settings


def current() -> PageSettings:
    """Return the settings; without a server (tests, `streamlit run`) those of `TAGRPO_DB`, read-only."""
    return _current or PageSettings(locate_database(None))


def command(words: str) -> str:
    """Return a tagrpo command for the shown database, ready to copy."""
    return f"tagrpo {words} --db {shlex.quote(str(without_password(current().database)))}"
