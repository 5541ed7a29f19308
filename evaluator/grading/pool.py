"""Runs grading tasks in worker processes that can be killed, each task within its own limits.

Tasks go out in chunks. When a chunk dies (time, memory, crash) its tasks are run again one by one, so that
only the culprit is unknown. Pebble starts the clock of a chunk when a worker takes it, not when it is
queued, and replaces workers it has killed.
"""

import contextlib
import multiprocessing
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any

from evaluator.errors import PrerequisiteError
from evaluator.grading import worker
from evaluator.grading.outcomes import CRASHED, MEMORY, TIMEOUT, Outcome

_CHUNK = 24
_CHUNKS_PER_WORKER = 64
"""A worker is replaced after so many chunks, since sympy's caches only grow."""
_CANNOT_START = (
    "the grading workers cannot start; a script that grades must be a file and must do its work under "
    '`if __name__ == "__main__":`, since workers import it (their own message stands above)'
)
_RESTARTS = 3


@dataclass(frozen=True)
class _Batch:
    indices: tuple[int, ...]
    alone: bool


class WorkerPool:
    """A pool of killable workers, started at first use; safe to share between threads."""

    def __init__(self, workers: int, time_limit_s: float, memory_limit_mb: int) -> None:
        self._workers = workers
        self._time_limit_s = time_limit_s
        self._memory_limit_mb = memory_limit_mb
        self._lock = threading.Lock()
        self._pool: Any = None
        self._closed = False

    def run(
        self, tasks: Sequence[worker.Task], done: Callable[[Sequence[worker.Task]], None] | None = None
    ) -> list[Outcome]:
        """The outcome of each task, in order. `done` is called with the newly finished tasks.

        Raises RuntimeError after `close`. Never hangs: when nothing finishes for far longer than the
        limits allow, the workers are started anew, and after three such starts what is left is "crashed".
        Raises PrerequisiteError when no worker can be started at all.
        """
        outcomes: list[Outcome | None] = [None] * len(tasks)
        size = max(1, min(_CHUNK, -(-len(tasks) // (2 * self._workers))))
        waiting = deque(
            _Batch(tuple(range(start, min(start + size, len(tasks)))), alone=size == 1)
            for start in range(0, len(tasks), size)
        )
        running: dict[Future[list[Outcome]], _Batch] = {}
        restarts = 0
        pool = self._current()
        try:
            while waiting or running:
                try:
                    while waiting and len(running) < 2 * self._workers:
                        batch = waiting.popleft()
                        try:
                            running[self._schedule(pool, tasks, batch)] = batch
                        except RuntimeError:
                            waiting.appendleft(batch)
                            raise
                    finished, _ = wait(running, timeout=self._patience(), return_when=FIRST_COMPLETED)
                    if not finished:
                        raise RuntimeError("no task finished in time")
                    for future in finished:
                        batch = running.pop(future)
                        finished_now = self._collect(future, batch, outcomes, waiting)
                        if done is not None:
                            done([tasks[index] for index in finished_now])
                except RuntimeError:
                    # The pool is broken: give back what it held, and start another.
                    restarts += 1
                    waiting.extend(running.values())
                    running.clear()
                    if self._closed:
                        raise
                    if restarts > _RESTARTS:
                        if not any(outcomes):
                            raise PrerequisiteError(_CANNOT_START) from None
                        break
                    pool = self._replace(pool)
        except BaseException:
            for future in running:
                future.cancel()
            raise
        return [outcome if outcome is not None else CRASHED for outcome in outcomes]

    def check_open(self) -> None:
        """Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("the grader is closed")

    def close(self) -> None:
        """Stops all workers and waits for them; running tasks are abandoned."""
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.stop()
            pool.join()

    def _patience(self) -> float:
        # Two batches may wait on each worker; starting a worker on a busy machine takes seconds.
        return 60.0 + 4 * self._time_limit_s

    def _schedule(self, pool: Any, tasks: Sequence[worker.Task], batch: _Batch) -> Future[list[Outcome]]:
        if batch.alone:
            budget, limit = 0.0, self._time_limit_s
        else:
            budget = min(1.0, self._time_limit_s)
            limit = budget + min(3.0, self._time_limit_s)
        future: Future[list[Outcome]] = pool.schedule(
            worker.run_chunk, args=([tasks[index] for index in batch.indices], budget), timeout=limit
        )
        return future

    def _collect(
        self,
        future: Future[list[Outcome]],
        batch: _Batch,
        outcomes: list[Outcome | None],
        waiting: "deque[_Batch]",
    ) -> tuple[int, ...]:
        from concurrent.futures.process import BrokenProcessPool

        from pebble import ProcessExpired

        try:
            results = future.result()
        except BrokenProcessPool as error:
            waiting.append(batch)
            raise RuntimeError("the pool lost its workers") from error
        except (FutureTimeoutError, ProcessExpired, MemoryError, OSError) as error:
            if not batch.alone:
                waiting.extendleft(_Batch((index,), alone=True) for index in reversed(batch.indices))
                return ()
            results = [_outcome_of(error)]
        for index, outcome in zip(batch.indices, results, strict=False):
            outcomes[index] = outcome
        if rest := batch.indices[len(results) :]:
            waiting.appendleft(_Batch(rest, alone=False))
        return batch.indices[: len(results)]

    def _current(self) -> Any:
        with self._lock:
            if self._closed:
                raise RuntimeError("the grader is closed")
            if self._pool is None:
                self._pool = self._start()
            return self._pool

    def _replace(self, broken: Any) -> Any:
        with self._lock:
            if self._closed:
                raise RuntimeError("the grader is closed")
            if self._pool is broken:
                self._pool = self._start()
                with contextlib.suppress(RuntimeError):
                    broken.stop()
                    broken.join()
            return self._pool

    def _start(self) -> Any:
        from pebble import ProcessPool

        return ProcessPool(
            max_workers=self._workers,
            max_tasks=_CHUNKS_PER_WORKER,
            initializer=worker.start_worker,
            initargs=[self._memory_limit_mb],
            context=_context(),
        )


def _outcome_of(error: BaseException) -> Outcome:
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
    context.set_forkserver_preload(["math_verify", "pebble", "evaluator.grading.symbolic"])
    return context
