"""What tests of trainings share: forks of a process that has imported what verl needs, and a quick hydra."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from forks import Forks


@pytest.fixture(scope="session")
def verl_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Forks"]:
    """A server of forks with what Ray's workers have imported: verl itself is imported by each."""
    from forks import started_forks

    with started_forks(tmp_path_factory.mktemp("forks"), "fork_server.MODULES") as forks:
        yield forks


@pytest.fixture
def quick_hydra() -> None:
    """Have this process read each file of verl's configuration once."""
    import quick_hydra

    quick_hydra.install()
