"""Results of an eval run: graded counts of its problems, details shown with scores, and votes for maj@k."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import and_
from sqlalchemy.orm import Session

from evaluator.evals.counts import (
    GRADES,
    Grades,
    ProblemCounts,
    Sources,
    asked_in_vain,
    count_samples,
    count_tokens,
    read_sources,
    samples_missing,
    unfinished_blocks,
)
from evaluator.evals.overview import choose_version, run_sizes, score_command, ungraded_error
from evaluator.evals.problems import run_problems
from evaluator.evals.runs import EvalSpec, is_imported, tells_ends
from evaluator.evals.samples import read_headers
from evaluator.evals.tables import RunProblemRow
from evaluator.grading import AnswerKind, Clustering, ClusterJob
from evaluator.grading.types import GradeValue
from evaluator.grading.versions import JUDGE_REASON, answers_of, find_grader, judge_of
from evaluator.passk import maj_at_k
from evaluator.passk.counts import Counts, curve
from evaluator.passk.estimators import Floats, pass_at_k
from evaluator.passk.majority import AT_RANDOM
from service.database import Database
from service.errors import InputError
from service.runs.progress import frequent_errors, known_cost, progress_of
from service.runs.store import Run, find_run


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
    grades: Grades  # whether people's grades count in place of the grader's
    human: int  # samples of `counts` that a person graded, `overruled` of them otherwise than the grader
    overruled: int
    judged: Judged | None  # what of it rests on a judge model; None where no grades of one are counted

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
    session: Session, run: Run, grader_version: str | None = None, *, grades: Grades = "human"
) -> RunResult:
    """Return the result of a run, by the grades of a version; by default that of `choose_version`."""
    chosen = grader_version or choose_version(session, [run])
    grader = find_grader(session, chosen)
    counts = count_samples(session, run.id, grader, grades)
    originals = [problem for problem in counts if problem.variant == 0]
    names = ("samples", "graded", "missing", "truncated", "refused", "human", "overruled")
    total = {name: sum(getattr(problem, name) for problem in originals) for name in names}
    drawn = total["samples"]
    if ungraded := drawn - total.pop("graded"):
        command = score_command(run, answers_of(chosen))
        raise ungraded_error(run, ungraded, drawn, repr(chosen), command)
    if not drawn:
        raise InputError(f"run {run.name} has no samples of original questions. Run `tagrpo eval run`.")
    spec = EvalSpec.model_validate(run.spec)
    by_problem = count_tokens(session, run.id, originals)
    of_problems = [by_problem[problem.id] for problem in originals if problem.samples]
    tokens, known = (sum(numbers) for numbers in zip(*of_problems, strict=True))
    columns = [[each.asked, each.correct, each.unknown + each.missing] for each in originals]
    keys = problem_keys(problem.problem_id for problem in originals)
    ends: Any = {} if tells_ends(run) else {"truncated": None, "refused": None}
    return RunResult(
        run=run,
        spec=spec,
        grader_version=chosen,
        counts=Counts(keys, *np.array(columns, dtype=np.int64).T),
        positions=tuple(problem.position for problem in originals),
        neighbors=len(counts) - len(originals),
        tokens=tokens if known == drawn else None,
        usd=None if is_imported(run) else known_cost(session, run.id),
        sources=read_sources(session, {run.id: grader}, originals=True)[run.id],
        grades=grades,
        judged=_judged(session, run.id, chosen, grader, originals),
        **{**total, **ends},
    )


def _judged(
    session: Session, run_id: str, version: str, grader: int | None, problems: Sequence[ProblemCounts]
) -> Judged | None:
    model = judge_of(version)
    if model is None:
        return None
    originals = and_(RunProblemRow.run_id == run_id, RunProblemRow.variant == 0)
    judged = [
        header
        for header in read_headers(session, originals, grader)
        if (header.reason or "").startswith(f"{JUDGE_REASON} {model}")
    ]
    correct = Counter(header.run_problem_id for header in judged if header.value == GradeValue.CORRECT)
    asked = {problem.id: problem.asked for problem in problems}
    points = sum(number / asked[place] / len(asked) for place, number in correct.items())
    return Judged(model, len(judged), correct.total(), points)


def read_numbers(database: Database, run: Run, n: int | None = None) -> dict[str, Any]:
    """Return where a run stands; if there is no pass@k, `why` says why.

    Without `n`, missing samples are counted to the most that was asked for.
    """
    result, why = None, None
    with database.read() as session:
        run = find_run(session, run.id)
        size, unfinished = run_sizes(session, [run.id])[run.id], unfinished_blocks(session, run.id)
        [progress] = progress_of(session, [run])
        errors = frequent_errors(session, run.id, limit=20)
        wanted = n or max([size["most"], *(block.first + block.size for block, _ in unfinished)])
        lost = sum(max(0, min(wanted - block.first, block.size)) for block, failed in unfinished if failed)
        missing = lost if is_imported(run) else samples_missing(session, run.id, wanted)
        try:
            result = load_result(session, run)
        except InputError as error:
            why = str(error)
    ks = [] if result is None else [2**power for power in range(int(result.counts.n.min()).bit_length())]
    points = curve(result.counts, ks).values() if result is not None and ks else None
    record = {
        "run": run.name,
        "id": run.id,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "benchmark": run.spec["problems"],
        "model": run.spec["model"],
        "problems": size["problems"],
        "originals": size["originals"],
        "benchmark_problems": run.spec["size"],
        "n": wanted,
        "samples": size["samples"],
        "fewest_samples": size["fewest"],
        "most_samples": size["most"],
        "missing": missing,
        "missing_for_good": lost,
        "open_requests": progress.open,
        "failed_requests": progress.failed,
        "errors": errors,
        "ledger": [asdict(line) for line in progress.ledger],
        "pass_at_k": points
        and [
            {
                **{name: getattr(point, name) for name in ("k", "value", "value_high")},
                "new_problems": [point.new_problems.low, point.new_problems.high],
                "same_problems": [point.same_problems.low, point.same_problems.high],
            }
            for point in points
        ],
        "why": why or (None if points else "pass@k needs at least one sample of each problem"),
    }
    if result is not None:
        same = ("neighbors", "unknown", "truncated", "refused", "mean_tokens", "usd", "overruled")
        record |= {name: getattr(result, name) for name in same} | {
            "grader": result.grader_version,
            "graded_samples": result.samples,
            "correct": int(result.counts.correct.sum()),
            "missing_samples": result.missing,
            "truncated_share": result.share(result.truncated),
            "refused_share": result.share(result.refused),
            **result.sources.to_json(),
            "human_grades": result.human,
        }
    return record


def human_record(session: Session, run: Run) -> dict[str, Any]:
    """Return what people's grades change in a run, for JSON; `why` says why that is not known.

    `pass_at_k` is by the grader alone and with people's grades, unknown grades counted wrong, at k = 1 and at
    the largest power of two of samples.
    """
    try:
        sides = {side: load_result(session, run, grades=side) for side in GRADES}
    except InputError as error:
        return {"human_grades": None, "overruled": None, "pass_at_k": None, "why": str(error)}
    counts, result = {side: sides[side].counts for side in sides}, sides["human"]
    most = int(result.counts.n.min())
    effects = [
        {"k": k, **{side: float(np.mean(pass_at_k(of.n, of.correct, k))) for side, of in counts.items()}}
        for k in (sorted({1, 2 ** (most.bit_length() - 1)}) if most else ())
    ]
    return {"human_grades": result.human, "overruled": result.overruled, "pass_at_k": effects, "why": None}


def problem_keys(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids that are there once: a problem's second copy in a run gets `#2`, the third `#3`."""
    seen: Counter[str] = Counter()
    keys = []
    for id in ids:
        seen[id] += 1
        keys.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return tuple(keys)


GOLD = "gold"
"""The vote of every sample graded correct."""

UNKNOWN = "unknown"
"""The vote of a sample whose grade is not known; see `majority_values`."""

Answers = dict[str, Counter[tuple[str, str | None]]]
"""By problem: how many samples have a grade and an extracted answer."""

Cluster = Callable[[Sequence[ClusterJob]], Sequence[Clustering]]
"""Groups answers that are equal; `Grader.cluster_many`."""

Votes = dict[str, Counter[Hashable | None]]
"""By problem: its votes with their numbers; None is a sample without an answer."""


def read_answers(session: Session, run_id: str, grader_version: str, grades: Grades = "human") -> Answers:
    """Return the graded answers of a run's originals by problem, in the order of its problems.

    Those that were asked for and are missing count as unknown. `grades` says whether people's grades count.
    """
    problems = [problem for problem in run_problems(session, run_id) if problem.variant == 0]
    if any(problem.kind is AnswerKind.CODE for problem in problems):
        raise InputError("programs have no majority vote, because they cannot be compared.")
    answers: dict[int, Counter[tuple[str, str | None]]] = {problem.id: Counter() for problem in problems}
    originals = and_(RunProblemRow.run_id == run_id, RunProblemRow.variant == 0)
    for header in read_headers(session, originals, find_grader(session, grader_version)):
        if header.value is not None:
            value = header.counted if grades == "human" else header.value
            answers[header.run_problem_id][str(value), header.extracted] += 1
    for place, missing in asked_in_vain(session, [run_id]).get(run_id, {}).items():
        if place in answers:
            answers[place][UNKNOWN, None] += missing
    keys = problem_keys(problem.problem_id for problem in problems)
    return dict(zip(keys, answers.values(), strict=True))


def make_votes(answers: Sequence[Answers], cluster: Cluster) -> Votes:
    """Return the votes of runs over the same problems, pooled in the order given.

    Samples graded correct vote for the gold answer. Of the others, answers that `cluster` finds equal are one
    value; an answer that it cannot read or compare is a value of its own, by its spelling.
    """
    keys = tuple(answers[0])
    pooled = {key: sum((run[key] for run in answers), Counter[tuple[str, str | None]]()) for key in keys}
    wrong = {
        key: list(dict.fromkeys(text for value, text in pairs if value == "wrong" and text is not None))
        for key, pairs in pooled.items()
    }
    asked = [key for key in keys if len(wrong[key]) > 1]
    clusterings = cluster([ClusterJob(wrong[key]) for key in asked])
    cast: dict[str, dict[str, Hashable]] = {
        key: {text: ("wrong", text) for text in wrong[key]} for key in keys
    }
    for key, clustering in zip(asked, clusterings, strict=True):
        classes = zip(wrong[key], clustering.assignment, strict=True)
        cast[key] |= {text: ("wrong", ("class", place)) for text, place in classes if place is not None}
    votes: Votes = {key: Counter() for key in keys}
    for key, pairs in pooled.items():
        for (value, text), samples in pairs.items():
            vote = None if text is None else cast[key].get(text)
            votes[key][{"correct": GOLD, "unknown": UNKNOWN}.get(value, vote)] += samples
    return votes


def majority_values(votes: Votes, k: int) -> tuple[Floats, Floats]:
    """Return maj@k of each problem [M], with samples of unknown grade against the gold answer and for it.

    Against it: they vote for the problem's most frequent wrong answer. Ties are broken at random, in
    expectation: the value does not depend on the order of the samples.
    """
    short = [id for id, cast in votes.items() if cast.total() < k]
    if short:
        raise InputError(
            f"{len(short)} of {len(votes)} problems have fewer than {k} graded samples, such as "
            f"{short[0]}. Sample more responses or use a smaller k."
        )
    low, high = [], []
    for cast in votes.values():
        wrong = Counter(
            {vote: samples for vote, samples in cast.items() if vote not in (None, GOLD, UNKNOWN)}
        )
        against = wrong.most_common(1)[0][0] if wrong else UNKNOWN
        drawn = list(cast.elements())
        sides = [
            maj_at_k([instead if vote == UNKNOWN else vote for vote in drawn], GOLD, k, ties=AT_RANDOM)
            for instead in ((against, GOLD) if UNKNOWN in cast else (against,))
        ]
        low.append(sides[0])
        high.append(sides[-1])
    return np.array(low), np.array(high)
