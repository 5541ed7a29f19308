"""Answers of an eval run as votes for maj@k; equal answers are the same vote."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from sqlalchemy import and_
from sqlalchemy.orm import Session

from evaluator.evals.counts import Grades, asked_in_vain
from evaluator.evals.problems import run_problems
from evaluator.evals.results import problem_keys
from evaluator.evals.samples import read_headers
from evaluator.evals.tables import RunProblemRow
from evaluator.grading import AnswerKind, Clustering, ClusterJob
from evaluator.grading.versions import find_grader
from evaluator.passk import maj_at_k
from evaluator.passk.estimators import Floats
from evaluator.passk.majority import AT_RANDOM
from service.errors import InputError

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
