"""`tagrpo eval report`, `compare`, `show` and `label`: figures of models, and the responses behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from service.errors import InputError, NotFoundError
from ui.cli import output, settings
from ui.cli.lazy import lazy_imports
from ui.cli.output import record_parts, terminal
from ui.cli.settings import Session, db

with lazy_imports():
    from evaluator.benchmarks import catalogue
    from evaluator.evals import problems, results, runs, samples
    from evaluator.exchange import agreement
    from evaluator.reports import comparing, document, layout
    from evaluator.reports import methods as pooling
    from evaluator.reports import report as reports
    from service import writing
    from service.questions import images as question_images
    from ui import rendering
    from ui.charts import eval_curves, saving

CHARACTERS_SHOWN = 2_000

ReportFormat = Literal["markdown", "latex", "csv"]
BY_SUFFIX: dict[str, ReportFormat] = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


class Allowed(StrEnum):  # typer has no lists of Literals
    MISSING = "missing"
    POOLING = "pooling"


@dataclass(frozen=True)
class Counted:
    """Which samples and grades count.

    Args:
        k: Values of k, such as 32 or 1,2,4,8.
        answers: Answers that count: any final answer, or only boxed ones. Default: as in the run.
        grades: Grades that count. human: human grades override the grader's; grader: ignore human grades.
        judge: Also count the grades of this judge model from `eval score --judge`.
        allow: missing: leave out problems with too few samples. pooling: pool runs with other settings.
    """

    k: str | None = None
    answers: settings.AnswersName | None = None
    grades: Literal["human", "grader"] = "human"
    own_grader: settings.OwnGrader = None
    judge: str | None = None
    allow: Annotated[list[Allowed] | None, Option(metavar="missing|pooling")] = None

    def __post_init__(self) -> None:
        if self.own_grader is not None and self.answers == "boxed":
            raise InputError("a custom grader extracts answers itself. Remove --answers boxed.")

    def ks(self) -> list[int] | None:
        """Return the values of k."""
        numbers = [int(part) if part.strip().isdecimal() else 0 for part in (self.k or "1").split(",")]
        if min(numbers) < 1:
            raise InputError(f"--k {self.k!r}: give integers of at least 1, such as 1,2,4.")
        return None if self.k is None else numbers

    def load(self, session: Session, references: Sequence[str]) -> "tuple[list[pooling.Method], list[str]]":
        """Return the methods that references name, and what is known of their contamination."""
        methods = pooling.load_methods(
            session,
            references,
            pool_anyway="pooling" in (self.allow or ()),
            answers=self.answers,
            grades=self.grades,
            own=self.own_grader,
            judge=self.judge,
        )
        return methods, layout.contamination_notes(session, methods)


@dataclass(frozen=True)
class ReportFile:
    """Where a report goes, and in which form.

    Args:
        format: Format. Default: from the suffix of --out, otherwise a table on the terminal.
        out: Write to this file.
    """

    format: ReportFormat | None = None
    out: Path | None = None
    overwrite: settings.Overwrite = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written, before any work is done."""
        if terminal.as_json and (self.format or self.out):
            raise BadParameter("--json prints to stdout; it cannot be combined with --format or --out")
        if self.out is not None:
            settings.form_of(self.out, self.format, BY_SUFFIX)
            writing.check_file_target(self.out, overwrite=self.overwrite)

    def deliver(self, report: "document.Document", rows: Sequence[dict[str, Any]], record: Any) -> None:
        """Write or print the report."""
        form = self.format if self.out is None else settings.form_of(self.out, self.format, BY_SUFFIX)
        if form is None:
            terminal.emit(rendering.finite(record), report)
            return
        text = rendering.render_csv(rows) if form == "csv" else rendering.RENDERERS[form](report)
        if self.out is None:
            output.say(text.rstrip("\n"))
        else:
            writing.write_text(self.out, text, overwrite=self.overwrite)
            output.note(f"written to {self.out}")


def report(
    references: list[str],
    *,
    metric: str = "pass@k",
    interval: Literal["new-problems", "same-problems"] = "new-problems",
    paper: str | None = None,
    counted: Counted,
    chart: Path | None = None,
    file: ReportFile,
) -> None:
    """Compare runs in a table with intervals, next to the published figures of a paper.

    Example: tagrpo eval report base "TA-GRPO=tuned+tuned-seed1" --out table.tex

    Args:
        references: RUN, LABEL=RUN or LABEL=RUN+RUN (pooled); NAME selects all runs named NAME.BENCHMARK.
        metric: pass@k, pass^k (all k correct), g-pass@k:TAU (at least a share TAU) or maj@k (majority vote).
        interval: Intervals for new problems, or for new samples of the same problems.
        paper: Model of a paper whose published figures are added, or none. Default: the runs' model.
        chart: Plot the curves to a .png, .svg or .json file.
    """
    if chart is not None:
        saving.check_chart(chart, overwrite=file.overwrite)
    measured = reports.Metric.parse(metric)
    with db.reading() as session:
        methods, warnings = counted.load(session, references)
        built = reports.build_report(
            methods,
            ks=counted.ks(),
            metric=measured,
            interval=reports.INTERVALS[interval],
            paper=paper,
            allow_missing="missing" in (counted.allow or ()),
            session=session,
        )
    document, rows = layout.report_document(built, warnings), layout.records(built)
    tau = measured.tau if measured.name == "g-pass@k" else None
    record = {"metric": measured.name, "tau": tau, "interval": built.interval, "k": built.ks}
    record |= {"grades": counted.grades, "judge": counted.judge}
    record["paper"] = built.paper.name if built.paper else None
    if chart is not None:
        saving.save_chart(eval_curves.curve_chart(layout.curve_rows(built), metric=measured.name), chart)
        output.note(f"chart written to {chart}")
    file.deliver(document, rows, {**record, "scores": rows, "notes": document.notes})


def compare(
    a: str,
    b: Annotated[str | None, Argument()] = None,
    *,
    tool_grades: bool = False,
    changes: Annotated[int, Option(min=0)] = 5,
    common_only: bool = False,
    counted: Counted,
    file: ReportFile,
) -> None:
    """Compare two models on the same problems: paired differences, p-values, wins and losses.

    Example: tagrpo eval compare tuned base --k 1,32

    Args:
        a: Model A: RUN, NAME, LABEL=RUN or LABEL=RUN+RUN.
        b: Model B, on problems of the same benchmarks. Not with --tool-grades.
        tool_grades: Compare the grades of an imported run A with those of the tool that sampled it.
        changes: Number of problems with the largest gains and losses to show.
        common_only: If the problems differ, compare only those that both have.
    """
    if (b is None) != tool_grades:
        raise BadParameter("give two models, or one run with --tool-grades")
    if b is None:
        with db.reading() as session:
            chosen, judge = runs.find_eval_run(session, a), counted.judge
            agrees = agreement.read_agreement(session, chosen.id, judge=judge)
            if agrees is None:
                ours = "ours" if judge is None else f"those of the judge {judge}"
                lack = f"run {chosen.name} has no grades of another tool to compare with {ours}."
                raise NotFoundError(lack)
            unlike = agreement.unlike_grades(session, chosen, agrees, judge)
        record = {"run": chosen.name, **agrees, "unlike": unlike}
        file.deliver(agreement.agreement_document(agrees, unlike), unlike, record)
        return
    with db.reading() as session:
        methods, warnings = counted.load(session, [a, b])
    if len(methods) != 2:
        raise InputError(
            f"{a} and {b} have the same label, {methods[0].label}. Write LABEL=RUN for one of them."
        )
    options: dict[str, Any] = {"ks": counted.ks(), "allow_missing": "missing" in (counted.allow or ())}
    compared = comparing.compare_methods(*methods, **options, common_only=common_only)
    document = comparing.comparison_document(compared, warnings, changes=changes)
    record = {"a": compared.label_a, "b": compared.label_b, "k": compared.ks, "grades": counted.grades}
    record |= {"judge": counted.judge, "differences": compared.rows, "problems": compared.changes}
    file.deliver(document, compared.rows, {**record, "notes": document.notes})


def show(
    run: settings.EvalRun,
    problem: str,
    grade: str | None = None,
    text: str | None = None,
    after: Annotated[int, Option(show_default=False)] = -1,
    limit: settings.Limit = 5,
    full: bool = False,
) -> None:
    """Show a problem and its responses, page by page. Texts of gated benchmarks are not shown.

    Example: tagrpo eval show Qwen3-4B.amc23 0 --grade wrong

    Args:
        problem: Position of the problem in the run (from 0), or its id.
        grade: Only correct, wrong, unknown or ungraded samples, or human: those graded by a person.
        text: Only samples that contain this text.
        after: Continue after this sample.
        full: Show whole texts, not only their beginnings.
    """
    with db.reading() as session:
        chosen = runs.find_eval_run(session, run)
        secret = catalogue.is_secret(chosen.spec["problems"])
        if secret and text:
            raise InputError(f"run {chosen.name} is on a gated benchmark; its texts cannot be searched.")
        place = problems.find_problem(session, chosen.id, problem)
        filters = samples.SampleFilters(value=grade, position=place.position, text=text)
        since = (place.position, after)
        page, behind = samples.browse_samples(session, chosen.id, filters, after=since, limit=limit)
        texts = samples.read_texts(session, [header.id for header in page])
        images = question_images.load_images(session, place.images)
    record = {"run": chosen.name, "problem": place.position, "problem_id": place.problem_id}
    records: list[dict[str, object]] = []
    for header in page:
        sample = {**vars(header), "characters": len(texts[header.id])}
        sample |= {"text": texts[header.id][: None if full else CHARACTERS_SHOWN]}
        hidden = {"id", "run_problem_id", "position", *(("extracted", "text") if secret else ())}
        records.append({name: value for name, value in sample.items() if name not in hidden})
    record |= {"samples": records, "after": behind and behind[1]}
    if not secret:
        named = [f"{id}: {images[id]}" for id in place.images]
        record |= {"question": place.text, "answer": place.answer, "images": named}
    gated = "a gated benchmark: questions, gold answers and responses are not shown"
    notes = [None if records else "no such samples", gated if secret else None]
    terminal.show(record, *notes, output.next_page(record["after"]), hidden=("after",))


def label(
    run: settings.EvalRun,
    problem: Annotated[str | None, Argument()] = None,
    sample: Annotated[int | None, Argument(min=0)] = None,
    correct: bool = False,
    wrong: bool = False,
    withdraw: bool = False,
    comment: Annotated[str, Option(show_default=False)] = "",
    reviewer: settings.Reviewer = None,
) -> None:
    """Grade a response yourself, or list the human grades of a run and their effect.

    Your grade overrides the grader's until you withdraw it. Reports state how many human grades count;
    `eval report --grades grader` leaves them out.

    Example: tagrpo eval label Qwen3-4B.amc23 7 3 --correct --comment "1/2, as the gold"

    Args:
        problem: Position of the problem in the run (from 0), or its id.
        sample: Number of the response, as shown by `eval show`.
        correct: Grade the response as correct.
        wrong: Grade the response as wrong.
        withdraw: Withdraw your newest grade of this response.
        comment: Reason for the grade.
    """
    if problem is None:
        if correct or wrong or withdraw:
            raise BadParameter("name the problem and the response to grade")
        with db.reading() as session:
            chosen = runs.find_eval_run(session, run)
            rows = samples.list_human_grades(session, chosen.id)
            effect = results.human_record(session, chosen)
        if catalogue.is_secret(chosen.spec["problems"]):
            rows = [{**row, "comment": None} for row in rows]
        columns = "problem=position sample=ordinal grader person=value by=reviewer comment "
        columns += "created_at withdrawn_at"
        summary = ["", *record_parts(effect)] if rows else []
        empty = f"run {chosen.name}: no human grades"
        terminal.rows("grades", rows, columns, *summary, empty=empty, run=chosen.name, **effect)
        return
    if correct + wrong + withdraw != 1 or sample is None:
        raise BadParameter("give a problem, a response and one of --correct, --wrong and --withdraw")
    if withdraw and comment:
        raise BadParameter("--withdraw takes no --comment")
    who = settings.reviewer_name(reviewer)
    with db.writing() as session:
        chosen = runs.find_eval_run(session, run)
        place = problems.find_problem(session, chosen.id, problem)
        filters, after = samples.SampleFilters(position=place.position), (place.position, sample - 1)
        page, _ = samples.browse_samples(session, chosen.id, filters, after=after, limit=1)
        if not page or page[0].ordinal != sample:
            raise NotFoundError(
                f"problem {place.position} of run {chosen.name} has no response {sample}. List them with "
                f"`tagrpo eval show {chosen.name} {place.position}`."
            )
        [header] = page
        if withdraw:
            withdrawn = samples.withdraw_human_grade(session, header.id, reviewer=who)
            if withdrawn is None:
                raise NotFoundError(f"{who} has no grade of this response to withdraw.")
            recorded = f"{withdrawn} by {who}, now withdrawn"
        else:
            value: Literal["correct", "wrong"] = "correct" if correct else "wrong"
            new = samples.add_human_grade(session, header.id, value, reviewer=who, comment=comment)
            recorded = f"{value} by {who}" + ("" if new else "; this was already recorded")
        effect = results.human_record(session, chosen)
    graded = {"problem": place.position, "sample": sample, "grader": header.value, "recorded": recorded}
    terminal.show({"run": chosen.name, **graded, **effect})
