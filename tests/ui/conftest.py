"""What a test of the pages has opened is forgotten after it."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _forget_pages() -> Iterator[None]:
    yield
    if (settings := sys.modules.get("ui.pages.state.settings")) is not None:
        settings.use(None)
    if (database := sys.modules.get("ui.pages.state.database")) is not None:
        database.forget()
