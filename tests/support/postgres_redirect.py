"""Tests' databases on PostgreSQL: what a test opens as a file is one of a cluster's databases.

The file that a test names holds the name of its database then, so that it is there, and another file with the
same content (a copy) gets a copy of the database. Pages that show such a file show the database. Programs
that tests start do the same, by the folder `tests/support/redirected` on their PYTHONPATH. Files of SQLite
stay what they are.
"""

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import Any

from postgres_cluster import Cluster
from sqlalchemy import URL

from service.database import Database
from service.database.place import parse_place
from ui.pages.state import settings

_MARK = "database of a test on PostgreSQL: "
_MOST_BYTES = 4_096  # of a file that holds the name of a database


def install(cluster: Cluster) -> None:
    """Send what is opened from now on to a cluster."""
    opened = Database.open

    def redirected(place: Any, *, create: bool = True, read_only: bool = False) -> Database:
        place = parse_place(place)
        if isinstance(place, Path) and place.parent.is_dir() and not place.is_dir():
            place = _server(cluster, place.resolve(), schema=create and not read_only) or place
        return opened(place, create=create, read_only=read_only)

    Database.open = staticmethod(redirected)  # type: ignore[method-assign]
    current = settings.current

    def shown() -> settings.PageSettings:
        given = current()
        place = given.database
        server = _server(cluster, place.resolve(), schema=False) if isinstance(place, Path) else None
        return given if server is None else dataclasses.replace(given, database=server)

    settings.current = shown
    described = {**vars(cluster), "folder": str(cluster.folder), "programs": str(cluster.programs)}
    described["process"] = None
    os.environ["TAGRPO_TEST_CLUSTER"] = json.dumps(described)
    folder = str(Path(__file__).with_name("redirected"))
    paths = [folder, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def drop_databases(cluster: Cluster, folder: Path) -> None:
    """Drop the databases of the files below a folder: those of a whole suite would fill the memory."""
    urls = []
    for path in folder.rglob("*"):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            continue
        content = path.read_bytes()
        if content.startswith(_MARK.encode()):
            urls.append(json.loads(content.decode().removeprefix(_MARK))["url"])
    cluster.run(*(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)" for url in set(urls)))


def install_from_environment() -> None:
    """Do the same in a program that a test starts."""
    described = json.loads(os.environ["TAGRPO_TEST_CLUSTER"])
    places = {name: Path(described[name]) for name in ("folder", "programs")}
    install(Cluster(**{**described, **places}))


def _server(cluster: Cluster, path: Path, *, schema: bool) -> URL | None:
    content = path.read_bytes() if path.exists() else b""
    if content and not content.startswith(_MARK.encode()):
        return None  # a file of SQLite, or of nothing
    if not content and not schema:
        return None  # missing, or empty
    marked = json.loads(content.decode().removeprefix(_MARK)) if content else None
    if marked is not None and marked["path"] == str(path):
        url = marked["url"]
    else:
        url = cluster.empty() if marked is None else cluster.copy(marked["url"])
        made = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        made.write_text(_MARK + json.dumps({"path": str(path), "url": url}))
        if content:
            made.replace(path)
        else:
            try:
                os.link(made, path)  # of several programs one makes it
            except FileExistsError:
                return _server(cluster, path, schema=schema)
            finally:
                made.unlink()
    place = parse_place(url)
    assert isinstance(place, URL)
    return place
