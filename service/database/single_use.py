"""One process at a time: a file beside a database that says who uses it, where locks cannot be relied on."""

import os
from pathlib import Path

from service.errors import DatabaseError
from service.process import Process, this_process


class SingleUse:
    """Holds `NAME.db.user`; made in one step, which network file systems do for one process only."""

    def __init__(self, database: Path) -> None:
        """Take the file.

        Raises:
            DatabaseError: another process has it that lives, or that cannot be seen from here.
        """
        self._path = database.with_name(f"{database.name}.user")
        self._is_ours = False
        while not self._is_ours:
            try:
                handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                if self._is_of_this_process(database):
                    return
                continue
            with os.fdopen(handle, "w") as file:
                file.write(str(this_process()))
            self._is_ours = True

    def release(self) -> None:
        """Give it back."""
        if self._is_ours:
            self._path.unlink(missing_ok=True)
            self._is_ours = False

    def _is_of_this_process(self, database: Path) -> bool:
        try:
            user = Process.parse(self._path.read_text())
        except FileNotFoundError:
            return False
        except ValueError:
            user = None
        if user == this_process():
            return True
        if user is not None and user.has_ended():
            self._path.unlink(missing_ok=True)
            return False
        who = "another process" if user is None else user.words
        raise DatabaseError(
            f"{database}: in use by {who}. With a rollback journal, only one process can use it at a time. "
            f"Wait for it; if it has ended, remove {self._path}."
        )
