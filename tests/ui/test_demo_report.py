"""The pictures of the demo's report."""

import pytest

from ui.demo_report.findings import Trained
from ui.demo_report.pictures import training_chart


def test_a_training_is_drawn_as_means_of_steps() -> None:
    steps = [{"tagrpo/correct/mean": step / 40, "tagrpo/zero/group/share": 0.25} for step in range(40)]
    spec = training_chart({"a": Trained(tuple(steps), 400), "b": Trained(tuple(steps[:5]), 400)})
    values = [
        row
        for layer in spec["concat"][0]["layer"]
        for row in (layer.get("data") or {}).get("values", [])
        if row.get("label") == "a" and "responses" in row
    ]
    drawn = {row["responses"]: row["value"] for row in values}
    assert drawn[20] == pytest.approx((0 + 1 + 2 + 3) / 4 / 40)
    assert max(drawn) == 380
    assert len(drawn) == 10
