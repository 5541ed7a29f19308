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
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from benchmarks.harness import add_data
from benchmarks.speed.grading_hostile import hostile_cases
from benchmarks.studies import grading_accuracy as data
from evaluator.grading import Grade, Grader, GradeValue
from evaluator.grading.normalize import normalize

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

    rows = [row for file in data.RESPONSE_FILES for row in data.load(args.data, file)]
    if args.rows:
        rows = random.Random(0).sample(rows, min(args.rows, len(rows)))
    report = {"responses": len(rows), **compare_speed(rows, args)}
    if not args.skip_hostile:
        report["hostile"] = run_hostile(args)
    print(json.dumps(report))


def timed(work: Callable[[], Any]) -> float:
    """Seconds that the work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare_speed(rows: Sequence[data.Row], args: argparse.Namespace) -> dict[str, Any]:
    """Return the responses per second of each way, and the ratios."""
    cases = [row.case for row in rows]
    data.plain_math_verify(rows)  # warms its caches
    plain = timed(lambda: data.plain_math_verify(rows))
    passes = []
    for _ in range(args.repeats):
        normalize.cache_clear()
        with Grader(workers=args.workers) as grader:
            started = timed(lambda: grader.grade_many(START))
            cold = timed(lambda: grader.grade_many(cases))
            passes.append((cold, started + cold, timed(lambda: grader.grade_many(cases))))
    medians = map(statistics.median, zip(*passes, strict=True))
    seconds = {"math_verify": plain, **dict(zip(("cold", "cold_with_start", "warm"), medians, strict=True))}
    for name, taken in seconds.items():
        print(f"{name:16s} {taken:8.3f} s  {len(cases) / taken:10,.0f} responses/s")
    return {
        **{f"{name}_ratio": round(plain / taken, 1) for name, taken in seconds.items()},
        "seconds": {name: round(taken, 4) for name, taken in seconds.items()},
    }


def run_hostile(args: argparse.Namespace) -> dict[str, Any]:
    """Hostile cases one by one, with the memory of the workers."""
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
    reasons = Counter(grade.reason for grade in grades)
    print(f"{len(hostile)} hostile cases: slowest {slowest:.2f} s, worker peak {memory.peak_mb:,.0f} MB")
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
        me = psutil.Process()
        while not self._stop.wait(0.05):
            for child in me.children(recursive=True):
                try:
                    self.peak_mb = max(self.peak_mb, child.memory_info().rss / 2**20)
                except psutil.Error:
                    continue


if __name__ == "__main__":
    main()
