"""The demo's report: its results, read from its database, in the order of the steps."""

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from evaluator.evals.counts import BOX
from evaluator.passk.exact_interval import exact_interval
from evaluator.reports.comparing import MethodComparison, ahead, compare_methods
from evaluator.reports.diagnosis_layout import diagnosis_document
from evaluator.reports.documents.document import (
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
    table_of,
)
from evaluator.reports.layout import curve_rows
from evaluator.reports.methods import load_methods
from evaluator.reports.report import NO_PAPER, Report, build_report
from evaluator.signal.diagnosis import Diagnosis, DiagnosisSettings, Part, diagnose
from evaluator.signal.sources.eval_runs import eval_source
from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, NEIGHBOR_GROUP, ORIGINAL_GROUP
from rephraser.run.start import find_neighbor_run
from rephraser.sets import find_set
from rephraser.sets.types import SetHeader
from sandbox.demo.plan import (
    BASE,
    CANDIDATES,
    HELDOUT,
    KS,
    NEIGHBORS,
    PILOT,
    QUESTIONS,
    DemoPlan,
    G,
    comparisons,
    demo_recipe,
)
from sandbox.demo.steps import Step, speed_settings
from sandbox.scoring import OUTCOMES, Score, read_truth, score_run
from service.database import Database
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.record.runs import choose_train_run, open_record
from ui.charts.diagnosis import density_panel, difficulty_chart
from ui.charts.eval_curves import curve_chart
from ui.charts.intervals import rate_dots
from ui.charts.training_steps import step_chart, window_means

PILOT_PARTS: Sequence[Part] = ("forecast", "difficulty", "diversity", "cost")

LINES_SHOWN = 8
"""Maximum lines of a chart: more cannot be distinguished."""

FIRST_STEPS = 5
"""Few, since the policy changes; enough for some dozens of groups."""

POINTS = 10
"""Points of a line: steps are averaged, since a step has few questions."""

LEARNING = {
    "tagrpo/correct/mean": "Correct responses",
    "tagrpo/zero/group/share": "Groups without a gradient",
}
"""Metrics drawn over the steps of training, with their titles."""

Trained = tuple[list[Mapping[str, float]], int]
"""A recorded training: the metrics of its steps, and the number of its responses."""


def demo_document(plan: DemoPlan, steps: Sequence[tuple[Step, float]]) -> Document:
    """Read the results of a finished demo and return its report.

    Args:
        steps: all steps with the seconds each took.

    Raises:
        TagrpoError: a step's results are missing.
    """
    trainings = plan.trainings()
    names = [training.name for training in trainings]
    first_seed = [training.name for training in trainings if training.seed == 1]
    settings = DiagnosisSettings(g=G, n=NEIGHBORS)
    with Database.open(plan.database, create=False) as database:
        with database.read() as session:
            score = score_run(session, find_neighbor_run(session, CANDIDATES), read_truth(plan.truth))
            header = find_set(session, f"{QUESTIONS}@1")
            trained: dict[str, Trained] = {}
            for name in names:
                record = open_record(session, choose_train_run(session, name))
                drawn = int(record.counts().prompts["responses"].sum())
                trained[name] = list(record.metrics().values()), drawn
            methods = load_methods(session, [f"{name}={name}.{HELDOUT}" for name in (BASE, *names)])
        pilot = diagnose(eval_source(database, [f"{PILOT}.{QUESTIONS}-1"]), PILOT_PARTS, settings)
        after = diagnose(
            eval_source(database, [f"{name}.{QUESTIONS}-1" for name in (PILOT, *first_seed)]),
            ["zero_gradient"],
            settings,
        )
    report = build_report(methods, ks=KS, paper=NO_PAPER)
    by_label = {method.label: method for method in methods}
    compared = [compare_methods(by_label[a], by_label[b], ks=KS) for a, b in comparisons(plan)]
    sections = {
        "Which candidates became neighbors": _neighbors(score, header),
        "Forecast from the pilot": _pilot(plan, pilot),
        "Training": [*first_steps(plan, pilot.tables["forecast"], trained), *_training(plan, trained)],
        "Held-out questions": _heldout(plan, report, compared),
        "Training signal after training": _signal(after),
        "Next steps": _further(plan),
        "All commands": _commands(steps),
    }
    blocks = _intro(plan, report, compared, steps)
    for title, part in sections.items():
        blocks += [Heading(title), *part]
    return Document(blocks, title="A tour of TA-GRPO on a laptop")


def _neighbors(score: Score, header: SetHeader) -> list[Block]:
    """Report broken candidates rejected, good ones lost, and the published set."""
    kinds = [group for group in score.kinds if sum(group.outcomes.values())]
    used = [name for name in OUTCOMES if any(group.outcomes[name] for group in (score.broken, score.good))]
    kept = score.broken.kept_out
    counts = header.counts
    sizes = ", ".join(
        f"{count:,} with {size}" for size, count in counts["questions_by_neighbors"].items() if count
    )
    return [
        Text(
            f"Broken candidates rejected: {score.broken.rejected}. Kept out of the set: {kept}, because "
            f"undecided candidates are not published either. **{kept.total - kept.count:,} got through.** "
            f"Good candidates rejected by mistake: {score.good.rejected}; kept out of the set: "
            f"{score.good.kept_out}. The exact 95% intervals assume independent candidates."
        ),
        Picture(
            "caught",
            "Share of broken candidates rejected, by kind of error",
            rate_dots(
                [{"name": group.name, **vars(group.rejected)} for group in kinds if group.rejected.total],
                "share",
                title="Broken candidates that were rejected",
                x_title="share rejected",
                subtitle="By kind of error; bars: exact 95% interval",
            ).to_dict(),
        ),
        table_of(
            (*kinds, score.broken, score.good),
            [
                ("candidates", lambda group: group.name),
                ("number", lambda group: sum(group.outcomes.values())),
                *((name, lambda group, name=name: group.outcomes[name]) for name in used),
            ],
        ),
        Text(
            f"Published as `{header.ref}`, with content hash `{header.content_hash[:16]}`: "
            f"{counts['questions']:,} questions with {counts['neighbors']:,} neighbors. Questions by number "
            f"of neighbors: {sizes}."
        ),
    ]


def _intro(
    plan: DemoPlan,
    report: Report,
    compared: Sequence[MethodComparison],
    steps: Sequence[tuple[Step, float]],
) -> list[Block]:
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
        _scores(report, (1, 8, 32)),
        Points(tuple(f"{c.label_a} against {c.label_b}: {ahead(c)}." for c in compared)),
        Text(_caution(plan)),
    ]


def _caution(plan: DemoPlan) -> str:
    seeds = (
        "**one seed per recipe proves nothing about a recipe.** Use `--seeds 3` to see how much two runs of "
        "a recipe differ."
        if plan.seeds == 1
        else f"compare the difference between recipes with the spread between the {plan.seeds} seeds."
    )
    return (
        "The intervals are for new questions of the same kind, with exactly these models. They do not cover "
        f"the variation between training runs: {seeds} A world with eight phrasings is not a benchmark: look "
        "at the mechanism, not the ranking."
    )


def _scores(report: Report, ks: Sequence[int]) -> Table:
    rows = []
    for line in report.lines:
        cells = []
        for k in ks:
            score = line.at(k)
            cells.append(f"{percent(score.value)} {span(score.low, score.high)}")
        shares = line.entry.sources.shares
        rows.append((line.label, *cells, percent(None if shares is None else shares[BOX])))
    return Table(("model", *(f"pass@{k}" for k in ks), "answers in a box"), tuple(rows))


def _pilot(plan: DemoPlan, pilot: Diagnosis) -> list[Block]:
    """Return the forecast and the audit of difficulty, as `tagrpo diagnose` prints them, with pictures."""
    rows = [{**row, "name": f"{row['group']} = {row['responses']}"} for row in pilot.tables["forecast"]]
    return [
        Text(
            f"The pilot has {plan.size.pilot} responses to every prompt. A joint group beats G responses "
            "mainly because it is larger. The fair comparison is the same number of responses to the "
            "question alone."
        ),
        Picture(
            "forecast",
            "Predicted share of questions without a gradient, by group",
            rate_dots(
                rows,
                "share",
                title="Questions without a gradient, predicted before training",
                x_title="share of questions",
                subtitle=f"G = {G}, N = {NEIGHBORS}; bars: 95% interval",
            ).to_dict(),
        ),
        Picture(
            "difficulty",
            "Success rate of each neighbor against that of its original",
            difficulty_chart(pilot.tables["difficulty_neighbors"]).to_dict(),
        ),
        Picture(
            "diversity",
            "Density of distances between responses",
            density_panel(pilot.tables["diversity_densities"], title="Diversity of responses").to_dict(),
        ),
        *diagnosis_document(pilot).blocks,
    ]


def first_steps(
    plan: DemoPlan, forecast: Sequence[Mapping[str, Any]], trained: Mapping[str, Trained]
) -> list[Block]:
    """Compare the forecast with the first steps of the first seed's trainings; none without a forecast."""
    by_name = {row["group"]: row for row in forecast}
    rows = []
    for training in plan.trainings():
        row = by_name.get(_forecast_group(training.recipe) or "")
        steps = trained[training.name][0][:FIRST_STEPS]
        shares = [step["tagrpo/zero/group/share"] for step in steps if "tagrpo/zero/group/share" in step]
        if training.seed > 1 or row is None or not shares:
            continue
        groups = plan.size.questions_a_step * len(shares)
        equal = round(plan.size.questions_a_step * sum(shares))
        low, high = exact_interval(equal, groups)
        rows.append(
            (
                f"{row['group']} = {row['responses']}",
                f"{percent(row['share'])} {span(row['low'], row['high'])}",
                training.name,
                f"{percent(equal / groups)} {span(low, high)}, {equal} of {groups}",
            )
        )
    if not rows:
        return []
    return [
        Text("The same shares in the first training steps, before the policy has changed much:"),
        Table(("group", "foreseen", "training", "its first groups"), tuple(rows)),
    ]


def _forecast_group(name: str) -> str | None:
    """Return the group that a recipe normalises over, if it has a forecast; otherwise None."""
    recipe = demo_recipe(name)
    if recipe.drops_dead_groups or recipe.sampling != "split":
        return None  # its groups depend on the first responses
    if recipe.neighbors == 0:
        return {G: ORIGINAL_GROUP, G * (NEIGHBORS + 1): MATCHED_GROUP}.get(recipe.rollouts)
    return JOINT_GROUP if recipe.group == "joint" and recipe.rollouts == G * (NEIGHBORS + 1) else None


def _mean(steps: Sequence[Mapping[str, float]], metric: str) -> float | None:
    values = [step[metric] for step in steps if metric in step]
    return sum(values) / len(values) if values else None


def _training(plan: DemoPlan, trained: Mapping[str, Trained]) -> list[Block]:
    rows = []
    for name, (steps, responses) in trained.items():
        quarter = max(1, len(steps) // 4)
        rows.append(
            (
                name,
                f"{responses:,}",
                f"{len(steps):,}",
                percent(_mean(steps[:quarter], "tagrpo/correct/mean")),
                percent(_mean(steps[-quarter:], "tagrpo/correct/mean")),
                percent(_mean(steps[:quarter], "tagrpo/zero/group/share")),
                percent(_mean(steps, "tagrpo/zero/group/share")),
                number(_mean(steps, "perf/time_per_step") or _mean(steps, "timing_s/step")),
            )
        )
    return [
        Points(tuple(f"`{name}`: {RECIPES[name].summary}." for name in plan.recipes)),
        *(_training_picture(trained, metric, title) for metric, title in LEARNING.items()),
        *_left_out(len(trained), "trainings"),
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
            "samples them. So compare recipes on the held-out questions only."
        ),
    ]


def _training_picture(trained: Mapping[str, Trained], metric: str, title: str) -> Picture:
    rows = []
    most = max(len(steps) for steps, _ in trained.values())
    window = max(1, round(most / POINTS))
    for name, (steps, _) in list(trained.items())[:LINES_SHOWN]:
        values = [step.get(metric) for step in steps]
        means = window_means(range(1, len(steps) + 1), values, window)
        rows += [{"label": name, "step": step, "value": value} for step, value in means]
    chart = step_chart(rows, title=title, y_title="share", scale="share", window=window)
    return Picture(metric.replace("/", "-"), f"{title} during training", chart.to_dict())


def _left_out(there: int, what: str) -> list[Block]:
    if there <= LINES_SHOWN:
        return []
    return [Text(f"The chart shows only the first {LINES_SHOWN} of {there} {what}.")]


def _heldout(plan: DemoPlan, report: Report, compared: Sequence[MethodComparison]) -> list[Block]:
    labels = report.labels[:LINES_SHOWN]
    rows_drawn = [row for row in curve_rows(report) if row["label"] in labels]
    blocks: list[Block] = [
        Picture(
            "passk",
            "pass@k of all models on the held-out questions",
            curve_chart(rows_drawn, title="pass@k on held-out questions").to_dict(),
        ),
        *_left_out(len(report.labels), "models"),
        _scores(report, KS),
    ]
    if plan.seeds > 1:
        blocks += [
            Text(f"Mean over {plan.seeds} seeds, with lowest and highest:"),
            _over_seeds(plan, report),
        ]
    rows = [
        (
            f"{pair.label_a} - {pair.label_b}",
            *(
                f"{points(point.difference)} {span(point.interval.low, point.interval.high, points)}"
                for point in pair.parts[0].comparison.points
            ),
        )
        for pair in compared
    ]
    blocks += [
        Text("Paired differences in percentage points, question by question, with 95% intervals:"),
        Table(("difference", *(f"pass@{k}" for k in KS)), tuple(rows)),
    ]
    return blocks


def _over_seeds(plan: DemoPlan, report: Report) -> Table:
    rows = []
    for recipe in plan.recipes:
        names = [each.name for each in plan.trainings() if each.recipe == recipe]
        lines = [line for line in report.lines if line.label in names]
        cells = []
        for k in KS:
            values = [line.at(k).value for line in lines]
            cells.append(f"{percent(sum(values) / len(values))} {span(min(values), max(values))}")
        rows.append((recipe, *cells))
    return Table(("recipe", *(f"pass@{k}" for k in KS)), tuple(rows))


def _signal(after: Diagnosis) -> list[Block]:
    groups = (ORIGINAL_GROUP, NEIGHBOR_GROUP, JOINT_GROUP)
    rows = []
    shares = {(row["checkpoint"], row["group"]): row for row in after.tables["zero_gradient"]}
    for label in dict.fromkeys(label for label, _ in shares):
        mine = [shares[label, name] for name in groups]
        rows.append((label, *(f"{percent(row['share'])} {span(row['low'], row['high'])}" for row in mine)))
    return [
        Text(
            "Shares of training questions whose responses all get the same reward "
            f"(G = {G}, N = {NEIGHBORS}), averaged exactly over all subsets of the responses:"
        ),
        Table(("model", *groups), tuple(rows)),
    ]


def _further(plan: DemoPlan) -> list[Block]:
    db = shlex.quote(str(plan.database))
    return [
        Text("Browse all results in the UI, including every response:"),
        Commands((f"tagrpo ui --db {db}",)),
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
