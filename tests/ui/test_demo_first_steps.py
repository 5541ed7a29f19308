"""What the first steps of training saw of the forecast, and when it is called missed."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluator.reports.documents.document import Text
from evaluator.signal.forecast import ForecastRow, GroupShape
from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, ORIGINAL_GROUP
from sandbox.demo.plan import DemoPlan
from ui.demo_report.findings import Trained
from ui.demo_report.first_steps import blocks, compare_first_steps

SHARE = "tagrpo/zero/group/share"
PLAN = DemoPlan(Path("demo"), recipes=("grpo", "ta_grpo", "ta_grpo_star", "grpo_ds"), seeds=2)
FORESEEN = tuple(
    ForecastRow(name, n, g, GroupShape(name, n, g).responses, share, share / 2, share * 1.5, 192)
    for name, n, g, share in (
        (ORIGINAL_GROUP, 0, 2, 0.4),
        (JOINT_GROUP, 3, 2, 0.04),
        (MATCHED_GROUP, 0, 8, 0.1),
    )
)


def found(shares):
    steps = tuple({SHARE: share} for share in shares)
    trained = {each.name: Trained(steps, 100) for each in PLAN.trainings()}
    return SimpleNamespace(forecast=FORESEEN, trained=trained)


def test_only_groups_that_were_foreseen_are_compared():
    rows = compare_first_steps(PLAN, found([0.25, 0.5, 0.25, 0.0, 0.25, 1.0, 1.0]))
    assert [(row.run, row.foreseen.group) for row in rows] == [
        ("grpo-s1", MATCHED_GROUP),
        ("ta_grpo-s1", JOINT_GROUP),
    ]
    assert {(row.equal, row.groups) for row in rows} == {(20, 80)}  # five steps of 16 groups
    assert rows[0].low == pytest.approx(0.1599, abs=1e-3)  # Clopper-Pearson
    assert rows[0].high == pytest.approx(0.3594, abs=1e-3)


def test_it_missed_where_the_intervals_have_nothing_in_common():
    first, second = compare_first_steps(PLAN, found([0.25] * 5))
    assert first.missed  # [.16, .36] beside [.05, .15]
    assert second.missed
    assert not replace(first, low=0.14).missed
    said = [block.text for block in blocks([replace(first, low=0.14), second]) if isinstance(block, Text)]
    assert len(said) == 2
    assert "The forecast was off for joint, (N+1)*G = 8." in said[1]
    assert len(blocks([replace(first, low=0.14)])) == 2
