"""The grader: grades responses, compares answers and clusters them, within limits of time and memory."""

import asyncio
import atexit
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

from evaluator.grading.compare import Task, WorkerTask, do_task, read_case, read_tolerance, with_answer
from evaluator.grading.extraction import FinalAnswer, gold_answer
from evaluator.grading.normalize import normalize, too_long
from evaluator.grading.types import (
    CRASHED,
    GRADER_VERSION,
    NEEDS_ALGEBRA,
    TIMEOUT,
    AnswerKind,
    Clustering,
    ClusterJob,
    Grade,
    GradeCase,
    GradeValue,
)
from evaluator.grading.workers.own import own_version
from evaluator.grading.workers.pool import WorkerPool
from service.enclosure.running import refusal
from service.errors import InputError, PrerequisiteError
from service.telling import TellProgress

_MAX_REMEMBERED = 200_000


class Grader(AbstractContextManager["Grader"]):
    """Grades answers in worker processes; a context manager.

    Args:
        workers: number of processes (default: the CPUs this process may use, at most 8).
        time_limit_s: wall-clock seconds per comparison, counted from its start in the worker.
        memory_limit_mb: memory a worker may take on top of what it holds when it starts.
        own: the user's `module:function` that grades responses instead of the rules (`workers.own`). The
            rules still compare answers.

    The calling process compares by spelling and exact arithmetic; only comparisons that need algebra go to
    the workers, which start at the first such case. Programs run in enclosures, as many at a time, each with
    `time_limit_s` seconds of a CPU. Safe to use from several threads. A script that uses it needs the usual
    `if __name__ == "__main__":`, since workers import the main module.
    """

    def __init__(
        self,
        workers: int | None = None,
        time_limit_s: float = 10.0,
        memory_limit_mb: int = 2048,
        own: str | None = None,
    ) -> None:
        if (workers is not None and workers < 1) or time_limit_s <= 0 or memory_limit_mb <= 0:
            raise ValueError(f"limits must be positive: {workers=}, {time_limit_s=}, {memory_limit_mb=}")
        self.own = own
        self.version = GRADER_VERSION if own is None else own_version(own)
        self._pool = WorkerPool(
            workers or _usable_cpus(), time_limit_s, memory_limit_mb, self.version if own else None
        )
        self._reads: dict[object, tuple[FinalAnswer | None, Task | Grade]] = {}
        self._compared: dict[Task, Grade] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers; the grader cannot be used afterwards. Closing twice does nothing."""
        self._pool.close()

    def grade_many(
        self,
        cases: Sequence[GradeCase | tuple[str, str]],
        progress: TellProgress | None = None,
        deadline: float = math.inf,
        *,
        apart: bool = False,
    ) -> list[Grade]:
        r"""Grade cases, or (response, gold) pairs of the kind latex, in order.

        A response without an answer is wrong ("no answer found"); an empty gold makes the grade unknown. A
        gold may be a bare answer or hold it in a `\boxed{}`. An error over a case, in a worker or here, makes
        its grade unknown ("crashed"). Raises InputError for a bad tolerance, and PrerequisiteError if there
        are programs and this machine cannot run any.

        Args:
            deadline: cases without a grade at this `time.monotonic()` are unknown ("timeout").
            apart: read responses in the workers too, so that none can hold up the calling process. Slower for
                all but the longest responses. An own grader always reads them there.
        """
        given = [_as_case(case) for case in cases]
        if apart or self.own is not None:
            return self._run(given, len(given), progress, deadline)
        answers: list[FinalAnswer | None] = []

        def comparisons() -> Iterator[WorkerTask | Grade]:
            for case in given:
                answer, comparison = self._read(case)
                answers.append(answer)
                yield comparison

        grades = self._run(comparisons(), len(given), progress, deadline)
        return [with_answer(grade, answer) for grade, answer in zip_longest(grades, answers)]

    def _read(self, case: GradeCase) -> tuple[FinalAnswer | None, WorkerTask | Grade]:
        """Read a case; remember the result by a hash of the response, since responses are long."""
        if case.kind is AnswerKind.CODE:
            return None, case
        digest = blake2b(case.response.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = (digest, case.gold, case.kind, case.tolerance, case.boxed_only)
        read = self._reads.get(key) or read_case(case)
        if len(self._reads) >= _MAX_REMEMBERED:
            self._reads.clear()
        if read[1] is not CRASHED:
            self._reads[key] = read
        return read

    def check_golds(
        self, golds: Sequence[str | GradeCase], progress: TellProgress | None = None
    ) -> list[Grade]:
        r"""Grade each gold against itself, as a response `\boxed{gold}`; a proper gold is correct.

        Of a `GradeCase` the response is ignored, unless the gold is tests: then it is their reference, or "".
        Tests are unknown ("bad tests") if they pass without any program, or if they have no reference and are
        not Python. An empty gold is unknown ("no answer").
        """
        cases = [gold if isinstance(gold, GradeCase) else GradeCase("", gold) for gold in golds]
        grades = self.grade_many([replace(case, response=_proof(case)) for case in cases], progress)
        for place, (case, grade) in enumerate(zip(cases, grades, strict=True)):
            empty = case.kind is AnswerKind.CODE and not case.response.strip()
            if empty and grade.value is GradeValue.WRONG:  # as tests must be without any program
                grades[place] = Grade(GradeValue.CORRECT, None, grade.reason)
        return grades

    def equal_many(self, pairs: Sequence[tuple[str, str]]) -> list[GradeValue]:
        """Whether two extracted answers are equal.

        Correct needs both directions; a pair with an empty answer is unknown.
        """
        tasks = [Task("equal", first, second) for first, second in pairs]
        return [
            GradeValue.UNKNOWN if grade.reason in ("no answer", "no answer found") else grade.value
            for grade in self._run(tasks)
        ]

    def cluster_many(self, jobs: Sequence[ClusterJob]) -> list[Clustering]:
        """Group the answers of each question. Pairs that occur in several questions are compared once."""
        jobs = [ClusterJob(job.answers, gold_answer(job.gold) if job.gold else None) for job in jobs]
        singles = list(dict.fromkeys(raw for job in jobs for raw in spellings(job.answers)[1].values()))
        reads = self._run([Task("read", answer) for answer in singles])
        readable = {answer: read.reason != "unparsable" for answer, read in zip(singles, reads, strict=True)}
        groupings = [Grouping(job, readable.__getitem__) for job in jobs]
        while wanted := [grouping for grouping in groupings if grouping.pairs]:
            pairs = list(dict.fromkeys(pair for grouping in wanted for pair in grouping.pairs))
            equal = dict(zip(pairs, self.equal_many(pairs), strict=True))
            for grouping in wanted:
                grouping.place(equal)
        return [grouping.result() for grouping in groupings]

    def _run(
        self,
        tasks: Iterable[WorkerTask | Grade],
        total: int = 0,
        progress: TellProgress | None = None,
        deadline: float = math.inf,
    ) -> list[Grade]:
        """Do tasks, equal ones once: here if algebra is not needed, else in the workers.

        This process takes further tasks while the workers compare.
        """
        self._pool.check_open()
        if len(self._compared) > _MAX_REMEMBERED:
            self._compared.clear()
        order: list[WorkerTask | Grade] = []
        grades: dict[WorkerTask | Grade, Grade] = {}
        waiting = Counter[WorkerTask | Grade]()

        def tasks_for_workers() -> Iterator[WorkerTask]:
            for task in tasks:
                order.append(task)
                if task not in grades:
                    grades[task] = self._grade_here(task)
                if grades[task] is NEEDS_ALGEBRA and not isinstance(task, Grade):
                    waiting[task] += 1
                    if waiting[task] == 1 and not self._is_program(task):
                        yield task

        def report(finished: Mapping[Any, Grade]) -> None:
            grades.update(finished)
            for task in finished:
                del waiting[task]
            if progress is not None:
                progress(len(order) - waiting.total(), total)

        for_workers = tasks_for_workers()
        self._pool.run(for_workers, report, deadline)
        deque(for_workers, maxlen=0)  # after the deadline: those that need no worker
        programs = [task for task in waiting if isinstance(task, GradeCase) and self._is_program(task)]
        if programs and (why := refusal()) is not None:
            raise PrerequisiteError(" ".join(why))
        self._pool.run(iter(programs), report, deadline, first="programs")
        report({})
        for task, grade in grades.items():
            if isinstance(task, Task) and grade.is_lasting:
                self._compared[task] = grade
        return [TIMEOUT if grades[task] is NEEDS_ALGEBRA else grades[task] for task in order]

    def _grade_here(self, task: WorkerTask | Grade) -> Grade:
        """Return `NEEDS_ALGEBRA` for a task of the workers; they also read cases."""
        if isinstance(task, Task):
            return self._compared.get(task) or without_algebra(task)
        return NEEDS_ALGEBRA if isinstance(task, GradeCase) else task

    def _is_program(self, task: WorkerTask) -> bool:
        return task.kind is AnswerKind.CODE and self.own is None


def _proof(case: GradeCase) -> str:
    """Return the response that gives the gold of a case, or its reference."""
    if case.kind is AnswerKind.CODE:
        return f"```python\n{case.response or 'pass'}\n```"
    return f"\\boxed{{{gold_answer(case.gold)}}}"


def _as_case(case: GradeCase | tuple[str, str]) -> GradeCase:
    if not isinstance(case, GradeCase):
        return GradeCase(*case)
    return case if type(case.kind) is AnswerKind else replace(case, kind=AnswerKind(case.kind))


def without_algebra(task: WorkerTask | Grade) -> Grade:
    """Do a task in this process; `NEEDS_ALGEBRA` if spelling and exact arithmetic are not enough.

    As in a worker, an error is an unknown grade; only a bad tolerance, which is the problem's and not the
    answer's, raises InputError.
    """
    try:
        return do_task(task)
    except InputError:
        raise
    except Exception:
        return CRASHED


def _usable_cpus() -> int:
    known = hasattr(os, "sched_getaffinity")
    return min(8, len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1)


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
    seen = look(case) if case.kind is not AnswerKind.CODE else None
    return seen or _shared_grader().grade_many([case])[0]


def look(case: GradeCase) -> Grade | None:
    """Return the grade of a case, as `Grader.grade_many` gives it; None if it needs algebra. No programs."""
    answer, comparison = read_case(case)
    grade = without_algebra(comparison)
    return None if grade is NEEDS_ALGEBRA else with_answer(grade, answer)


_lock = threading.Lock()
_graders: list[Grader] = []


def _shared_grader() -> Grader:
    with _lock:  # threads that come at the same time get the same
        if not _graders:
            _graders.append(Grader(workers=1))
            atexit.register(_graders[0].close)
        return _graders[0]


Pair = tuple[str, str]


def spellings(answers: Sequence[str | None]) -> tuple[list[str | None], dict[str, str]]:
    """The spelling of each answer (None when absent), and a raw text for each spelling, the shortest.

    Answers too long to be read count as absent.
    """
    keys: list[str | None] = []
    raw: dict[str, str] = {}
    for answer in answers:
        absent = answer is None or not answer.strip() or too_long(answer)
        key = None if answer is None or absent else normalize(answer) or None
        keys.append(key)
        if key is not None and answer is not None:
            raw[key] = min(raw.get(key, answer), answer, key=_plainness)
    return keys, raw


class Grouping:
    """The answers of one question on their way into classes; ask `pairs`, answer by `place`, to the end.

    Representatives are the gold, then the most frequent spellings, so that a chance resemblance of a rare
    answer cannot split a common class. Each takes all answers that equal it. An answer whose comparison with
    one stayed unknown represents no class: it may be the same. The order of the answers plays no part.
    """

    def __init__(self, job: ClusterJob, readable: Callable[[str], bool]) -> None:
        self._keys, self._raw = spellings(job.answers)
        [gold], raw_gold = spellings([job.gold])
        self._raw |= raw_gold
        self._readable = readable
        counts = Counter(key for key in self._keys if key is not None)
        order = sorted(counts, key=lambda key: (-counts[key], *_plainness(key)))
        self._rest = [key for key in order if key != gold]
        self._gold, self._gold_seen = gold, gold in counts
        self._classes: list[str] = []
        self._class_of: dict[str, int] = {}
        self._doubtful: set[str] = set()
        self._unknown = 0
        self._open(gold if gold is not None else self._next())

    @property
    def pairs(self) -> list[Pair]:
        """The comparisons that are wanted next, as raw texts; none once all answers are placed."""
        if self._leader is None:
            return []
        return [(self._raw[self._leader], self._raw[key]) for key in self._rest]

    def place(self, equal: Mapping[Pair, GradeValue]) -> None:
        """Takes the outcomes of `pairs`."""
        values = dict(zip(self._rest, map(equal.__getitem__, self.pairs), strict=True))
        same = {key for key, value in values.items() if value is GradeValue.CORRECT}
        unknown = [key for key, value in values.items() if value is GradeValue.UNKNOWN]
        doubtful = {key for key in unknown if self._readable(self._raw[key])}
        self._unknown += len(unknown)
        self._class_of.update(dict.fromkeys(same, len(self._classes) - 1))
        self._rest = [key for key in self._rest if key not in same]
        if doubtful and self._leader == self._gold and not same and not self._gold_seen:
            # No answer equals the gold for certain: one that may equal it can still represent a class.
            self._gold = None
            self._classes.clear()
        else:
            self._doubtful |= doubtful
        self._open(self._next())

    def result(self) -> Clustering:
        """The classes, once nothing is wanted any more."""
        unsettled = self._doubtful.intersection(self._rest)
        return Clustering(
            classes=tuple(self._raw[key] for key in self._classes),
            assignment=tuple(self._class_of.get(key) if key is not None else None for key in self._keys),
            gold=0 if self._gold is not None else None,
            unknown=self._unknown,
            unsettled=tuple(place for place, key in enumerate(self._keys) if key in unsettled),
        )

    def _next(self) -> str | None:
        """The first answer left that can represent a class."""
        return next(
            (key for key in self._rest if key not in self._doubtful and self._readable(self._raw[key])), None
        )

    def _open(self, leader: str | None) -> None:
        self._leader = leader
        if leader is not None:
            self._class_of[leader] = len(self._classes)
            self._classes.append(leader)
            self._rest = [key for key in self._rest if key != leader]


def _plainness(text: str) -> tuple[int, str]:
    return len(text), text


_WAITERS = 256
"""Threads that only wait for workers: so many hostile requests must come before honest ones wait."""

_LONGEST_READ_HERE = 20_000
"""Characters of a response; some texts of this length take a tenth of a second, in which others wait."""


class Desk:
    """A grader that many requests await; `close` closes it too. What takes too long is unknown."""

    def __init__(self, grader: Grader, deadline_s: float) -> None:
        self.grader = grader
        self.deadline_s = deadline_s
        self._waiters = ThreadPoolExecutor(_WAITERS, thread_name_prefix="waiter")

    async def grade(self, cases: Sequence[GradeCase]) -> list[Grade]:
        """Return the grade of each case, in order; `InputError` names a case with an unreadable tolerance."""
        deadline = time.monotonic() + self.deadline_s
        for place, case in enumerate(cases):
            try:
                read_tolerance(case.tolerance)
            except InputError as error:
                raise InputError(f"cases.{place}: {error}.") from error
        long = any(len(case.response) > _LONGEST_READ_HERE or case.kind is AnswerKind.CODE for case in cases)
        alone = len(cases) == 1 and not long and self.grader.own is None
        if alone and (graded := look(cases[0])) is not None:
            return [graded]  # handing it to a thread costs more than grading it
        grade = partial(self.grader.grade_many, cases, deadline=deadline, apart=long)
        return await asyncio.get_running_loop().run_in_executor(self._waiters, grade)

    def close(self) -> None:
        """Stop the grader's processes."""
        self._waiters.shutdown(wait=False, cancel_futures=True)
        self.grader.close()
