import threading

import pytest

from trainer_adapter.verl.time_limit import call_within


def test_what_comes_back_in_time_is_returned_and_raised_as_it_is() -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    assert call_within(60, lambda: 7, "too late") == 7
    with pytest.raises(TimeoutError, match="of its own"):
        call_within(60, fail, "too late")


def test_what_never_comes_back_is_left_behind() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError, match="step 3: too late"):
        call_within(0.01, released.wait, "step 3: too late")
    released.set()
