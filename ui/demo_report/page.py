"""The demo's report: its results, in the order of the steps."""

import os
import platform
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from evaluator.evals.sources import BOX
from evaluator.reports.comparison_layout import ahead
from evaluator.reports.documents.document import (
    ABSENT,
    Block,
    Commands,
    Document,
    Heading,
    Picture,
    Points,
    Table,
    Text,
    joined,
    number,
    percent,
    points,
    span,
)
from evaluator.reports.records import curve_rows
from evaluator.signal.cost import CostRow
from evaluator.signal.diversity import densities
from evaluator.signal.zero_gradient import JOINT_GROUP, NEIGHBOR_GROUP, ORIGINAL_GROUP
from sandbox.demo.plan import BASE, KS, DemoPlan, G
from sandbox.demo.steps import Step, speed_settings
from trainer_adapter.methods.recipes import RECIPES
from ui.charts.densities import density_chart
from ui.charts.difficulty import difficulty_chart
from ui.charts.eval_curves import curve_chart
from ui.demo_report import first_steps, neighbors
from ui.demo_report.findings import Findings
from ui.demo_report.pictures import share_chart, training_chart

LINES_SHOWN = 8
"""Maximum lines of a chart: more cannot be distinguished."""


def demo_document(plan: DemoPlan, findings: Findings, steps: Sequence[tuple[Step, float]]) -> Document:
    """Return the report of a finished demo.

    Args:
        steps: all steps with the seconds each took.
    """
    sections = {
        "Which candidates became neighbors": neighbors.blocks(findings.score, findings.neighbor_set),
        "Forecast from the pilot": _pilot(plan, findings),
        "Training": _training(plan, findings),
        "Held-out questions": _heldout(plan, findings),
        "Training signal after training": _signal(findings),
        "Next steps": _further(plan),
        "All commands": _commands(steps),
    }
    blocks = _intro(plan, findings, steps)
    for title, part in sections.items():
        blocks += [Heading(title), *part]
    return Document(blocks, title="A tour of TA-GRPO on a laptop")


def _intro(plan: DemoPlan, findings: Findings, steps: Sequence[tuple[Step, float]]) -> list[Block]:
    size, minutes = plan.size, sum(seconds for _, seconds in steps) / 60
    return [
        Text(
            f"Sandbox world {size.world}: {size.train} training and {size.heldout} held-out word "
            f"problems, a policy of a few hundred thousand weights, and {size.responses:,} responses per "
            f"training run, with verl on the CPU. Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by tagrpo "
            f"{version('tagrpo')} on {platform.machine()} with {os.cpu_count()} cores; the steps took "
            f"{minutes:.1f} minutes."
        ),
        Text("On the held-out questions, with 95% intervals:"),
        _scores(findings, (1, 8, 32)),
        Points(tuple(f"{c.label_a} against {c.label_b}: {ahead(c)}." for c in findings.comparisons)),
        Text(_caution(plan)),
    ]


def _caution(plan: DemoPlan) -> str:
    caution = (
        "The intervals are for new questions of the same kind, with exactly these models. They do not cover "
        "the variation between training runs: "
    )
    if plan.seeds == 1:
        caution += (
            "**one seed per recipe proves nothing about a recipe.** Two runs of the same recipe can "
            "differ more than the recipes here. Use `--seeds 3` to see how much."
        )
    else:
        caution += (
            f"the {plan.seeds} seeds show this variation, but they are few. Compare the difference between "
            "recipes with the spread between seeds."
        )
    return (
        f"{caution} A world with eight phrasings is not a benchmark: look at the mechanism, not the ranking."
    )


def _scores(findings: Findings, ks: Sequence[int]) -> Table:
    rows = []
    for line in findings.report.lines:
        cells = []
        for k in ks:
            score = line.at(k)
            cells.append(f"{percent(score.value)} {span(score.low, score.high)}")
        shares = line.entry.sources.shares
        rows.append((line.label, *cells, percent(None if shares is None else shares[BOX])))
    return Table(("model", *(f"pass@{k}" for k in ks), "answers in a box"), tuple(rows))


def _pilot(plan: DemoPlan, findings: Findings) -> list[Block]:
    rows = [
        {
            "label": f"{row.group} = {row.responses}",
            "share": row.share,
            "low": row.low,
            "high": row.high,
        }
        for row in findings.forecast
    ]
    audit = findings.audit
    spread = audit.spread
    blocks: list[Block] = [
        Text(
            f"From {plan.size.pilot} responses to every prompt: the share of questions that would give no "
            "gradient, because all their responses get the same reward. A joint group beats G responses "
            "mainly because it is larger. The fair comparison is the same number of responses to the "
            "question alone."
        ),
        Picture(
            "forecast",
            "Predicted share of questions without a gradient, by group",
            share_chart(
                rows,
                title="Questions without a gradient, predicted before training",
                subtitle=f"G = {G}, N = 3; bars: 95% interval",
                x_title="share of questions",
            ),
        ),
    ]
    seen = first_steps.compare_first_steps(plan, findings)
    if seen:
        blocks += first_steps.blocks(seen)
    return [
        *blocks,
        Text(
            f"Neighbors shift difficulty by {spread.shift.mean:+.2f} logits [{spread.mean_low:+.2f}, "
            f"{spread.mean_high:+.2f}] on average, with a standard deviation of {spread.shift.sd:.2f} "
            f"[{spread.sd_low:.2f}, "
            f"{spread.sd_high:.2f}]{f' ({spread.shift.at_bound})' if spread.shift.at_bound else ''}. "
            f"{len(audit.flagged)} of {len(audit.neighbors):,} are flagged as implausibly easy or hard at a "
            f"false-discovery rate of {audit.fdr:.0%}."
        ),
        Picture(
            "difficulty",
            "Success rate of each neighbor against that of its original",
            difficulty_chart(list(map(vars, audit.neighbors))).to_dict(),
        ),
    ]


def _training(plan: DemoPlan, findings: Findings) -> list[Block]:
    charted = dict(list(findings.trained.items())[:LINES_SHOWN])
    rows = []
    for training in plan.trainings():
        trained = findings.trained[training.name]
        rows.append(
            (
                training.name,
                f"{trained.rollouts:,}",
                f"{len(trained.steps):,}",
                percent(trained.mean("tagrpo/correct/mean", slice(trained.quarter))),
                percent(trained.mean("tagrpo/correct/mean", slice(-trained.quarter, None))),
                percent(trained.mean("tagrpo/zero/group/share", slice(trained.quarter))),
                percent(trained.mean("tagrpo/zero/group/share")),
                number(trained.mean("perf/time_per_step") or trained.mean("timing_s/step")),
            )
        )
    return [
        Points(tuple(f"`{name}`: {RECIPES[name].summary}." for name in plan.recipes)),
        Picture(
            "training",
            "Correct responses and groups without a gradient, by responses sampled in training",
            training_chart(charted),
        ),
        *_left_out(len(findings.trained), "trainings"),
        Table(
            (
                "run",
                "responses",
                "steps",
                "correct, first quarter",
                "correct, last quarter",
                "no gradient, first quarter",
                "no gradient, all steps",
                "seconds per step",
            ),
            tuple(rows),
        ),
        Text(
            "Shares of correct responses refer to training prompts, which include neighbors if the recipe "
            "samples them. So compare recipes on the held-out questions only. Training runs in parallel "
            "shared the cores, which affects their times."
        ),
        *_rescued(findings),
    ]


def _rescued(findings: Findings) -> list[Block]:
    """Report which all-wrong questions neighbors rescued, for trainings that sample in stages."""
    lines = []
    for name, trained in findings.trained.items():
        dead, revived = (trained.mean(f"tagrpo/rescue/{what}_share") for what in ("dead", "revived"))
        if dead is not None:
            lines.append(
                f"`{name}`: for {percent(dead)} of the questions, the first half of the responses was all "
                "wrong. The recipe then sampled their neighbors, and at least one neighbor got a correct "
                f"response for {percent(revived)} of them."
            )
    return [Points(tuple(lines))] if lines else []


def _left_out(there: int, what: str) -> list[Block]:
    """Say that a chart does not show all lines, if so."""
    if there <= LINES_SHOWN:
        return []
    return [Text(f"The chart shows only the first {LINES_SHOWN} of {there} {what}.")]


def _heldout(plan: DemoPlan, findings: Findings) -> list[Block]:
    labels = findings.report.labels[:LINES_SHOWN]
    rows_drawn = [row for row in curve_rows(findings.report) if row["label"] in labels]
    blocks: list[Block] = [
        Picture(
            "passk",
            "pass@k of all models on the held-out questions",
            curve_chart(rows_drawn, title="pass@k on held-out questions").to_dict(),
        ),
        *_left_out(len(findings.report.labels), "models"),
        _scores(findings, KS),
    ]
    if plan.seeds > 1:
        blocks += [
            Text(f"Mean over {plan.seeds} seeds, with lowest and highest:"),
            _over_seeds(plan, findings),
        ]
    rows = [
        (
            f"{compared.label_a} - {compared.label_b}",
            *(
                f"{points(point.difference)} {span(point.interval.low, point.interval.high, points)}"
                for point in compared.parts[0].comparison.points
            ),
        )
        for compared in findings.comparisons
    ]
    blocks += [
        Text("Paired differences in percentage points, question by question, with 95% intervals:"),
        Table(("difference", *(f"pass@{k}" for k in KS)), tuple(rows)),
    ]
    return blocks


def _over_seeds(plan: DemoPlan, findings: Findings) -> Table:
    rows = []
    for recipe in plan.recipes:
        names = [each.name for each in plan.trainings() if each.recipe == recipe]
        lines = [line for line in findings.report.lines if line.label in names]
        cells = []
        for k in KS:
            values = [line.at(k).value for line in lines]
            cells.append(f"{percent(sum(values) / len(values))} {span(min(values), max(values))}")
        rows.append((recipe, *cells))
    return Table(("recipe", *(f"pass@{k}" for k in KS)), tuple(rows))


def _signal(findings: Findings) -> list[Block]:
    groups = (ORIGINAL_GROUP, NEIGHBOR_GROUP, JOINT_GROUP)
    shares, costs, rows = [], [], []
    for label, zero, spread, cost in zip(
        findings.labels, findings.shares, findings.diversities, findings.costs, strict=True
    ):
        by_group = {row.group: row for row in zero.shares if row.variant is None}
        cells = []
        for group in groups:
            row = by_group.get(group)
            cells.append(ABSENT if row is None else f"{percent(row.share)} {span(row.low, row.high)}")
        shares.append((label, *cells, f"{max(row.questions for row in by_group.values()):,}"))
        rows.append(
            (
                label,
                *(
                    f"{mean.value:.3f} {span(mean.low, mean.high, '{:.3f}'.format)}"
                    for mean in spread.means.values()
                ),
            )
        )
        costs.append((label, {row.method: row for row in cost.rows}))
    methods = list(dict.fromkeys(method for _, by_method in costs for method in by_method))
    curves = [
        {**row, "checkpoint": label}
        for label, result in zip(findings.labels, findings.diversities, strict=True)
        for row in densities(result)
    ]
    return [
        Text(
            "Measured on training questions with 3 neighbors. Shares of questions whose responses all get "
            f"the same reward (G = {G}, N = 3), averaged exactly over all subsets of the responses:"
        ),
        Table(("model", *groups, "questions"), tuple(shares)),
        Text("Diversity: mean cosine distance between responses, TF-IDF over words and numbers."),
        Table(("model", *findings.diversities[0].means), tuple(rows)),
        Picture(
            "diversity",
            "Densities of distances between responses, by model",
            density_chart(curves).to_dict(),
        ),
        Text("Responses needed per group with mixed rewards, forecast from each model, with 95% intervals:"),
        Table(("model", *methods), tuple((label, *map(_cost, map(of.get, methods))) for label, of in costs)),
    ]


def _cost(row: CostRow | None) -> str:
    if row is None or row.responses is None:
        return ABSENT
    ends = ", ".join(
        "more" if end is None else number(end) for end in (row.responses_low, row.responses_high)
    )
    return f"{number(row.responses)} [{ends}]"


def _further(plan: DemoPlan) -> list[Block]:
    db = shlex.quote(str(plan.database))
    last = plan.trainings()[-1].name
    return [
        Text("Browse all results in the UI, including every response:"),
        Commands((f"tagrpo ui --db {db}",)),
        Text("Or on the command line:"),
        Commands(
            (
                f"tagrpo eval show {BASE}.heldout 0 --grade wrong --db {db}",
                f"tagrpo train rollouts {last} --step 1 --limit 10 --db {db}",
                f"tagrpo train metrics {last} --metric 'tagrpo/anchor/*' --db {db}",
                f"tagrpo rephrase list --run candidates --status rejected --limit 5 --db {db}",
            )
        ),
    ]


def _commands(steps: Sequence[tuple[Step, float]]) -> list[Block]:
    slowest = sorted(steps, key=lambda step: -step[1])[:3]
    return [
        Text(
            "The demo ran these commands in this order; interrupted trainings resumed from their last "
            "checkpoint. The longest steps were "
            f"{joined([f'{step.title} ({seconds:.0f} s)' for step, seconds in slowest])}. To repeat a "
            "command, change its folder or name, because existing results are never overwritten. The "
            "environment variables affect only speed."
        ),
        Commands((f"export {speed_settings()}", *(step.shell for step, _ in steps))),
    ]
