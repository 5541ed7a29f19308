"""Grades programs: finds them in responses, runs them against the gold's tests, several at a time."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from evaluator.grading.programs.extraction import find_programs
from evaluator.grading.types import (
    CRASHED,
    NO_ANSWER,
    NO_GOLD,
    TIMEOUT,
    Grade,
    GradeCase,
    GradeValue,
)
from service.enclosure.inside import Limits
from service.enclosure.running import Enclosure, ProgramResult, refusal
from service.errors import PrerequisiteError
from service.program_gold import ProgramGold, read_gold
from service.telling import TellProgress

PASSES = "passes the tests"
"""What stands as the answer of a program that is right; other programs' say how they fail."""
_REASONS = {
    "passed": "tests passed",
    "failed": "tests failed",
    "raised": "error raised",
    "ended": "ended early",
    "too slow": "too slow",
    "too large": "too much memory",
    "bad tests": "bad tests",
    "not run": "not run",
}
_UNKNOWN = ("bad tests", "not run")
_NO_PYTHON = ("SyntaxError", "IndentationError")
_MOST_TOLD = 200
_MAX_REMEMBERED = 100_000


class ProgramGrader:
    """Runs programs in enclosures, `workers` at a time; the time limit counts a program's CPU seconds."""

    def __init__(self, workers: int, time_limit_s: float, memory_limit_mb: int) -> None:
        self._workers = workers
        seconds = max(1, math.ceil(time_limit_s))
        self._limits = Limits(seconds, 3.0 * seconds, min(memory_limit_mb, 1024))
        self._known: dict[GradeCase, Grade] = {}
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="programs")
        self._of_thread = threading.local()
        self._enclosures: list[Enclosure] = []

    def close(self) -> None:
        """End the enclosures."""
        if self._process == os.getpid():
            self._threads.shutdown(wait=False, cancel_futures=True)
            for enclosure in self._enclosures:
                enclosure.close()

    def grade(
        self,
        cases: Sequence[GradeCase],
        progress: TellProgress | None = None,
        deadline: float = math.inf,
    ) -> list[Grade]:
        """Grade programs by the tests of their golds.

        Equal cases run once. Programs that did not run by the deadline are unknown.

        Raises:
            PrerequisiteError: this machine cannot run programs.
        """
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        grades = {case: self._known[case] for case in cases if case in self._known}
        times = Counter(case for case in cases if case not in grades)
        if times and (why := refusal()) is not None:
            raise PrerequisiteError(" ".join(why))
        if self._process != os.getpid():  # a fork has neither the threads nor their enclosures
            self._begin()
        futures = {self._threads.submit(self._grade, case, deadline): case for case in times}
        done = len(cases) - times.total()
        for future in as_completed(futures):
            case = futures[future]
            grade = grades[case] = future.result() if future.exception() is None else CRASHED
            if grade.value is not GradeValue.UNKNOWN:
                self._known[case] = grade
            done += times[case]
            if progress is not None:
                progress(done, len(cases))
        return [grades[case] for case in cases]

    def _grade(self, case: GradeCase, deadline: float) -> Grade:
        if time.monotonic() >= deadline:
            return TIMEOUT
        if not case.gold.strip():
            return NO_GOLD
        gold = read_gold(case.gold)
        programs = find_programs(case.response, gold)
        if programs is None:
            return NO_ANSWER
        enclosure = getattr(self._of_thread, "enclosure", None)
        if enclosure is None:
            enclosure = self._of_thread.enclosure = Enclosure()
            self._enclosures.append(enclosure)
        result = enclosure.run(programs.sources, gold, self._limits)
        if programs.source != "code block" and result.text.startswith(_NO_PYTHON):
            return NO_ANSWER  # prose
        value = GradeValue.CORRECT if result.value == "passed" else GradeValue.WRONG
        if result.value in _UNKNOWN:
            value = GradeValue.UNKNOWN
        return Grade(value, describe(result, gold), _REASONS[result.value], programs.source)


def describe(result: ProgramResult, gold: ProgramGold) -> str:
    """Say in a line how a program did: the test that said no, the error that it raised."""
    if result.value == "passed":
        return PASSES
    lines = gold.tests.split("\n")
    place = lines[result.line - 1].strip() if result.line and result.line <= len(lines) else ""
    how = ": ".join(filter(None, (_REASONS[result.value], " ".join(result.text.split()))))
    return (f"{how} at `{place}`" if place else how)[:_MOST_TOLD]
