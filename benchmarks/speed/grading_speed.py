"""Speed of the grader against plain sequential math-verify, and what hostile answers do to it.

The same labelled responses are graded by `verify(parse(gold), parse(response))` one after the other with
math-verify's own time-outs and its caches warm, by a grader that has seen none of them (cold), and by the
same grader again (warm). Then hostile answers run one by one. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import add_data
from evaluator.grading import Grade, GradeCase, Grader, GradeValue

GRACE_S = 2.0  # to kill a worker and start another on a busy machine
START = [(r"\boxed{\sin(7)+\sin(7)}", r"2\sin(7)")]


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, help="grade only so many responses, drawn at random (seed 0)")
    parser.add_argument("--workers", type=int, help="processes of the grader")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each pass; the median counts")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds a hostile case may take")
    parser.add_argument("--skip-hostile", action="store_true")
    args = parser.parse_args()

    from benchmarks.studies import graded_responses as data

    rows = [row for file in data.RESPONSE_FILES for row in data.load(args.data, file)]
    if args.rows:
        rows = random.Random(0).sample(rows, min(args.rows, len(rows)))
    cases = [row.case for row in rows]
    report: dict[str, Any] = {"responses": len(cases)}
    report |= compare_speed(rows, cases, args)
    if not args.skip_hostile:
        report["hostile"] = run_hostile(args)
    print(json.dumps(report))


def timed(work: Callable[[], Any]) -> float:
    """Seconds that the work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def forget() -> None:
    """Empties the caches of this process that outlive a grader."""
    from evaluator.grading.normalize import normalize

    normalize.cache_clear()


def compare_speed(
    rows: Sequence[Any], cases: Sequence[GradeCase], args: argparse.Namespace
) -> dict[str, Any]:
    """Responses per second of each way, and the ratios."""
    from benchmarks.studies import graded_responses as data

    data.plain_math_verify(rows)  # warms its caches
    plain: list[float] = []
    cold: list[float] = []
    warm: list[float] = []
    from_nothing: list[float] = []
    for _ in range(args.repeats):
        if not plain:
            plain.append(timed(lambda: data.plain_math_verify(rows)))
        forget()
        with Grader(workers=args.workers) as grader:
            started = timed(lambda: grader.grade_many(START))
            cold.append(timed(lambda: grader.grade_many(cases)))
            warm.append(timed(lambda: grader.grade_many([GradeCase(**vars(case)) for case in cases])))
            from_nothing.append(started + cold[-1])
    seconds = {
        "math_verify": min(plain),
        "cold": statistics.median(cold),
        "cold_with_start": statistics.median(from_nothing),
        "warm": statistics.median(warm),
    }
    for name, taken in seconds.items():
        print(f"{name:16s} {taken:8.3f} s  {len(cases) / taken:10,.0f} responses/s")
    ratio = {f"{name}_ratio": round(seconds["math_verify"] / seconds[name], 1) for name in list(seconds)[1:]}
    return {
        **ratio,
        "seconds": {name: round(taken, 4) for name, taken in seconds.items()},
        "per_second": {name: round(len(cases) / taken) for name, taken in seconds.items()},
    }


def run_hostile(args: argparse.Namespace) -> dict[str, Any]:
    """Hostile cases one by one, with the memory of the workers."""
    from benchmarks.speed.grading_hostile import hostile_cases

    hostile = hostile_cases()
    taken: list[float] = []
    grades: list[Grade] = []
    with Grader(workers=args.workers, time_limit_s=args.limit) as grader, MemoryWatch() as memory:
        grader.grade_many(START)
        for case in hostile:
            started = time.perf_counter()
            grades += grader.grade_many([case])
            taken.append(time.perf_counter() - started)
    slowest = max(taken)
    reasons: dict[str, int] = {}
    for grade in grades:
        reasons[grade.reason] = reasons.get(grade.reason, 0) + 1
    print(f"{len(hostile)} hostile cases: slowest {slowest:.2f} s, worker peak {memory.peak_mb:,.0f} MB")
    print(f"  {reasons}")
    return {
        "cases": len(hostile),
        "over_limit": sum(seconds > args.limit + GRACE_S for seconds in taken),
        "limit_s": args.limit,
        "slowest_s": round(slowest, 3),
        "false_correct": sum(grade.value is GradeValue.CORRECT for grade in grades),
        "worker_peak_mb": round(memory.peak_mb),
        "reasons": reasons,
    }


class MemoryWatch:
    """The largest resident memory of any process below this one, sampled 20 times a second."""

    def __enter__(self) -> MemoryWatch:
        self.peak_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._stop.wait(0.05):
            for child in me.children(recursive=True):
                try:
                    self.peak_mb = max(self.peak_mb, child.memory_info().rss / 2**20)
                except psutil.Error:
                    continue


if __name__ == "__main__":
    main()
