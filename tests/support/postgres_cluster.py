"""A private PostgreSQL: a cluster in a temporary folder, on a free port, by a user that is not root.

`start_cluster()` needs Debian's `postgresql` or another whose programs are found; `Cluster.empty()` returns
the URL of a new database with the schema, copied from one of the cluster's.
"""

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, create_engine

from service.database import Database

_USERS = ("postgres", "nobody")
_QUICK = ("fsync=off", "full_page_writes=off", "max_connections=200")
_FORM = ("-U", "tagrpo", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
_MEMORY = Path("/dev/shm")
_numbers = itertools.count()


def programs() -> Path | None:
    """Return the folder of initdb and postgres, the newest version first; None where there are none."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if (config := shutil.which("pg_config")) is not None:
        shown = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False).stdout
        places.insert(0, Path(shown.strip()))
    if (initdb := shutil.which("initdb")) is not None:
        places.append(Path(initdb).resolve().parent)
    return next((place for place in reversed(places) if (place / "postgres").exists()), None)


@dataclass
class Cluster:
    """A server that listens on 127.0.0.1, with one superuser `tagrpo`."""

    folder: Path
    port: int
    programs: Path
    user: str | None
    strategy: str = ""
    """How a database is copied: by files where the server can, which is quicker than by its log."""
    process: subprocess.Popen[bytes] | None = None

    def url(self, name: str, *, role: str = "tagrpo") -> str:
        return f"postgresql+psycopg://{role}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        settings = (*_QUICK, "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}")
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            command = [self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port), *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, user=self.user, cwd=self.folder)
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            assert self.process.poll() is None, (self.folder / "log").read_text()

    def stop(self, *, how: str = "fast") -> None:
        """Stop the server: `fast` ends connections first, `immediate` ends as a crash does."""
        if self.process is not None:
            self.process.send_signal({"fast": 2, "immediate": 3}[how])
            self.process.wait(60)

    def admin(self) -> Engine:
        """An engine for commands on the cluster."""
        return create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")

    def run(self, *statements: str) -> None:
        engine = self.admin()
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()

    def empty(self, *, schema: bool = True) -> str:
        """Return the URL of a new database, with tagrpo's tables."""
        name = f"t{os.getpid()}_{next(_numbers)}"
        template = "tagrpo_empty" if schema else "template0"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}{self.strategy}")
        return self.url(name)

    def copy(self, url: str) -> str:
        """Return the URL of a copy of a database; connections to it are ended."""
        name, source = f"t{os.getpid()}_{next(_numbers)}", url.rpartition("/")[2]
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{source}'"
        self.run(end, f"CREATE DATABASE {name} TEMPLATE {source}{self.strategy}")
        return self.url(name)

    def drop(self, url: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")


@contextmanager
def start_cluster() -> Iterator[Cluster]:
    """Run a cluster of its own, gone at the end."""
    place = programs()
    assert place is not None, "no PostgreSQL: Debian's package is `postgresql`"
    user = next((name for name in _USERS if _is_there(name)), None) if os.geteuid() == 0 else None
    folder = Path(
        tempfile.mkdtemp(prefix="tagrpo-pg-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else "/tmp")
    )
    if user is not None:
        shutil.chown(folder, user)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    cluster = Cluster(folder, port, place, user)
    try:
        command = [place / "initdb", "-D", folder / "data", *_FORM]
        subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)
        cluster.start()
        if int((folder / "data" / "PG_VERSION").read_text()) >= 15:
            cluster.strategy = " STRATEGY FILE_COPY"
        cluster.run("CREATE DATABASE tagrpo_empty TEMPLATE template0")
        Database.open(cluster.url("tagrpo_empty")).close()
        yield cluster
    finally:
        cluster.stop(how="immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _is_there(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
