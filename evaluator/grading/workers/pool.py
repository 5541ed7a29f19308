"""Runs grading tasks in worker processes that can be killed, each task within its own limits.

There are two lanes. In the quick one tasks go out in chunks with little time. What looks expensive goes to
the careful one, and so do the tasks of a chunk that died (time, memory, crash): there each runs alone with
all the time it may take, in few workers of low priority, so that hostile answers cannot hold up honest ones
and only the culprit of a chunk is unknown. Pebble starts the clock when a worker takes a chunk, not when it
is queued, and replaces workers it has killed.
"""

import contextlib
import math
import multiprocessing
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any

from evaluator.grading.types import CRASHED, MEMORY, TIMEOUT, Grade
from evaluator.grading.workers import worker
from evaluator.grading.workers.tasks import Task
from service.errors import PrerequisiteError

_CHUNK = 24
_CHUNKS_PER_WORKER = 64
"""A worker is replaced after so many chunks, since sympy's caches only grow."""
_CANNOT_START = (
    "the grading workers cannot start; a script that grades must be a file and must do its work under "
    '`if __name__ == "__main__":`, since workers import it (their own message stands above)'
)
_RESTARTS = 3
_LOOK_S = 1.0
"""How often a pool that returns nothing is asked whether it still lives."""

QUICK, CAREFUL = "quick", "careful"
_QUICK_BUDGET_S = 0.5
_QUICK_LIMIT_S = 2.5


@dataclass(frozen=True)
class _Batch:
    indices: tuple[int, ...]
    lane: str


class WorkerPool:
    """Two lanes of killable workers, each started at first use; safe to share between threads.

    The quick lane has `workers` processes, the careful one half as many (at least two, so that an honest case
    that looks expensive need not wait for a hostile one).
    """

    def __init__(self, workers: int, time_limit_s: float, memory_limit_mb: int) -> None:
        self._workers = {QUICK: workers, CAREFUL: max(2, workers // 2)}
        self._time_limit_s = time_limit_s
        self._memory_limit_mb = memory_limit_mb
        self._lock = threading.Lock()
        self._pools: dict[str, Any] = {}
        self._closed = False

    def run(
        self,
        tasks: Sequence[Task],
        on_finished: Callable[[Sequence[Task]], None] | None = None,
        deadline: float = math.inf,
    ) -> list[Grade]:
        """The outcome of each task, in order. `on_finished` is called with the newly finished tasks.

        What has no outcome when `time.monotonic()` reaches the deadline is a time-out.
        Raises RuntimeError after `close`. Never hangs: when nothing finishes for far longer than the
        limits allow, the workers are started anew, and after three such starts what is left is "crashed".
        Raises PrerequisiteError when no worker can be started at all.
        """
        outcomes: list[Grade | None] = [None] * len(tasks)
        waiting = {QUICK: deque[_Batch](), CAREFUL: deque[_Batch]()}
        quick = []
        for index, task in enumerate(tasks):
            answers = () if task.what == "response" else (task.first, task.second)
            if any(map(looks_expensive, answers)):
                waiting[CAREFUL].append(_Batch((index,), CAREFUL))
            else:
                quick.append(index)
        size = max(1, min(_CHUNK, -(-len(quick) // (2 * self._workers[QUICK]))))
        for start in range(0, len(quick), size):
            waiting[QUICK].append(_Batch(tuple(quick[start : start + size]), QUICK))
        running: dict[Future[list[Grade]], tuple[_Batch, Any]] = {}
        restarts = 0
        try:
            while running or any(waiting.values()):
                if time.monotonic() >= deadline:
                    for future in running:
                        future.cancel()
                    return [outcome if outcome is not None else TIMEOUT for outcome in outcomes]
                broken = self._submit(tasks, waiting, running)
                if not broken and running:
                    finished, broken = self._wait(running, deadline)
                    for future in finished:
                        batch, pool = running.pop(future)
                        try:
                            newly = self._collect(future, batch, outcomes, waiting)
                        except RuntimeError:
                            broken.append(pool)
                            continue
                        if on_finished is not None:
                            on_finished([tasks[index] for index in newly])
                if broken:
                    restarts += 1
                    for future in [future for future, (_, pool) in running.items() if pool in broken]:
                        batch, _ = running.pop(future)
                        waiting[batch.lane].append(batch)
                    self.check_open()
                    if restarts > _RESTARTS:
                        if not any(outcomes):
                            raise PrerequisiteError(_CANNOT_START) from None
                        break
                    for pool in {id(pool): pool for pool in broken}.values():
                        self._drop(pool)
        except BaseException:
            for future in running:
                future.cancel()
            raise
        return [outcome if outcome is not None else CRASHED for outcome in outcomes]

    def _submit(
        self,
        tasks: Sequence[Task],
        waiting: "dict[str, deque[_Batch]]",
        running: dict[Future[list[Grade]], tuple[_Batch, Any]],
    ) -> list[Any]:
        """Hands out batches, two for each quick worker and one for each careful one; returns broken pools."""
        for lane, batches in waiting.items():
            room = self._workers[lane] * (2 if lane == QUICK else 1)
            room -= sum(batch.lane == lane for batch, _ in running.values())
            while batches and room > 0:
                pool = self._current(lane)
                try:
                    running[self._schedule(pool, tasks, batches[0])] = (batches[0], pool)
                except RuntimeError:
                    return [pool]
                batches.popleft()
                room -= 1
        return []

    def _wait(
        self, running: dict[Future[list[Grade]], tuple[_Batch, Any]], deadline: float
    ) -> tuple[set[Future[list[Grade]]], list[Any]]:
        """Waits for a batch; returns those that ended and the pools from which nothing will come any more.

        At the deadline there may be none of either.

        A pool that breaks forgets the batch that it was just given, and its future never ends.
        """
        give_up = time.monotonic() + self._patience()
        while (now := time.monotonic()) < give_up:
            look_s = max(0.0, min(_LOOK_S, deadline - now))
            finished, _ = wait(running, timeout=look_s, return_when=FIRST_COMPLETED)
            broken = [] if finished else [pool for _, pool in running.values() if not pool.active]
            if finished or broken or now >= deadline:
                return finished, broken
        return set(), [pool for _, pool in running.values()]

    def check_open(self) -> None:
        """Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("the grader is closed")

    def close(self) -> None:
        """Stops all workers and waits for them; running tasks are abandoned."""
        with self._lock:
            pools, self._pools, self._closed = list(self._pools.values()), {}, True
        for pool in pools:
            pool.stop()
            pool.join()

    def _patience(self) -> float:
        # Batches may wait for other callers' ones; starting a worker on a busy machine takes seconds.
        return 60.0 + 4 * self._time_limit_s

    def _schedule(self, pool: Any, tasks: Sequence[Task], batch: _Batch) -> Future[list[Grade]]:
        if batch.lane == CAREFUL:
            budget, limit = 0.0, self._time_limit_s
        else:
            budget = min(_QUICK_BUDGET_S, self._time_limit_s)
            limit = min(_QUICK_LIMIT_S, budget + self._time_limit_s)
        future: Future[list[Grade]] = pool.schedule(
            worker.run_chunk, args=([tasks[index] for index in batch.indices], budget), timeout=limit
        )
        return future

    def _collect(
        self,
        future: Future[list[Grade]],
        batch: _Batch,
        outcomes: list[Grade | None],
        waiting: "dict[str, deque[_Batch]]",
    ) -> tuple[int, ...]:
        """Takes in what a batch brought, puts the rest of it back and returns the tasks that are finished."""
        from concurrent.futures.process import BrokenProcessPool

        from pebble import ProcessExpired

        try:
            results = future.result()
        except BrokenProcessPool as error:
            waiting[batch.lane].append(batch)
            raise RuntimeError("the pool lost its workers") from error
        except (FutureTimeoutError, ProcessExpired, MemoryError, OSError) as error:
            if batch.lane == QUICK:
                waiting[CAREFUL].extend(_Batch((index,), CAREFUL) for index in batch.indices)
                return ()
            results = [_outcome_of(error)]
        for index, outcome in zip(batch.indices, results, strict=False):
            outcomes[index] = outcome
        if rest := batch.indices[len(results) :]:
            waiting[batch.lane].appendleft(_Batch(rest, batch.lane))
        return batch.indices[: len(results)]

    def _current(self, lane: str) -> Any:
        with self._lock:
            self.check_open()
            if lane not in self._pools:
                self._pools[lane] = self._start(lane)
            return self._pools[lane]

    def _drop(self, broken: Any) -> None:
        with self._lock:
            mine = [lane for lane, pool in self._pools.items() if pool is broken]
            for lane in mine:
                del self._pools[lane]
        if mine:
            with contextlib.suppress(RuntimeError):
                broken.stop()
                broken.join()

    def _start(self, lane: str) -> Any:
        from evaluator.grading.workers.processes import Processes

        return Processes(
            max_workers=self._workers[lane],
            max_tasks=_CHUNKS_PER_WORKER,
            initializer=worker.start_worker,
            initargs=[self._memory_limit_mb, lane == CAREFUL],
            context=_context(),
        )


def _outcome_of(error: BaseException) -> Grade:
    if isinstance(error, FutureTimeoutError):
        return TIMEOUT
    if getattr(error, "exitcode", None) == worker.MEMORY_EXIT or isinstance(error, MemoryError):
        return MEMORY
    return CRASHED


def _context() -> Any:
    """Fork servers are safe with threads, and a replaced worker starts with the algebra already loaded."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["math_verify", "pebble", "evaluator.grading.workers.warming"])
    return context


_LONG = 400
_DEEP = 16
_EXPENSIVE = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim)(?![A-Za-z])"
    r"|\\(?:binom|choose)(?![A-Za-z]).{0,60}(?:\d{3}|\^)"
    r"|\d{60}"  # a long number
    r"|\^ ?\{[^{}]{0,40}[\^!]|\^ ?\w ?[\^!]"  # a tower of powers
    r"|\^ ?\{? ?\d{4}|\d{4} ?\)? ?\^ ?\{?\d{3}"  # a large power
    r"|\)\^ ?\{? ?\d{2}"  # a power that multiplies out into many terms
    r"|\^[^!]{1,20}\) ?!|\d{3} ?\)? ?!|! ?\)? ?!"  # a large factorial, a factorial of a factorial
)


def looks_expensive(text: str) -> bool:
    """Tells from the text of an answer that comparing it may take long; a hint, never a verdict.

    True for long or deeply nested texts, integrals and sums, towers of powers and large factorials.
    """
    if len(text) > _LONG:
        return True
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth -= 1
    return deepest > _DEEP or _EXPENSIVE.search(text) is not None
