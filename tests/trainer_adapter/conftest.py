"""What tests of trainings share: a quick hydra."""

import pytest


@pytest.fixture
def quick_hydra():
    """Have this process read each file of verl's configuration once."""
    import quick_hydra

    quick_hydra.install()
