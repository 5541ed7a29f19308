"""Shared by all tests: where the real data lies, and that a skip fails the full run.

The helpers in tests/support are importable by name (`from openai_server import OpenAIServer`). They are no
package: some distributions install a top-level `tests`, which would hide ours.
"""

import asyncio
import atexit
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter
from functools import cache, partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import create_engine
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from service.database import sqlite

gc.disable()  # until all is imported: a sixth of the time that takes

# A busy machine makes no property false.
settings.register_profile("tagrpo", deadline=None)
settings.load_profile("tagrpo")

# `nohup` and background jobs of a shell ignore these signals, which tests send.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What tests' Hubs answer must not end in the user's cache. Before huggingface_hub is imported.
_CACHE = tempfile.mkdtemp(prefix="tagrpo-hub-")
os.environ["HF_HOME"] = _CACHE
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)

# Tests run in as many processes as there are cores; threads of torch would only wait for one another. Before
# torch is imported, and for the programs that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests open thousands of databases: compile a statement once for all of them, and look up a version once.
SQLiteDialect.__hash__ = lambda dialect: hash(type(dialect))
SQLiteDialect.__eq__ = lambda dialect, other: type(dialect) is type(other)
sqlite.create_engine = partial(create_engine, execution_options={"compiled_cache": {}})
metadata.version = cache(metadata.version)

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
DATA = Path(os.environ.get("TAGRPO_DATA", Path(__file__).parents[2] / "shared" / "data"))
CONFORMANCE = Path(os.environ.get("TAGRPO_CONFORMANCE", Path(__file__).parents[2] / "shared" / "conformance"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--db postgresql`: tests' databases are those of a private cluster, which the first test starts."""
    parser.addoption("--db", choices=("sqlite", "postgresql"), default="sqlite")


@pytest.fixture(scope="session")
def cluster():
    """A private PostgreSQL; skip where its programs or psycopg are absent."""
    from postgres_cluster import programs, start_cluster

    if programs() is None:
        pytest.skip("no PostgreSQL; Debian's package is `postgresql`")
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed; the extra `postgresql` has it")
    with start_cluster() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def database_kind(request):
    """With `--db postgresql`, have whatever tests open as a file be a database of the cluster."""
    if request.config.getoption("db") == "postgresql":
        from postgres_redirect import install

        install(request.getfixturevalue("cluster"))


@pytest.fixture(autouse=True)
def databases_dropped(request):
    """With `--db postgresql`, drop the databases of a test's own folder behind it."""
    if "tmp_path" not in request.fixturenames or request.config.getoption("db") != "postgresql":
        yield
        return
    from postgres_redirect import drop_databases

    cluster, folder = request.getfixturevalue("cluster"), request.getfixturevalue("tmp_path")
    yield
    drop_databases(cluster, folder)


@pytest.fixture(scope="session")
def data_folder():
    """Return the folder of real data; skip where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"real data not found at {DATA}; set TAGRPO_DATA to its folder")
    return DATA


@pytest.fixture(scope="session")
def conformance_folder():
    """Return the folder of numeric test vectors; skip where it is absent."""
    if not CONFORMANCE.is_dir():
        pytest.skip(f"test vectors not found at {CONFORMANCE}; set TAGRPO_CONFORMANCE to their folder")
    return CONFORMANCE


@pytest.fixture
def db(tmp_path):
    """An empty database, in `t.db`."""
    from runs import open_empty

    with open_empty(tmp_path / "t.db") as database:
        yield database


def _is_for_a_server(item: pytest.Item) -> bool:
    """Return whether a test may have a database that `--db postgresql` moves: one in a folder of its own."""
    folders = {"tmp_path", "tmp_path_factory"}
    return item.get_closest_marker("sqlite") is None and not folders.isdisjoint(item.fixturenames)  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put slow files first, skip tests of absent packages, leave out what `--db postgresql` does not test."""
    slow = Counter(item.path for item in items if any(map(item.get_closest_marker, ("slow", "browser"))))
    items.sort(key=lambda item: (item.get_closest_marker("e2e") is None, -slow[item.path]))
    if config.getoption("db") == "postgresql":
        config.hook.pytest_deselected(items=[item for item in items if not _is_for_a_server(item)])
        items[:] = [item for item in items if _is_for_a_server(item)]
    for marker, package, way in (
        ("bubblewrap", "bwrap", "Debian's package is `bubblewrap`"),
        ("vllm", "vllm", "`make test VLLM=1` makes an environment with it"),
        ("trl", "trl", "`make test FULL=1` installs it in a folder of its own"),
        ("inspect", "inspect_ai", "the extra `inspect` has it, in an environment of its own"),
        ("verifiers", "verifiers", "the extra `verifiers` has it"),
    ):
        if find_spec(package) is None and shutil.which(package) is None:
            skip = pytest.mark.skip(reason=f"{package} is not installed; {way}")
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Have no collection of garbage look through all that was imported, again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With TAGRPO_NO_SKIP=1 a skipped test fails the run: nothing may go untested in silence."""
    if os.environ.get("TAGRPO_NO_SKIP") != "1" or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", [])) if reporter else 0
    if skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{skipped} skipped tests: TAGRPO_NO_SKIP=1 makes that a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
