"""Our grades beside those of the tool that drew the responses: how often they agree, and where not."""

from dataclasses import dataclass

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from evaluator.evals.overview import shown_grader
from evaluator.evals.tables import GradeCountsRow, GradeRow, RunProblemRow, SampleRow
from evaluator.grading.versions import GraderRow, is_other_tool


@dataclass(frozen=True)
class Agreement:
    """Samples by both grades. `ours` and `theirs` are the versions; `counts` by (theirs, ours)."""

    ours: str
    theirs: str
    counts: dict[tuple[str, str], int]

    @property
    def samples(self) -> int:
        """The samples that both graded."""
        return sum(self.counts.values())

    @property
    def alike(self) -> int:
        """Those with the same grade."""
        return sum(count for (theirs, ours), count in self.counts.items() if theirs == ours)


def read_agreement(session: Session, run_id: str) -> Agreement | None:
    """Return how the grades that are shown of a run agree with another tool's; None without these or ours."""
    grader = shown_grader(session, run_id)
    theirs = find_other_tool(session, run_id)
    if grader is None or theirs is None:
        return None
    first, second = aliased(GradeRow), aliased(GradeRow)
    rows = session.execute(
        select(first.value, second.value, func.count())
        .select_from(RunProblemRow)
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(first, and_(first.sample_id == SampleRow.id, first.grader_id == theirs.id))
        .join(second, and_(second.sample_id == SampleRow.id, second.grader_id == grader.id))
        .where(RunProblemRow.run_id == run_id)
        .group_by(first.value, second.value)
    )
    counts = {(their_value, our_value): count for their_value, our_value, count in rows}
    return Agreement(grader.version, theirs.version, counts)


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
