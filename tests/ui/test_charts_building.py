"""Specifications built without Altair's checks: the same as with them."""

import pytest
from altair.utils import schemapi

from ui.charts.building import build_spec
from ui.charts.intervals import difference_chart

ROWS = [
    {"k": k, "difference": k / 10, "low": (k - 1) / 10, "high": (k + 1) / 10, "wins": 3, "losses": 1}
    for k in (1, 2)
]


def test_the_specification_is_the_one_that_is_checked_and_checks_go_on_after():
    assert build_spec(difference_chart, ROWS, title="aime") == difference_chart(ROWS, title="aime").to_dict()
    assert schemapi.DEBUG_MODE


def test_checks_go_on_after_an_error():
    with pytest.raises(ZeroDivisionError):
        build_spec(lambda: 1 / 0)
    assert schemapi.DEBUG_MODE
