"""Turn PostgreSQL errors into actionable messages."""

from sqlalchemy.exc import DBAPIError, OperationalError

from service.database.place import Server
from service.errors import ConnectionLostError, DatabaseError

LOCK_TIMEOUT_S = 60
NUMBER_TOO_LARGE = "22003"
_OF_CONNECTION = ("08", "57P")
_TOO_MANY = "53300"


def state_of(error: DBAPIError) -> str | None:
    """Return the five characters of an error by which the server names it; None: it came from elsewhere."""
    return getattr(error.orig, "sqlstate", None)


def is_lost(error: DBAPIError) -> bool:
    """Say whether the server cannot be reached, or this connection to it is gone."""
    state = state_of(error)
    if error.connection_invalidated or state == _TOO_MANY:
        return True
    if state is not None:
        return state.startswith(_OF_CONNECTION)
    return isinstance(error, OperationalError)


def describe(error: DBAPIError, place: Server) -> DatabaseError | None:
    """Turn an error into one that says what to do, or None where it is a bug of ours."""
    lines = [line.strip() for line in str(error.orig).splitlines() if line.strip()]
    text, state = (lines[-1] if lines else type(error.orig).__name__), state_of(error)
    whole = " ".join(lines)
    reason = text.rpartition("FATAL:")[2].strip()
    if "password" in whole and ("authentication failed" in whole or "no password supplied" in whole):
        return DatabaseError(
            f"{place}: {reason}. Keep the password in ~/.pgpass or PGPASSWORD, not in the URL."
        )
    if "does not exist" in whole and "database" in reason and state in (None, "3D000"):
        return DatabaseError(f"{place}: {reason}. Create it: `createdb {place.url.database}`.")
    if state is None and "role" in reason and "does not exist" in reason:
        return DatabaseError(f"{place}: {reason}. Create it: `createuser {place.url.username or ''}`.")
    if state == "25006":
        return DatabaseError(f"{place}: the database cannot be written ({text}).")
    if state == "42501":
        return DatabaseError(
            f"{place}: {text}. The role {place.url.username or 'of this login'} lacks the permission. Ask "
            "the owner to grant it, or use another role in --db."
        )
    if state == "55P03":
        return DatabaseError(
            f"{place}: another process has locked the database for {LOCK_TIMEOUT_S} s. Try again."
        )
    if state == "53100":
        return DatabaseError(
            f"{place}: the server's disk is full ({text}); the last step was not written. Free space there "
            "and run the same command again to resume."
        )
    if is_lost(error):
        return ConnectionLostError(
            f"{place}: the server cannot be reached, or closed the connection ({reason}). The last step was "
            "not written. When the server is available, run the same command again to resume."
        )
    return None
