"""The grader: grades responses, compares answers and clusters them, within limits of time and memory."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from evaluator.grading import clustering
from evaluator.grading.boxes import boxed_answer
from evaluator.grading.compare import NO_ANSWER, Outcome, compare
from evaluator.grading.extraction import find_answer
from evaluator.grading.kinds import judge
from evaluator.grading.pool import WorkerPool
from evaluator.grading.types import AnswerKind, Clustering, ClusterJob, Grade, GradeCase, GradeValue
from evaluator.grading.worker import Task

Progress = Callable[[int, int], None]
"""Called with the number of finished cases and the number of all cases."""


class Grader:
    """Grades answers in worker processes; a context manager.

    Args:
        workers: number of processes (default: the CPUs this process may use, at most 8).
        time_limit_s: wall-clock seconds one comparison may take, counted from its start in the worker.
        memory_limit_mb: memory a worker may take on top of what it holds when it starts.

    Spelling and exact arithmetic are compared in the calling process; only what needs algebra goes to the
    workers, which start at the first such case. Safe to use from several threads. A script that uses it
    needs the usual `if __name__ == "__main__":`, since workers import the main module.
    """

    def __init__(
        self, workers: int | None = None, time_limit_s: float = 10.0, memory_limit_mb: int = 2048
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is {workers}; give at least 1")
        if time_limit_s <= 0 or memory_limit_mb <= 0:
            raise ValueError(f"limits must be positive: {time_limit_s} s, {memory_limit_mb} MB")
        self._pool = WorkerPool(workers or _usable_cpus(), time_limit_s, memory_limit_mb)

    def __enter__(self) -> "Grader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the workers; the grader cannot be used afterwards. Closing twice does nothing."""
        self._pool.close()

    def grade_many(
        self, cases: Sequence[GradeCase | tuple[str, str]], progress: Progress | None = None
    ) -> list[Grade]:
        r"""Grades cases, or (response, gold) pairs of the kind latex, in order.

        A response without an answer is wrong ("no answer found"); an empty gold makes the grade unknown. A
        gold may be a bare answer or hold it in a `\boxed{}`. Raises InputError for a bad tolerance.
        """
        found = []
        tasks: list[Task | None] = []
        for case in map(_as_case, cases):
            answer = find_answer(case.response, case.kind)
            found.append(answer)
            tasks.append(
                Task("grade", gold_answer(case.gold), answer.text, AnswerKind(case.kind), case.tolerance)
                if answer is not None
                else None
            )
        return [
            Grade(outcome.value, answer.text, outcome.reason, answer.source)
            if answer is not None
            else Grade(outcome.value, None, outcome.reason)
            for outcome, answer in zip(self._run(tasks, progress), found, strict=True)
        ]

    def check_golds(self, golds: Sequence[str | GradeCase], progress: Progress | None = None) -> list[Grade]:
        r"""Grades each gold against itself, as a response `\boxed{gold}`; a proper gold is correct.

        Of a `GradeCase` the response is ignored. An empty gold is unknown with the reason "no answer".
        """
        cases = [gold if isinstance(gold, GradeCase) else GradeCase("", gold) for gold in golds]
        boxed = [replace(case, response=f"\\boxed{{{gold_answer(case.gold)}}}") for case in cases]
        return self.grade_many(boxed, progress)

    def equal_many(
        self, pairs: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> list[GradeValue]:
        """Whether two extracted answers are equal.

        Correct needs both directions; a pair with an empty answer is unknown.
        """
        tasks: list[Task | None] = [Task("equal", first, second) for first, second in pairs]
        return [
            GradeValue.UNKNOWN if outcome.reason in ("no answer", "no answer found") else outcome.value
            for outcome in self._run(tasks, progress)
        ]

    def cluster(self, answers: Sequence[str | None], gold: str | None) -> Clustering:
        """Groups the answers of one question by mutual equality; see `Clustering`."""
        return self.cluster_many([ClusterJob(answers, gold)])[0]

    def cluster_many(self, jobs: Sequence[ClusterJob], progress: Progress | None = None) -> list[Clustering]:
        """Groups the answers of each question. Pairs that occur in several questions are compared once."""
        jobs = [ClusterJob(job.answers, gold_answer(job.gold) if job.gold else None) for job in jobs]
        pairs = list(dict.fromkeys(pair for job in jobs for pair in clustering.pairs_of(job)))
        equal = dict(zip(pairs, self.equal_many(pairs, progress), strict=True))
        singles = list(dict.fromkeys(raw for job in jobs for raw in clustering.keys_of(job)[1].values()))
        reads = self._run([Task("read", answer) for answer in singles], None)
        readable = {
            answer: outcome.reason != "unparsable" for answer, outcome in zip(singles, reads, strict=True)
        }
        return [clustering.group(job, equal, readable.__getitem__) for job in jobs]

    def _run(self, tasks: Sequence[Task | None], progress: Progress | None) -> list[Outcome]:
        outcomes: dict[Task, Outcome] = {}
        hard: dict[Task, int] = {}  # task -> how many cases share it
        finished = 0
        for task in tasks:
            if task is None or task in outcomes:
                finished += 1
            elif task in hard:
                hard[task] += 1
            else:
                outcome = without_algebra(task)
                if outcome is None:
                    hard[task] = 1
                else:
                    outcomes[task] = outcome
                    finished += 1
        if progress is not None:
            progress(finished, len(tasks))
        if hard:
            remaining = len(tasks) - finished
            reported = 0

            def report(newly: int) -> None:
                nonlocal reported
                reported += newly
                if progress is not None:
                    progress(finished + remaining * reported // len(hard), len(tasks))

            waiting = list(hard)
            outcomes.update(zip(waiting, self._pool.run(waiting, report), strict=True))
        return [NO_ANSWER if task is None else outcomes[task] for task in tasks]


def gold_answer(gold: str) -> str:
    r"""The answer in a gold: the content of its last `\boxed{}` (or boxes in a row), else the gold itself."""
    boxed = boxed_answer(gold)
    return gold if boxed is None else boxed


def _as_case(case: GradeCase | tuple[str, str]) -> GradeCase:
    return case if isinstance(case, GradeCase) else GradeCase(*case)


def without_algebra(task: Task) -> Outcome | None:
    """The outcome of a task as far as spelling and exact arithmetic settle it, else None."""
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
    try:
        return min(8, len(os.sched_getaffinity(0)))
    except AttributeError:
        return min(8, os.cpu_count() or 1)
