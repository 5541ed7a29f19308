"""Compare our grades with those of the tool that drew the responses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session, aliased

from evaluator.evals.grading import grade_changes
from evaluator.evals.overview import shown_grader
from evaluator.evals.tables import GradeCountsRow, GradeRow, RunProblemRow, SampleRow
from evaluator.grading import GradeValue
from evaluator.grading.versions import JUDGE_REASON, GraderRow, is_judged, is_other_tool, judge_of
from evaluator.passk.exact_interval import exact_interval
from evaluator.reports.documents.document import ABSENT, Block, Document, Table, Text, hundredths
from service.runs.store import Run


@dataclass(frozen=True)
class GraderAgreement:
    """Samples by both grades. `ours` and `theirs` are the versions; `counts` by (theirs, ours)."""

    ours: str
    theirs: str
    counts: dict[tuple[str, str], int]

    @property
    def samples(self) -> int:
        return sum(self.counts.values())

    def share(self, label: str) -> tuple[int, int, tuple[float, float] | None]:
        """Return how often ours is `label` where theirs is, of how many, and the 95% interval.

        Of those that ours calls unknown nothing is counted; the interval is None where nothing is left.
        """
        counted = {ours: self.counts.get((label, ours), 0) for ours in ("correct", "wrong")}
        trials = sum(counted.values())
        return counted[label], trials, exact_interval(counted[label], trials) if trials else None

    @property
    def alike(self) -> int:
        return sum(count for (theirs, ours), count in self.counts.items() if theirs == ours)

    def to_json(self) -> dict[str, Any]:
        return {
            "other_tool": self.theirs.partition(": ")[2],
            "grader": self.ours,
            "graded_by_both": self.samples,
            "alike": self.alike,
            "shares": [
                {"theirs": label, "alike": alike, "of": trials, "interval": interval}
                for label in ("correct", "wrong")
                for alike, trials, interval in [self.share(label)]
            ],
            "counts": [
                {"theirs": theirs, "ours": ours, "responses": count}
                for (theirs, ours), count in sorted(self.counts.items())
            ],
        }


def read_agreement(session: Session, run_id: str, *, judge: str | None = None) -> GraderAgreement | None:
    """Return how the grades that are shown of a run agree with another tool's; None without these or ours.

    Args:
        judge: the grades of this judge model in place of ours, and no others; the version in which the most
            of them stand.
    """
    theirs = find_other_tool(session, run_id)
    grader = shown_grader(session, run_id) if judge is None else _judging(session, run_id, judge)
    if grader is None or theirs is None:
        return None
    first, second = aliased(GradeRow), aliased(GradeRow)
    rows = session.execute(
        select(first.value, second.value, func.count())
        .select_from(RunProblemRow)
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(first, and_(first.sample_id == SampleRow.id, first.grader_id == theirs.id))
        .join(second, and_(second.sample_id == SampleRow.id, second.grader_id == grader.id))
        .where(RunProblemRow.run_id == run_id, *(() if judge is None else (_by_judge(second, judge),)))
        .group_by(first.value, second.value)
    )
    counts = {(their_value, our_value): count for their_value, our_value, count in rows}
    return GraderAgreement(grader.version, theirs.version, counts)


def agreement_document(agrees: GraderAgreement, unlike: Sequence[dict[str, Any]] | None = None) -> Document:
    """Return the counts of both grades, and the samples with unlike ones as `unlike_grades` returns them."""
    tool = agrees.theirs.partition(": ")[2]
    share = hundredths(agrees.alike / agrees.samples, 1) if agrees.samples else "0"
    counts = tuple(
        (theirs.value, *(f"{agrees.counts.get((theirs.value, ours.value), 0):,}" for ours in GradeValue))
        for theirs in GradeValue
    )
    responses = f"{agrees.samples:,} response{'s' * (agrees.samples != 1)}"
    sentences = [f"{responses} graded by both, {agrees.alike:,} of them equally ({share}%)"]
    if {theirs for theirs, _ in agrees.counts} == {"unknown"}:
        sentences.append(
            "none of the other tool's scores is a correct or wrong grade; if they are points, import "
            "without them: `--column score=`"
        )
    for label in ("correct", "wrong"):
        alike, trials, interval = agrees.share(label)
        if interval is not None:
            low, high = (hundredths(end, 1) for end in interval)
            sentences.append(
                f"tagrpo graded {trials:,} samples that the other tool calls {label}; {alike:,} are {label} "
                f"for tagrpo too: {hundredths(alike / trials, 1)}% (95%: {low} to {high})"
            )
    heads = (f"graded by {tool}", *(f"here {value}" for value in GradeValue))
    blocks: list[Block] = [Table(heads, counts), *map(Text, sentences)]
    if unlike is not None:
        names = ("position", "ordinal", "gold", "theirs", "theirs_extracted", "ours", "ours_extracted")
        rows = [
            {**row, **{side: f"{row[side]} ({row[side + '_reason']})" for side in ("theirs", "ours")}}
            for row in unlike
        ]
        cells = tuple(
            tuple(ABSENT if row[name] is None else str(row[name]) for name in names) for row in rows
        )
        heads = ("problem", "sample", "gold", "theirs", "extracted answer", "ours", "extracted answer here")
        blocks.append(Table(heads, cells, words=len(heads)) if cells else Text("all grades agree"))
    return Document(blocks)


def unlike_grades(
    session: Session, run: Run, agrees: GraderAgreement, judge: str | None = None
) -> list[dict[str, Any]]:
    """Return the samples that both graded differently; with `judge` only those that this model graded."""
    return [
        {re.sub("^new", "ours", re.sub("^old", "theirs", name)): value for name, value in change.items()}
        for change in grade_changes(session, run, agrees.theirs, agrees.ours)
        if judge is None or change["new_reason"].startswith(f"{JUDGE_REASON} {judge}, ")
    ]


def agreement_notes(session: Session, runs: Sequence[Run]) -> list[str]:
    """Return for each of these runs that another tool graded too how often both say the same."""
    notes = []
    for run in runs:
        agrees = read_agreement(session, run.id)
        if agrees is not None and agrees.samples:
            notes.append(
                f"{run.name}: for {agrees.alike:,} of {agrees.samples:,} responses, "
                f"{agrees.theirs.removeprefix('other tool: ')} of the other tool agrees with the grader "
                f"here; `tagrpo eval compare {run.name} --tool-grades` lists the differences."
            )
    return notes


def _judging(session: Session, run_id: str, judge: str) -> GraderRow | None:
    """Return the version in which the most grades of a judge model stand, the newest of several."""
    rows = session.execute(
        select(GraderRow, func.count())
        .join(GradeRow, GradeRow.grader_id == GraderRow.id)
        .join(RunProblemRow, RunProblemRow.id == GradeRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id, is_judged(GraderRow.version), _by_judge(GradeRow, judge))
        .group_by(GraderRow.id)
    ).all()
    judging = [(number, row.id, row) for row, number in rows if judge_of(row.version) == judge]
    return max(judging)[-1] if judging else None


def _by_judge(grades: type[GradeRow], judge: str) -> ColumnElement[bool]:
    """Return the condition that a grade is the judge's own, not one that it left as it was."""
    return grades.reason.startswith(f"{JUDGE_REASON} {judge}, ", autoescape=True)


def find_other_tool(session: Session, run_id: str) -> GraderRow | None:
    """Return the other tool that graded samples of a run, None where none did."""
    graded = (
        select(GradeCountsRow.grader_id)
        .join(RunProblemRow, RunProblemRow.id == GradeCountsRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id)
    )
    return session.scalar(
        select(GraderRow).where(is_other_tool(GraderRow.version), GraderRow.id.in_(graded)).limit(1)
    )
