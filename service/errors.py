"""Errors that a user can act on. Each message says what is wrong, where, and what to do.

The command line turns every `TagrpoError` into one line on stderr and exit code 2; anything else is a bug,
which ends with exit code 1 and is to be reported. Docstrings list under "Raises" only what callers handle,
not the errors of this file.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class TagrpoError(Exception):
    """Invalid usage or input; the message says what is wrong, where, and what to do."""


class InputError(TagrpoError):
    """An unusable file, row or value."""


class DatabaseError(TagrpoError):
    """The database cannot be opened, is of another version, is read-only, full or damaged."""


class ConnectionLostError(DatabaseError):
    """A database server ended the connection within a transaction, of which nothing was written."""


class NotFoundError(TagrpoError):
    """A question, run, neighbor or set that is not in the database."""


class PrerequisiteError(TagrpoError):
    """Something that is not installed, reachable or configured; the message says how to get it."""


def missing_extra(problem: str, extra: str) -> PrerequisiteError:
    """Return the error for packages of an extra that are not installed."""
    return PrerequisiteError(f"{problem}. Install the extra `{extra}` (docs/install.md).")


class Interrupted(TagrpoError):
    """Ctrl-C ended work, and the message says what now; the command line exits with 130, as shells say it."""


class Terminated(Interrupted):
    """SIGTERM did; the command line exits with 143."""


class BudgetError(TagrpoError):
    """A cap on money or requests forbids going on, or cannot be kept because a price is not known."""


def suggest(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return what an unknown name may mean; if nothing is like it, `otherwise`, by default all names.

    The last part of a name means it, too: `price` is `proposer.price`.
    """
    names = [*dict.fromkeys(names)]
    parts = [] if "." in name else [each.rpartition(".")[2] for each in names]
    near = get_close_matches(name, [*names, *parts], n=1, cutoff=0.7)
    if meant := [each for each in names if near in ([each], [each.rpartition(".")[2]])]:
        return f"Did you mean {' or '.join(meant[:3])}?"
    return otherwise or f"Available: {', '.join(names) or 'none'}."


def first_line(error: BaseException) -> str:
    """The first line of what another library's error says; its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def first_lines(lines: Sequence[str], limit: int = 5) -> str:
    """Return the first lines indented below a message, and the number of the others."""
    more = [f"and {len(lines) - limit} more"] if len(lines) > limit else []
    return "".join(f"\n  {line}" for line in (*lines[:limit], *more))
