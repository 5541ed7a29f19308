"""The command line in an empty folder; databases built once for all pages, and forgotten after a test."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from candidates import add_candidates
from command_line import run_here
from runs import open_empty
from world_runs import world_server, write_sums

Make = Callable[[Path], object]


@pytest.fixture(autouse=True)
def own_main():
    """Give `__main__` back, which a page under test takes: grading workers that start later import it."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def command_line(tmp_path, monkeypatch):
    """Return `tagrpo` in an empty folder, with no key and no database in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TAGRPO_DB", "HF_TOKEN", "OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return run_here


@pytest.fixture
def cli(command_line):
    """Return the same; a file whose commands are of one group has its own `cli`."""
    return command_line


@pytest.fixture
def db(tmp_path):
    """Return where the database of a test is."""
    return tmp_path / "t.db"


@pytest.fixture
def neighbors(command_line, db, monkeypatch):
    """Return `tagrpo rephrase` beside an empty database that it takes, for a reviewer called ada."""
    monkeypatch.setenv("TAGRPO_DB", str(db))
    monkeypatch.setenv("TAGRPO_REVIEWER", "ada")
    open_empty(db).close()
    return command_line.within("rephrase")


@pytest.fixture
def run(neighbors, db):
    """Store a run with candidates of every verdict there."""
    return add_candidates(db)


@pytest.fixture
def six_sums(command_line):
    """Write six questions of the small world as sums.jsonl."""
    return write_sums(Path("sums.jsonl"), 6)


@pytest.fixture
def world_set(command_line, six_sums, db, monkeypatch):
    """Import them as the set `world` into `db`, which commands take."""
    monkeypatch.setenv("TAGRPO_DB", str(db))
    assert command_line("questions", "import", six_sums, "--name", "world").code == 0


@pytest.fixture(scope="module")
def server():
    """Return the address of a server that answers questions of the small world."""
    with world_server("--version", "0.11.0") as url:
        yield url


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return the database that a function writes as `t.db` into a folder; it is called once. Only to read."""
    paths: dict[Make, Path] = {}

    def database(make: Make) -> Path:
        if make not in paths:
            folder = tmp_path_factory.mktemp("built")
            make(folder)
            paths[make] = folder / "t.db"
        return paths[make]

    return database


@pytest.fixture
def copied(built, tmp_path):
    """Return a copy of such a database, and let the pages show it."""

    def database(make: Make) -> Path:
        from ui.pages.state import settings

        path = Path(shutil.copy(built(make), tmp_path / "t.db"))
        settings.use(settings.PageSettings(path))
        return path

    return database


@pytest.fixture(autouse=True)
def _no_packages_of_components(monkeypatch):
    """Let no test look for components in the metadata of all installed packages: two seconds a page."""
    if "streamlit.testing.v1" in sys.modules:
        from streamlit.components.v2 import manifest_scanner

        monkeypatch.setattr(manifest_scanner, "scan_component_manifests", list)


@pytest.fixture(autouse=True)
def _forget_pages():
    yield
    if (settings := sys.modules.get("ui.pages.state.settings")) is not None:
        settings.use(None)
    if (database := sys.modules.get("ui.pages.state.database")) is not None:
        database.forget()


@pytest.fixture
def page_db(tmp_path):
    """Return an empty database that the pages show."""
    from ui.pages.state import settings

    with open_empty(tmp_path / "t.db") as opened:
        settings.use(settings.PageSettings(tmp_path / "t.db"))
        yield opened
