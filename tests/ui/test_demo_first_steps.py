"""What the first steps of training saw of the forecast."""

from pathlib import Path

from evaluator.signal.forecast import ForecastRow
from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, ORIGINAL_GROUP
from sandbox.demo.plan import DemoPlan
from ui.demo_report.page import first_steps

SHARE = "tagrpo/zero/group/share"
PLAN = DemoPlan(Path("demo"), recipes=("grpo", "ta_grpo", "ta_grpo_star", "grpo_ds"), seeds=2)
FORESEEN = tuple(
    ForecastRow(name, n, g, (n + 1) * g, share, share / 2, share * 1.5, 192)
    for name, n, g, share in (
        (ORIGINAL_GROUP, 0, 2, 0.4),
        (JOINT_GROUP, 3, 2, 0.04),
        (MATCHED_GROUP, 0, 8, 0.1),
    )
)


def compare(shares):
    trained = {each.name: ([{SHARE: share} for share in shares], 100) for each in PLAN.trainings()}
    return first_steps(PLAN, FORESEEN, trained)


def test_only_groups_that_were_foreseen_are_compared():
    lead, table = compare([0.25, 0.5, 0.25, 0.0, 0.25, 1.0, 1.0])
    assert "first training steps" in lead.text
    # five steps of 16 groups, and the interval of Clopper and Pearson
    assert [(group, run, seen) for group, _, run, seen in table.rows] == [
        (f"{MATCHED_GROUP} = 8", "grpo-s1", "25.0% [16.0, 35.9], 20 of 80"),
        (f"{JOINT_GROUP} = 8", "ta_grpo-s1", "25.0% [16.0, 35.9], 20 of 80"),
    ]

    assert first_steps(PLAN, (), {each.name: ([], 100) for each in PLAN.trainings()}) == []
