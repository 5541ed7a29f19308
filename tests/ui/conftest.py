"""Databases that are built once for all tests of the pages; what a test has opened is forgotten after it."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Make = Callable[[Path], object]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
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
def copied(built: Callable[[Make], Path], tmp_path: Path) -> Callable[[Make], Path]:
    """Return a copy of such a database, and let the pages show it."""

    def database(make: Make) -> Path:
        from ui.pages.state import settings

        path = Path(shutil.copy(built(make), tmp_path / "t.db"))
        settings.use(settings.Settings(path))
        return path

    return database


@pytest.fixture(autouse=True)
def _no_packages_of_components(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test look for components in the metadata of all installed packages: two seconds a page."""
    if "streamlit.testing.v1" in sys.modules:
        from streamlit.components.v2 import manifest_scanner

        monkeypatch.setattr(manifest_scanner, "scan_component_manifests", list)


@pytest.fixture(autouse=True)
def _forget_pages() -> Iterator[None]:
    yield
    if (settings := sys.modules.get("ui.pages.state.settings")) is not None:
        settings.use(None)
    if (database := sys.modules.get("ui.pages.state.database")) is not None:
        database.forget()
