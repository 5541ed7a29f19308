"""Compare our grades with those of the tool that drew the responses."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from evaluator.evals.overview import shown_grader
from evaluator.evals.samples import grade_changes
from evaluator.evals.tables import GradeCountsRow, GradeRow, RunProblemRow, SampleRow
from evaluator.grading import GradeValue
from evaluator.grading.versions import JUDGE_REASON, GraderRow, is_other_tool, other_tool
from evaluator.passk.intervals import exact_interval
from evaluator.reports.document import Document, Table, Text, hundredths, table_of
from service.runs.store import Run

POINTS = (
    "none of the other tool's scores is a correct or wrong grade; if they are points, import without them: "
    "`--column score=`"
)


def read_agreement(session: Session, run_id: str, *, judge: str | None = None) -> dict[str, Any] | None:
    """Return how the grades that are shown of a run agree with another tool's; None without these or ours.

    `shares` say how often ours is correct and wrong where theirs is, with 95% intervals, of those that ours
    does not call unknown; the interval is None if nothing is left.

    Args:
        judge: the grades of this judge model in place of ours, and no others; of its versions the one with
            the most of them, the newest of several.
    """
    theirs, ours = find_other_tool(session, run_id), aliased(GradeRow)
    if theirs is None:
        return None
    query = (
        select(ours.grader_id, GradeRow.value, ours.value, func.count())
        .select_from(RunProblemRow)
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(GradeRow, and_(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == theirs.id))
        .join(ours, ours.sample_id == SampleRow.id)
        .where(RunProblemRow.run_id == run_id)
        .group_by(ours.grader_id, GradeRow.value, ours.value)
    )
    if judge is None:
        query = query.where(ours.grader_id == shown_grader(session, run_id))
    else:  # its own grades, not those that it left as they were
        query = query.where(ours.reason.startswith(f"{JUDGE_REASON} {judge}, ", autoescape=True))
    by_grader: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for grader, their_value, our_value, count in session.execute(query):
        by_grader[grader][their_value, our_value] = count
    if not by_grader:
        return None
    chosen = max(by_grader, key=lambda grader: (by_grader[grader].total(), grader))
    counts, shares = by_grader[chosen], []
    for label in ("correct", "wrong"):
        alike, trials = counts[label, label], counts[label, "correct"] + counts[label, "wrong"]
        interval = exact_interval(alike, trials) if trials else None
        shares.append({"theirs": label, "alike": alike, "of": trials, "interval": interval})
    return {
        "other_tool": theirs.version.partition(": ")[2],
        "grader": session.get_one(GraderRow, chosen).version,
        "graded_by_both": counts.total(),
        "alike": sum(counts[value, value] for value in GradeValue),
        "shares": shares,
        "counts": [
            {"theirs": of_theirs, "ours": of_ours, "responses": count}
            for (of_theirs, of_ours), count in sorted(counts.items())
        ],
    }


def only_points(agreement: Mapping[str, Any]) -> bool:
    """Whether no score of the other tool is a grade."""
    return {row["theirs"] for row in agreement["counts"]} == {"unknown"}


def agreement_document(agreement: Mapping[str, Any], unlike: Sequence[dict[str, Any]]) -> Document:
    """Return the counts of both grades, and the samples with unlike ones as `unlike_grades` returns them."""
    samples, alike = agreement["graded_by_both"], agreement["alike"]
    counted = {(row["theirs"], row["ours"]): row["responses"] for row in agreement["counts"]}
    counts = tuple(
        (theirs.value, *(f"{counted.get((theirs, ours), 0):,}" for ours in GradeValue))
        for theirs in GradeValue
    )
    responses = f"{samples:,} response{'s' * (samples != 1)}"
    share = hundredths(alike / samples, 1) if samples else "0"
    sentences = [f"{responses} graded by both, {alike:,} of them equally ({share}%)"]
    sentences += [POINTS] if only_points(agreement) else []
    for each in agreement["shares"]:
        if each["interval"] is not None:
            low, high = (hundredths(end, 1) for end in each["interval"])
            sentences.append(
                f"tagrpo graded {each['of']:,} samples that the other tool calls {each['theirs']}; "
                f"{each['alike']:,} are {each['theirs']} for tagrpo too: "
                f"{hundredths(each['alike'] / each['of'], 1)}% (95%: {low} to {high})"
            )
    heads = (f"graded by {agreement['other_tool']}", *(f"here {value}" for value in GradeValue))
    rows = [
        {**row, **{side: f"{row[side]} ({row[side + '_reason']})" for side in ("theirs", "ours")}}
        for row in unlike
    ]
    columns = [
        *(("problem", "position"), ("sample", "ordinal"), ("gold", "gold")),
        *(("theirs", "theirs"), ("extracted answer", "theirs_extracted")),
        *(("ours", "ours"), ("extracted answer here", "ours_extracted")),
    ]
    listed = table_of(rows, columns, words=len(columns)) if rows else Text("all grades agree")
    return Document([Table(heads, counts), *map(Text, sentences), listed])


def unlike_grades(
    session: Session, run: Run, agreement: Mapping[str, Any], judge: str | None = None
) -> list[dict[str, Any]]:
    """Return the samples that both graded differently; with `judge` only those that this model graded."""
    theirs = other_tool(agreement["other_tool"])
    changes = grade_changes(session, run, theirs, agreement["grader"], sides=("theirs", "ours"))
    by_judge = f"{JUDGE_REASON} {judge}, "
    return [change for change in changes if judge is None or change["ours_reason"].startswith(by_judge)]


def agreement_notes(session: Session, runs: Sequence[Run]) -> list[str]:
    """Return for each of these runs that another tool graded too how often both say the same."""
    agreements = [(run.name, read_agreement(session, run.id)) for run in runs]
    return [
        f"{name}: for {each['alike']:,} of {each['graded_by_both']:,} responses, {each['other_tool']} of the "
        f"other tool agrees with the grader here; `tagrpo eval compare {name} --tool-grades` lists the "
        "differences."
        for name, each in agreements
        if each is not None
    ]


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
