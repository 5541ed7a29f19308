"""Results of an eval run: graded counts of its problems, and details shown with every score."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.evals.counts import ProblemCounts, count_samples, count_tokens
from evaluator.evals.human import Grades
from evaluator.evals.overview import choose_version, ungraded_error
from evaluator.evals.runs import EvalSpec, is_imported, tells_ends
from evaluator.evals.sources import Sources, read_sources
from evaluator.evals.tables import GradeRow, RunProblemRow
from evaluator.grading.types import GradeValue
from evaluator.grading.versions import JUDGE_REASON, answers_of, find_grader, judge_of
from evaluator.passk.counts import Counts
from evaluator.passk.estimators import pass_at_k
from service.errors import InputError
from service.runs.spending import known_cost
from service.runs.store import Run

_SIDES: tuple[Grades, ...] = ("grader", "human")


@dataclass(frozen=True)
class Judged:
    """The grades of a judge model in a result: how many, how many of them correct, and their weight."""

    model: str
    grades: int
    correct: int
    points: float  # pass@1 that rests on the judge alone, whatever people say of the same samples


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The samples of an eval run, graded, and those that were asked for and are missing."""

    run: Run
    spec: EvalSpec
    grader_version: str  # whose grades are counted
    # samples of each problem, the missing ones among the unknown; the originals only where the run holds
    # neighbors too
    counts: Counts
    positions: tuple[int, ...]  # places of the problems of `counts` in the run, from 0, as commands take them
    neighbors: int  # problems of the run that are neighbors and so are left out of `counts`
    samples: int  # samples drawn for the problems of `counts`; all of them are graded
    missing: int  # how many more were asked for and got no answer
    truncated: int | None  # how many of them were cut at the limit of tokens; None where a file does not tell
    refused: int | None  # how many were cut or kept back by a filter, or refused by the model; None likewise
    tokens: int | None  # completion tokens of all samples; None where a server did not tell
    usd: float | None  # what the run cost; None where a price is not known
    sources: Sources  # where in the samples the answers were found
    grades: Grades = "human"  # whether people's grades count in place of the grader's
    human: int = 0  # samples of `counts` that a person graded, `overruled` of them otherwise than the grader
    overruled: int = 0
    judged: Judged | None = None  # what of it rests on a judge model; None where no grades of one are counted

    def share(self, count: int | None) -> float | None:
        """Return how many of the samples `count` are; None where it is not known."""
        return None if count is None else count / self.samples

    @property
    def mean_tokens(self) -> float | None:
        """Completion tokens of a sample."""
        return self.share(self.tokens)

    @property
    def unknown(self) -> int:
        """Samples whose grade is not known."""
        return int(self.counts.unknown.sum()) - self.missing


def load_result(
    session: Session,
    run: Run,
    grader_version: str | None = None,
    *,
    grades: Grades = "human",
) -> RunResult:
    """Return the result of a run.

    Args:
        grader_version: whose grades count; by default see `choose_version`. The result says which.
        grades: whether people's grades count in place of the grader's.

    Raises:
        InputError: not an eval run, no samples, only neighbors, or samples without a grade by that version
            (by any one version). The message names the command that grades them.
    """
    chosen = grader_version or choose_version(session, [run])
    grader = find_grader(session, chosen)
    counts = count_samples(session, run.id, grader, grades)
    originals = [problem for problem in counts if problem.variant == 0]
    if not originals:
        raise InputError(
            f"run {run.name} contains neighbors without their questions, so it cannot be reported."
        )
    drawn = sum(problem.samples for problem in originals)
    ungraded = drawn - sum(problem.graded for problem in originals)
    if ungraded:
        raise ungraded_error(run, ungraded, drawn, repr(chosen), answers_of(chosen))
    if not drawn:
        raise InputError(f"run {run.name} has no samples of original questions. Run `tagrpo eval run`.")
    spec = EvalSpec.model_validate(run.spec)
    return RunResult(
        run=run,
        spec=spec,
        grader_version=chosen,
        counts=_counts(originals),
        positions=tuple(problem.position for problem in originals),
        neighbors=len(counts) - len(originals),
        samples=drawn,
        missing=sum(problem.missing for problem in originals),
        truncated=sum(problem.truncated for problem in originals) if tells_ends(run) else None,
        refused=sum(problem.refused for problem in originals) if tells_ends(run) else None,
        tokens=_tokens(session, run.id, originals),
        usd=None if is_imported(spec) else known_cost(session, run.id),
        sources=read_sources(session, {run.id: grader}, originals=True)[run.id],
        grades=grades,
        human=sum(problem.human for problem in originals),
        overruled=sum(problem.overruled for problem in originals),
        judged=_judged(session, run.id, chosen, grader, originals),
    )


def _judged(
    session: Session, run_id: str, version: str, grader: int | None, problems: Sequence[ProblemCounts]
) -> Judged | None:
    model = judge_of(version)
    if model is None:
        return None
    asked = {problem.run_problem_id: problem.asked for problem in problems}
    grades = correct = 0
    points = 0.0
    rows = session.execute(
        select(GradeRow.run_problem_id, GradeRow.value, func.count())
        .join(RunProblemRow, RunProblemRow.id == GradeRow.run_problem_id)
        .where(
            RunProblemRow.run_id == run_id,
            RunProblemRow.variant == 0,
            GradeRow.grader_id == grader,
            GradeRow.reason.startswith(f"{JUDGE_REASON} {model}", autoescape=True),
        )
        .group_by(GradeRow.run_problem_id, GradeRow.value)
    )
    for place, value, number in rows:
        grades += number
        if value == GradeValue.CORRECT:
            correct += number
            points += number / asked[place] / len(asked)
    return Judged(model, grades, correct, points)


@dataclass(frozen=True)
class Effect:
    """pass@k of a run by the grader alone and with people's grades, unknown grades counted wrong."""

    k: int
    grader: float
    human: float


def human_effect(session: Session, run: Run) -> list[Effect]:
    """Return what people's grades change in pass@k, at 1 and at the largest power of two of samples."""
    by_grader, by_human = (load_result(session, run, grades=grades).counts for grades in _SIDES)
    most = int(by_grader.n.min())
    ks = sorted({1, 2 ** (most.bit_length() - 1)}) if most else []
    return [
        Effect(k, *(float(np.mean(pass_at_k(of.n, of.correct, k))) for of in (by_grader, by_human)))
        for k in ks
    ]


def human_record(session: Session, run: Run) -> dict[str, Any]:
    """Return what people's grades change in a run, for JSON; `why` says why that is not known."""
    try:
        result, effects = load_result(session, run), human_effect(session, run)
    except InputError as error:
        return {"human_grades": None, "overruled": None, "pass_at_k": None, "why": str(error)}
    effect = {"pass_at_k": list(map(asdict, effects)), "why": None}
    return {"human_grades": result.human, "overruled": result.overruled, **effect}


def problem_keys(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids that are there once: a problem's second copy in a run gets `#2`, the third `#3`."""
    seen: Counter[str] = Counter()
    keys = []
    for id in ids:
        seen[id] += 1
        keys.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return tuple(keys)


def _counts(problems: Sequence[ProblemCounts]) -> Counts:
    columns = [[p.asked, p.correct, p.unknown + p.missing] for p in problems]
    n, correct, unknown = np.array(columns, dtype=np.int64).T
    return Counts(problem_keys(problem.problem_id for problem in problems), n, correct, unknown)


def _tokens(session: Session, run_id: str, problems: Sequence[ProblemCounts]) -> int | None:
    tokens = count_tokens(session, run_id, problems)
    of_problems = [tokens[problem.run_problem_id] for problem in problems if problem.samples]
    total, counted = (sum(numbers) for numbers in zip(*of_problems, strict=True))
    return total if counted == sum(problem.samples for problem in problems) else None
