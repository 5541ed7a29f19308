"""The grader: grades responses, compares answers and clusters them, within limits of time and memory."""

import atexit
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evaluator.grading.clustering import Grouping, spellings
from evaluator.grading.compare import compare
from evaluator.grading.extraction import FinalAnswer, answer_of, gold_answer
from evaluator.grading.kinds import judge
from evaluator.grading.programs.running import ProgramGrader
from evaluator.grading.types import (
    CRASHED,
    GRADER_VERSION,
    NO_ANSWER,
    NO_GOLD,
    AnswerKind,
    Clustering,
    ClusterJob,
    Grade,
    GradeCase,
    GradeValue,
    Outcome,
)
from evaluator.grading.workers.memory import CaseKey, Memory, case_key
from evaluator.grading.workers.own import own_version
from evaluator.grading.workers.pool import WorkerPool
from evaluator.grading.workers.worker import Task
from service.errors import InputError
from service.telling import TellProgress

if TYPE_CHECKING:
    from evaluator.grading.versions import GradeCache


_MOST_KEPT = 200_000
_TASKS_PER_SAVE = 2_000


class Grader:
    """Grades answers in worker processes; a context manager.

    Args:
        workers: number of processes (default: the CPUs this process may use, at most 8).
        time_limit_s: wall-clock seconds one comparison may take, counted from its start in the worker.
        memory_limit_mb: memory a worker may take on top of what it holds when it starts.
        cache: grades of earlier graders; new ones that needed algebra are added to it.
        own: the user's `module:function` that grades responses in place of the rules (`workers.own`). Answers
            are compared by the rules all the same.

    Spelling and exact arithmetic are compared in the calling process; only what needs algebra goes to the
    workers, which start at the first such case. Programs are run in enclosures, as many at a time, each with
    `time_limit_s` seconds of a CPU. Safe to use from several threads. A script that uses it
    needs the usual `if __name__ == "__main__":`, since workers import the main module.
    """

    def __init__(
        self,
        workers: int | None = None,
        time_limit_s: float = 10.0,
        memory_limit_mb: int = 2048,
        cache: "GradeCache | None" = None,
        own: str | None = None,
    ) -> None:
        if (workers is not None and workers < 1) or time_limit_s <= 0 or memory_limit_mb <= 0:
            raise ValueError(f"limits must be positive: {workers=}, {time_limit_s=}, {memory_limit_mb=}")
        self._pool = WorkerPool(workers or _usable_cpus(), time_limit_s, memory_limit_mb)
        self._programs = ProgramGrader(workers or _usable_cpus(), time_limit_s, memory_limit_mb)
        self._cache = cache
        self.own = own
        self._version = GRADER_VERSION if own is None else own_version(own)
        self._grades: Memory[CaseKey, Grade] = Memory(_MOST_KEPT)
        self._outcomes: Memory[Task, Outcome] = Memory(_MOST_KEPT)

    @property
    def version(self) -> str:
        """What grades here: of tagrpo's grader and the packages under it, or of the user's own."""
        return self._version

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the workers; the grader cannot be used afterwards. Closing twice does nothing."""
        self._pool.close()
        self._programs.close()

    def forget(self) -> None:
        """Empties the grader's memory; grades in a database stay."""
        self._grades.clear()
        self._outcomes.clear()
        self._programs.forget()

    def grade_many(
        self, cases: Sequence[GradeCase | tuple[str, str]], progress: TellProgress | None = None
    ) -> list[Grade]:
        r"""Grades cases, or (response, gold) pairs of the kind latex, in order.

        A response without an answer is wrong ("no answer found"); an empty gold makes the grade unknown. A
        gold may be a bare answer or hold it in a `\boxed{}`. An error over a case, in a worker or here, makes
        its grade unknown ("crashed"). Raises InputError for a bad tolerance, and PrerequisiteError where
        there are programs among them and none can be run here.
        """
        given = [_as_case(case) for case in cases]
        if self.own is not None:
            return self.grade_apart(given, progress=progress)
        if any(case.kind is AnswerKind.CODE for case in given):
            return self._programs.grade_among(given, self.grade_many, progress)
        grades: list[Grade | None] = []
        waiting: list[tuple[int, CaseKey, FinalAnswer]] = []
        tasks: list[Task] = []
        for place, case in enumerate(given):
            key = case_key(case)
            grade = self._grades.get(key)
            if grade is None:
                read = _read(case)
                if isinstance(read, Grade):
                    grade = read
                else:
                    answer, task = read
                    waiting.append((place, key, answer))
                    tasks.append(task)
            grades.append(grade)
        ahead = len(grades) - len(tasks)
        report = progress and (lambda done, total: progress(ahead + done, ahead + total))
        for (place, key, answer), outcome in zip(waiting, self._run(tasks, report), strict=True):
            grade = _grade(answer, outcome)
            grades[place] = grade
            if outcome.lasting:
                self._grades.keep(key, grade)
        return [grade for grade in grades if grade is not None]

    def compare_many(self, answers: Sequence["Unsettled"], deadline: float = math.inf) -> list[Grade]:
        """Grades what `look` could not settle; unknown ("timeout") by the deadline of `time.monotonic()`."""
        outcomes = self._run([task for _, task in answers], None, deadline, looked=True)
        return [_grade(answer, outcome) for (answer, _), outcome in zip(answers, outcomes, strict=True)]

    def grade_apart(
        self, cases: Sequence[GradeCase], deadline: float = math.inf, progress: TellProgress | None = None
    ) -> list[Grade]:
        """Grades cases in the workers from the first character on: none can hold up the calling process.

        Slower than `grade_many` for all but the longest responses; nothing is remembered. What is not graded
        by the deadline (of `time.monotonic()`) is unknown ("timeout").
        """
        if self.own is None and any(case.kind is AnswerKind.CODE for case in cases):
            others = partial(self.grade_apart, deadline=deadline)
            return self._programs.grade_among(cases, others, progress, deadline)
        own = self._version if self.own is not None else None
        tasks = [
            Task("response", each.gold, each.response, each.kind, each.tolerance, each.boxed_only, own)
            for each in cases
        ]
        done: list[Task] = []

        def report(newly: Sequence[Task]) -> None:
            done.extend(newly)
            if progress is not None:
                progress(len(done), len(tasks))

        outcomes = self._pool.run(tasks, report, deadline)
        return [Grade(each.value, each.extracted, each.reason, each.source) for each in outcomes]

    def check_programs(self, golds: Sequence[tuple[str, str]]) -> list[Grade]:
        """Grades the reference of each gold, given as (gold, reference); see `ProgramGrader.check`."""
        return self._programs.check(golds)

    def check_golds(
        self, golds: Sequence[str | GradeCase], progress: TellProgress | None = None
    ) -> list[Grade]:
        r"""Grades each gold against itself, as a response `\boxed{gold}`; a proper gold is correct.

        Of a `GradeCase` the response is ignored, but for a program, where it is the reference ("" for none).
        An empty gold is unknown with the reason "no answer".
        """
        cases = [gold if isinstance(gold, GradeCase) else GradeCase("", gold) for gold in golds]
        if any(case.kind is AnswerKind.CODE for case in cases):
            return self._programs.check_among(cases, lambda rest: self.check_golds(rest, progress))
        boxed = [replace(case, response=f"\\boxed{{{gold_answer(case.gold)}}}") for case in cases]
        return self.grade_many(boxed, progress)

    def equal_many(
        self, pairs: Sequence[tuple[str, str]], progress: TellProgress | None = None
    ) -> list[GradeValue]:
        """Whether two extracted answers are equal.

        Correct needs both directions; a pair with an empty answer is unknown.
        """
        tasks = [Task("equal", first, second) for first, second in pairs]
        return [
            GradeValue.UNKNOWN if outcome.reason in ("no answer", "no answer found") else outcome.value
            for outcome in self._run(tasks, progress)
        ]

    def cluster(self, answers: Sequence[str | None], gold: str | None) -> Clustering:
        """Groups the answers of one question by mutual equality; see `Clustering`."""
        return self.cluster_many([ClusterJob(answers, gold)])[0]

    def cluster_many(
        self, jobs: Sequence[ClusterJob], progress: TellProgress | None = None
    ) -> list[Clustering]:
        """Groups the answers of each question. Pairs that occur in several questions are compared once.

        `progress` counts questions.
        """
        jobs = [ClusterJob(job.answers, gold_answer(job.gold) if job.gold else None) for job in jobs]
        singles = list(dict.fromkeys(raw for job in jobs for raw in spellings(job.answers)[1].values()))
        reads = self._run([Task("read", answer) for answer in singles], None)
        readable = {
            answer: outcome.reason != "unparsable" for answer, outcome in zip(singles, reads, strict=True)
        }
        groupings = [Grouping(job, readable.__getitem__) for job in jobs]
        while wanted := [grouping for grouping in groupings if grouping.pairs]:
            if progress is not None:
                progress(len(jobs) - len(wanted), len(jobs))
            pairs = list(dict.fromkeys(pair for grouping in wanted for pair in grouping.pairs))
            equal = dict(zip(pairs, self.equal_many(pairs), strict=True))
            for grouping in wanted:
                grouping.place(equal)
        if progress is not None:
            progress(len(jobs), len(jobs))
        return [grouping.result() for grouping in groupings]

    def _run(
        self,
        tasks: Sequence[Task],
        progress: TellProgress | None,
        deadline: float = math.inf,
        *,
        looked: bool = False,
    ) -> list[Outcome]:
        self._pool.check_open()
        outcomes: dict[Task, Outcome] = {}
        hard: dict[Task, int] = {}  # task -> how many cases share it
        for task in tasks:
            if task in outcomes:
                continue
            if task in hard:
                hard[task] += 1
            elif outcome := self._outcomes.get(task) or (None if looked else without_algebra(task)):
                outcomes[task] = outcome
            else:
                hard[task] = 1
        finished = len(tasks) - sum(hard.values())

        def report(newly: Sequence[Task]) -> None:
            nonlocal finished
            finished += sum(hard[task] for task in newly)
            if progress is not None:
                progress(finished, len(tasks))

        report([])
        waiting = list(hard)
        for start in range(0, len(waiting), _TASKS_PER_SAVE):
            outcomes |= self._settle(waiting[start : start + _TASKS_PER_SAVE], report, deadline)
        for task, outcome in outcomes.items():
            if outcome.lasting:
                self._outcomes.keep(task, outcome)
        return [outcomes[task] for task in tasks]

    def _settle(
        self, hard: list[Task], report: Callable[[Sequence[Task]], None], deadline: float
    ) -> dict[Task, Outcome]:
        outcomes = self._cache.load(hard) if self._cache is not None else {}
        report(list(outcomes))
        waiting = [task for task in hard if task not in outcomes]
        ended = self._pool.run(waiting, report, deadline) if waiting else []
        settled = dict(zip(waiting, ended, strict=True))
        if self._cache is not None:
            self._cache.save(settled)
        return outcomes | settled


Unsettled = tuple[FinalAnswer, Task]
"""The answer of a case and what is to be done with it."""


def _read(case: GradeCase) -> Grade | Unsettled:
    """The answer of a case and what to do with it, or the grade where there is none or an error."""
    try:
        answer = answer_of(case)
        if answer is None:
            return (NO_ANSWER if case.gold.strip() else NO_GOLD).grade
        return answer, Task("grade", gold_answer(case.gold), answer.text, case.kind, case.tolerance)
    except Exception:  # one response that cannot be read is no reason to grade no other
        return CRASHED.grade


def _grade(answer: FinalAnswer, outcome: Outcome) -> Grade:
    return Grade(outcome.value, answer.text, outcome.reason, answer.source)


def _as_case(case: GradeCase | tuple[str, str]) -> GradeCase:
    if not isinstance(case, GradeCase):
        return GradeCase(*case)
    return case if type(case.kind) is AnswerKind else replace(case, kind=AnswerKind(case.kind))


def without_algebra(task: Task) -> Outcome | None:
    """The outcome of a task as far as spelling and exact arithmetic settle it, else None.

    As in a worker, an error is an unknown outcome; only a bad tolerance, which is the problem's and not the
    answer's, raises InputError.
    """
    try:
        return _without_algebra(task)
    except InputError:
        raise
    except Exception:
        return CRASHED


def _without_algebra(task: Task) -> Outcome | None:
    if task.what == "grade":
        return judge(task.first, task.second, task.kind, task.tolerance)
    if task.what == "read":
        judged = compare(task.first, task.first + ",0", None)
        return judged if judged is not None and judged.reason == "unparsable" else None
    forward = compare(task.first, task.second)
    if forward is not None and forward.value is GradeValue.CORRECT:
        return compare(task.second, task.first)
    return forward


def _usable_cpus() -> int:
    known = hasattr(os, "sched_getaffinity")
    return min(8, len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1)


_lock = threading.Lock()
_grader: Grader | None = None


def grade(
    response: str,
    answer: str,
    kind: AnswerKind | str = AnswerKind.LATEX,
    *,
    tolerance: str | None = None,
    boxed_only: bool = False,
) -> Grade:
    r"""Grades one response against the gold answer of its problem.

    `kind` is latex, integer, choice, tolerance or code; with `boxed_only` nothing but a box is an answer.
    What spelling and exact arithmetic cannot settle goes to a worker process with the limits of `Grader`; it
    is started at the first such case and kept until the program ends. For many responses use
    `Grader.grade_many`. Raises InputError for a bad tolerance and ValueError for an unknown kind.

    >>> grade(r"so \boxed{\frac{2}{4}}", "0.5").value
    <GradeValue.CORRECT: 'correct'>
    """
    case = GradeCase(response, answer, AnswerKind(kind), tolerance, boxed_only)
    settled = None if case.kind is AnswerKind.CODE else settle(case)
    return settled or _shared_grader().grade_many([case])[0]


def settle(case: GradeCase) -> Grade | None:
    """The grade of a case as far as spelling and exact arithmetic go, None where algebra is needed.

    Not for programs, which are run (`Grader.grade_apart`).
    It is the one that `Grader.grade_many` gives.
    """
    seen = look(case)
    return seen if isinstance(seen, Grade) else None


def look(case: GradeCase) -> Grade | Unsettled:
    """As `settle`; where algebra is needed, what `Grader.compare_many` takes."""
    read = _read(case)
    if isinstance(read, Grade):
        return read
    outcome = without_algebra(read[1])
    return read if outcome is None else _grade(read[0], outcome)


def _shared_grader() -> Grader:
    global _grader
    with _lock:
        if _grader is None:
            _grader = Grader(workers=1)
            atexit.register(_grader.close)
        return _grader
