"""The demo's report: its results as Markdown with pictures, in the order of the steps."""

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from evaluator.evals.counts import BOX
from evaluator.reports.comparing import MethodComparison, ahead, compare_methods
from evaluator.reports.diagnosis_layout import diagnosis_document
from evaluator.reports.document import (
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
from evaluator.signal.sources import eval_source
from rephraser.candidates import find_neighbor_run
from rephraser.sets.store import find_set
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
)
from sandbox.demo.steps import Step, speed_settings
from sandbox.scoring import OUTCOMES, GateScore, read_truth, score_run
from service.database import Database
from service.writing import write_folder
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.record.runs import choose_train_run, open_record
from ui.charts.diagnosis import density_panel, difficulty_chart
from ui.charts.eval_curves import curve_chart
from ui.charts.intervals import rate_dots
from ui.charts.saving import draw
from ui.charts.training_steps import step_chart, window_means
from ui.rendering import render_markdown

REPORT_FILE = "report.md"
_PICTURES = "pictures"

PILOT_PARTS: Sequence[Part] = ("forecast", "difficulty", "diversity", "cost")

LINES_SHOWN = 8
"""Maximum lines of a chart: more cannot be distinguished."""

FIRST_STEPS = 5
"""Steps to compare with the forecast: few, since the policy changes, but enough for some dozens of groups."""

POINTS = 10
"""Points of a line: steps are averaged, since a step has few questions."""

LEARNING = {
    "tagrpo/correct/mean": "Correct responses",
    "tagrpo/zero/group/share": "Groups without a gradient",
}
"""Metrics drawn over the steps of training, with their titles."""

Steps = Sequence[Mapping[str, float]]
Trained = tuple[Steps, int]
"""A recorded training: the metrics of its steps, and the number of its responses."""


def write_report(plan: DemoPlan, steps: Sequence[tuple[Step, float]]) -> None:
    """Write the report of a finished demo (its steps with their seconds) into its folder.

    It appears only when complete and replaces an earlier one.
    """
    document = _document(plan, steps)
    pictures = (block for block in document.blocks if isinstance(block, Picture))
    drawn = {picture.name: draw(dict(picture.spec), ".svg") for picture in pictures}

    def write(place: Path) -> None:
        (place / _PICTURES).mkdir()
        for name, svg in drawn.items():
            (place / _PICTURES / f"{name}.svg").write_bytes(svg)
        (place / REPORT_FILE).write_text(render_markdown(document, pictures=_PICTURES), encoding="utf-8")

    write_folder(plan.report, write, overwrite=True, mark=REPORT_FILE)


def _document(plan: DemoPlan, steps: Sequence[tuple[Step, float]]) -> Document:
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
    slowest = [f"{step.title} ({took:.0f} s)" for step, took in sorted(steps, key=lambda each: -each[1])[:3]]
    sections: dict[str, Sequence[Block]] = {
        "Which candidates became neighbors": _neighbors(score, header),
        "Forecast from the pilot": _pilot(plan, pilot),
        "Training": _training(plan, trained),
        "Held-out questions": _heldout(plan, report, compared),
        "Training signal after training": diagnosis_document(after).blocks,
        "Next steps": [
            Text("Browse all results in the UI, including every response:"),
            Commands((f"tagrpo ui --db {shlex.quote(str(plan.database))}",)),
        ],
        "All commands": [
            Text(
                "The demo ran these commands in this order; interrupted trainings resumed from their last "
                f"checkpoint. The longest steps were {joined(slowest)}. To repeat a command, change its "
                "folder or name, because existing results are never overwritten. The environment variables "
                "affect only speed."
            ),
            Commands((f"export {speed_settings()}", *(step.shell for step, _ in steps))),
        ],
    }
    blocks = _intro(plan, report, compared, steps)
    for title, part in sections.items():
        blocks += [Heading(title), *part]
    return Document(blocks, title="A tour of TA-GRPO on a laptop")


def _neighbors(score: GateScore, header: SetHeader) -> list[Block]:
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
    seeds = f"compare the difference between recipes with the spread between the {plan.seeds} seeds."
    if plan.seeds == 1:
        seeds = (
            "**one seed per recipe proves nothing about a recipe.** Use `--seeds 3` to see how much two runs "
            "of a recipe differ."
        )
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
        Text(
            "The intervals are for new questions of the same kind, with exactly these models. They do not "
            f"cover the variation between training runs: {seeds} A world with eight phrasings is not a "
            "benchmark: look at the mechanism, not the ranking."
        ),
    ]


def _scores(report: Report, ks: Sequence[int]) -> Table:
    rows = []
    for line in report.lines:
        cells = [f"{percent(score.value)} {span(score.low, score.high)}" for score in map(line.at, ks)]
        shares = line.entry.sources.to_json()["sources"]
        rows.append((line.label, *cells, percent(None if shares is None else shares[BOX])))
    return Table(("model", *(f"pass@{k}" for k in ks), "answers in a box"), tuple(rows))


def _pilot(plan: DemoPlan, pilot: Diagnosis) -> list[Block]:
    """Return the forecast and the audit of difficulty, as `tagrpo diagnose` prints them, with pictures."""
    rows = [{**row, "name": f"{row['group']} = {row['responses']}"} for row in pilot.tables["forecast"]]
    return [
        Text(
            f"The pilot has {plan.size.pilot} responses to every prompt. A joint group beats G responses "
            "mainly because it is larger. The fair comparison is the same number of responses to the "
            f"question alone. The table of trainings has the shares in the first {FIRST_STEPS} steps."
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


def _mean(steps: Steps, metric: str) -> float | None:
    values = [step[metric] for step in steps if metric in step]
    return sum(values) / len(values) if values else None


def _training(plan: DemoPlan, trained: Mapping[str, Trained]) -> list[Block]:
    correct, equal = LEARNING
    columns = (
        *("run", "responses", "steps", "correct, first quarter", "correct, last quarter"),
        *(f"no gradient, first {FIRST_STEPS} steps", "no gradient, all steps", "seconds per step"),
    )
    rows = []
    for name, (steps, drawn) in trained.items():
        quarter = max(1, len(steps) // 4)
        shares = [_mean(part, correct) for part in (steps[:quarter], steps[-quarter:])]
        shares += [_mean(part, equal) for part in (steps[:FIRST_STEPS], steps)]
        pace = number(_mean(steps, "perf/time_per_step"))
        rows.append((name, f"{drawn:,}", str(len(steps)), *map(percent, shares), pace))
    return [
        Points(tuple(f"`{name}`: {RECIPES[name].summary}." for name in plan.recipes)),
        *(_training_picture(trained, metric, title) for metric, title in LEARNING.items()),
        *_left_out(len(trained), "trainings"),
        Table(columns, tuple(rows)),
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
        spread = []
        for recipe in plan.recipes:
            names = [each.name for each in plan.trainings() if each.recipe == recipe]
            lines = [line for line in report.lines if line.label in names]
            every = [[line.at(k).value for line in lines] for k in KS]
            cells = (f"{percent(sum(each) / len(each))} {span(min(each), max(each))}" for each in every)
            spread.append((recipe, *cells))
        blocks.append(Text(f"Mean over {plan.seeds} seeds, with lowest and highest:"))
        blocks.append(Table(("recipe", *(f"pass@{k}" for k in KS)), tuple(spread)))
    rows = [
        (
            f"{pair.label_a} - {pair.label_b}",
            *(f"{points(row['difference'])} {span(row['low'], row['high'], points)}" for row in pair.rows),
        )
        for pair in compared
    ]
    blocks += [
        Text("Paired differences in percentage points, question by question, with 95% intervals:"),
        Table(("difference", *(f"pass@{k}" for k in KS)), tuple(rows)),
    ]
    return blocks
