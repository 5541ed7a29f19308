"""What an eval run found: graded counts of its problems, and what stands beside every score."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.evals.samples import ProblemCounts, count_samples
from evaluator.evals.sources import Sources, read_sources
from evaluator.evals.spec import EVAL, EvalSpec
from evaluator.evals.tables import GradeCountsRow, RunProblemRow, SampleCountsRow, SampleRow
from evaluator.grading.types import Answers
from evaluator.grading.versions import GraderRow, answers_of, find_grader, preference
from evaluator.passk.counts import Counts
from service.errors import InputError
from service.runs.ledger import read_ledger
from service.runs.store import Run
from service.runs.tables import CellRow


@dataclass(frozen=True)
class RunResult:
    """The graded samples of an eval run.

    Attributes:
        run: the run.
        spec: its settings.
        grader_version: the version of the grader whose grades are counted.
        counts: graded samples of each problem; the originals only where the run holds neighbors too.
        neighbors: problems of the run that are neighbors and so are left out of `counts`.
        samples: samples drawn for the problems of `counts`; all of them are graded.
        truncated: how many of them were cut at the limit of tokens.
        refused: how many were cut or kept back by a provider's filter, or refused by the model.
        mean_tokens: completion tokens of a sample; None where a server did not tell.
        usd: what the run cost; None where a price is not known.
        sources: where in the samples the answers were found.
    """

    run: Run
    spec: EvalSpec
    grader_version: str
    counts: Counts
    neighbors: int
    samples: int
    truncated: int
    refused: int
    mean_tokens: float | None
    usd: float | None
    sources: Sources


def load_result(
    session: Session, run: Run, grader_version: str | None = None, *, answers: Answers | None = None
) -> RunResult:
    """Return the result of a run.

    Args:
        grader_version: whose grades count; by default see `choose_version`. The result says which.
        answers: which answers count, without a version; by default those that the run was made with.

    Raises:
        InputError: not an eval run, no samples, only neighbors, or samples without a grade by that version
            (by any one version). The message names the command that grades them.
    """
    chosen = choose_version(session, [run], answers) if grader_version is None else grader_version
    grader = find_grader(session, chosen)
    found = count_samples(session, run.id, grader)
    originals = [problem for problem in found if problem.variant == 0]
    if not originals:
        raise InputError(
            f"run {run.name} holds neighbors without their questions; nothing of it can be reported."
        )
    ungraded = sum(problem.samples - problem.graded for problem in originals)
    if ungraded:
        drawn = sum(problem.samples for problem in originals)
        raise InputError(_ungraded(run, ungraded, drawn, repr(chosen), answers_of(chosen)))
    if not any(problem.samples for problem in originals):
        raise InputError(f"run {run.name} has samples of neighbors only; `tagrpo eval run` draws the rest.")
    refused, mean_tokens = _refused_and_tokens(session, run.id)
    return RunResult(
        run=run,
        spec=EvalSpec.from_json(run.spec),
        grader_version=chosen,
        counts=_counts(originals),
        neighbors=len(found) - len(originals),
        samples=sum(problem.samples for problem in originals),
        truncated=sum(problem.truncated for problem in originals),
        refused=refused,
        mean_tokens=mean_tokens,
        usd=_usd(session, run.id),
        sources=read_sources(session, {run.id: grader}, originals=True)[run.id],
    )


def choose_version(session: Session, runs: Sequence[Run], answers: Answers | None = None) -> str:
    """Return the version of the grader to use for all runs: one that graded every sample of each of them.

    This installation's if it did, else the newest that did. Where none did all, the one to use for the first
    run that no version has graded whole is named in the error.

    Args:
        answers: only versions that took these answers. By default one that took those which the runs were
            made with (all, where they differ) comes first.

    Raises:
        InputError: not an eval run, a run without samples, or no version that graded all samples of all runs.
    """
    versions: dict[int, str] = {
        row.id: row.version for row in session.execute(select(GraderRow.id, GraderRow.version))
    }
    made = {run_answers(run) for run in runs}
    wanted: Answers = answers or (made.pop() if len(made) == 1 else "all")
    whole: list[set[int]] = []
    for run in runs:
        _check_eval(run)
        drawn = _samples(session, run.id)
        if not drawn:
            raise InputError(f"run {run.name} has no samples yet; draw them with `tagrpo eval run`.")
        graded = {
            grader: count
            for grader, count in grades_by_version(session, run.id).items()
            if answers in (None, answers_of(versions[grader]))
        }
        complete = {grader for grader, count in graded.items() if count == drawn}
        if not complete:
            missing = drawn - max(graded.values(), default=0)
            by = "any one version of the grader" + (
                "" if answers is None else f" that takes {answers} answers"
            )
            raise InputError(_ungraded(run, missing, drawn, by, wanted))
        whole.append(complete)
    common = set.intersection(*whole)
    if not common:
        names = ", ".join(run.name for run in runs)
        raise InputError(
            f"the runs {names} were graded by different versions of the grader, whose verdicts may differ; "
            f"grade them alike: {'; '.join(f'`{_command(run, wanted)}`' for run in runs)}."
        )
    return versions[max(common, key=lambda id: preference(id, versions[id], wanted, complete=True))]


def run_answers(run: Run) -> Answers:
    """Return which answers an eval run was made to count."""
    answers: Answers = run.spec.get("answers", "all")
    return answers


def grades_by_version(session: Session, run_id: str) -> dict[int, int]:
    """Return how many samples of a run each version of the grader has graded, by the version's id."""
    graded = func.sum(GradeCountsRow.correct + GradeCountsRow.wrong + GradeCountsRow.unknown)
    rows = session.execute(
        select(GradeCountsRow.grader_id, graded)
        .join(RunProblemRow, RunProblemRow.id == GradeCountsRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id)
        .group_by(GradeCountsRow.grader_id)
    )
    return dict[int, int]((grader, count) for grader, count in rows)


def problem_keys(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids that are there once: a problem's second copy in a run gets `#2`, the third `#3`."""
    seen: Counter[str] = Counter()
    keys = []
    for id in ids:
        seen[id] += 1
        keys.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return tuple(keys)


def _counts(problems: Sequence[ProblemCounts]) -> Counts:
    columns = [[p.graded, p.correct, p.unknown] for p in problems]
    n, correct, unknown = np.array(columns, dtype=np.int64).T
    return Counts(problem_keys(problem.problem_id for problem in problems), n, correct, unknown)


def _check_eval(run: Run) -> None:
    if run.kind != EVAL:
        raise InputError(f"run {run.name} is no eval run; `tagrpo eval list` lists those.")


def _ungraded(run: Run, missing: int, drawn: int, by: str, answers: Answers) -> str:
    return (
        f"run {run.name}: {missing:,} of {drawn:,} samples have no grade by {by}; grade them with "
        f"`{_command(run, answers)}`."
    )


def _command(run: Run, answers: Answers) -> str:
    """Return the command that grades a run so that these answers count."""
    return f"tagrpo eval grade {run.name}" + ("" if run_answers(run) == answers else f" --answers {answers}")


def _samples(session: Session, run_id: str) -> int:
    query = (
        select(func.sum(SampleCountsRow.samples))
        .join(RunProblemRow, RunProblemRow.id == SampleCountsRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id)
    )
    return session.scalar(query) or 0


def _refused_and_tokens(session: Session, run_id: str) -> tuple[int, float | None]:
    """Return how many samples were refused, and the mean of their completion tokens."""
    counted = SampleCountsRow
    row: Any = session.execute(
        select(
            *(
                func.coalesce(func.sum(number), 0)
                for number in (counted.refused, counted.samples, counted.told, counted.tokens)
            )
        )
        .join(RunProblemRow, RunProblemRow.id == counted.run_problem_id)
        .where(RunProblemRow.run_id == run_id, RunProblemRow.variant == 0)
    ).one()
    refused, samples, told, tokens = row
    return refused, tokens / samples if told == samples else _tokens_by_request(session, run_id)


def _tokens_by_request(session: Session, run_id: str) -> float | None:
    """Return mean tokens by what samples say of themselves or, where they do not, their request's receipt."""
    rows = session.execute(
        select(
            SampleRow.cell_id,
            func.count(),
            func.count(SampleRow.completion_tokens),
            func.coalesce(func.sum(SampleRow.completion_tokens), 0),
        )
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id, RunProblemRow.variant == 0)
        .group_by(SampleRow.cell_id)
    ).all()
    receipts: dict[int | None, int | None] = defaultdict(lambda: None)
    receipts.update(
        (cell, tokens)
        for cell, tokens in session.execute(
            select(CellRow.id, CellRow.completion_tokens).where(CellRow.scope == run_id)
        )
    )
    total = drawn = 0
    for cell, samples, told, tokens in rows:
        spent = tokens if told == samples else receipts[cell]
        if spent is None:
            return None
        total, drawn = total + spent, drawn + samples
    return total / drawn if drawn else None


def _usd(session: Session, run_id: str) -> float | None:
    lines = read_ledger(session, run_id)
    return None if any(line.unpriced for line in lines) else sum(line.usd for line in lines)
