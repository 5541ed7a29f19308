"""All tests of this folder are marked, and those that take longest begin."""

from pathlib import Path

import pytest

LONGEST = (
    "test_real_model.py",
    "test_training_run.py",
    "test_verl_proof.py",
    "test_sandbox_training.py",
    "test_demo.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark and order them, so that at the end no process waits for a long one."""
    here = Path(__file__).parent
    mine = [item for item in items if item.path.parent == here]
    for item in mine:
        item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))
    mine.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    items[:] = [*mine, *(item for item in items if item.path.parent != here)]


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Return a folder with the model and the data of the proofs on verl."""
    import verl_proof

    return verl_proof.save_place(tmp_path_factory.mktemp("proof"))
