"""Grade many requests concurrently: fast cases immediately, others in workers with a deadline."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from evaluator.grading import AnswerKind, Grade, GradeCase, Grader
from evaluator.grading.compare import read_tolerance
from evaluator.grading.grader import look
from service.errors import InputError

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
