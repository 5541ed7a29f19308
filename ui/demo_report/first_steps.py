"""The pilot's forecast compared with the first training steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.passk.exact_interval import exact_interval
from evaluator.reports.documents.document import Block, Table, Text, joined, percent, span
from evaluator.signal.forecast import ForecastRow
from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, ORIGINAL_GROUP
from sandbox.demo.plan import NEIGHBORS, DemoPlan, G, demo_recipe
from ui.demo_report.findings import Findings

STEPS = 5
"""Few, since the policy changes; enough for some dozens of groups."""


@dataclass(frozen=True)
class FirstSteps:
    """A group's share without a gradient: forecast, and in the first steps of a training.

    `low` and `high` are the exact 95% interval of `equal` of `groups`.
    """

    foreseen: ForecastRow
    run: str
    equal: int
    groups: int
    low: float
    high: float

    @property
    def missed(self) -> bool:
        """Whether the two intervals do not overlap."""
        return self.low > self.foreseen.high or self.high < self.foreseen.low


def compare_first_steps(plan: DemoPlan, findings: Findings) -> list[FirstSteps]:
    """Return the first seed's trainings whose groups have a forecast."""
    by_name = {row.group: row for row in findings.forecast}
    rows = []
    for training in plan.trainings():
        row = by_name.get(_group(training.recipe) or "")
        steps = findings.trained[training.name].steps[:STEPS]
        shares = [step["tagrpo/zero/group/share"] for step in steps if "tagrpo/zero/group/share" in step]
        if training.seed > 1 or row is None or not shares:
            continue
        groups = plan.size.questions_a_step * len(shares)
        equal = round(plan.size.questions_a_step * sum(shares))
        low, high = exact_interval(equal, groups)
        rows.append(FirstSteps(row, training.name, equal, groups, low, high))
    return rows


def blocks(rows: Sequence[FirstSteps]) -> list[Block]:
    """Return the table, and a comment on missed forecasts."""
    table = Table(
        ("group", "foreseen", "training", "its first groups"),
        tuple(
            (
                f"{row.foreseen.group} = {row.foreseen.responses}",
                f"{percent(row.foreseen.share)} {span(row.foreseen.low, row.foreseen.high)}",
                row.run,
                f"{percent(row.equal / row.groups)} {span(row.low, row.high)}, {row.equal} of {row.groups}",
            )
            for row in rows
        ),
    )
    lead = "The same shares in the first training steps, before the policy has changed much:"
    missed = [f"{row.foreseen.group} = {row.foreseen.responses}" for row in rows if row.missed]
    content: list[Block] = [Text(lead), table]
    if missed:
        content.append(
            Text(
                f"The forecast was off for {joined(missed)}. Its intervals cover the choice of questions "
                "only. With few responses per prompt, success rates of .01 and .05 look alike, and large "
                "groups depend on the difference. If this matters, sample as many pilot responses as "
                "the group has."
            )
        )
    return content


def _group(recipe: str) -> str | None:
    """Return the group that a recipe normalises over, if it has a forecast; otherwise None."""
    of = demo_recipe(recipe)
    if of.drops_dead_groups or of.sampling != "split":
        return None  # its groups depend on the first responses
    if of.neighbors == 0:
        return {G: ORIGINAL_GROUP, G * (NEIGHBORS + 1): MATCHED_GROUP}.get(of.rollouts)
    return JOINT_GROUP if of.group == "joint" and of.rollouts == G * (NEIGHBORS + 1) else None
