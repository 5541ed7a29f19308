"""Grade many requests concurrently: fast cases immediately, others in workers with a deadline."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from evaluator.grading import AnswerKind, Grade, GradeCase, Grader
from evaluator.grading.grader import look
from service.errors import InputError

_READERS = 2
_WAITERS = 256
"""Threads that only wait for workers: so many hostile requests must come before honest ones wait."""

_LONGEST_READ_HERE = 20_000
"""Characters; some texts of this length take a tenth of a second, in which nobody else is answered."""

_READING_S = 0.5
"""What one request may take of this process; the rest of it goes to the workers."""

Settled = tuple[dict[int, Grade], list[int], list[int]]
"""Grades by place, the places of what needs algebra, and of what is better read elsewhere."""


class Desk:
    """A grader that many requests await; `close` closes it too. What takes too long is unknown."""

    def __init__(self, grader: Grader, deadline_s: float) -> None:
        self.grader = grader
        self.deadline_s = deadline_s
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="reader")
        self._waiters = ThreadPoolExecutor(_WAITERS, thread_name_prefix="waiter")

    async def grade(self, cases: Sequence[GradeCase]) -> list[Grade]:
        """Return the grade of each case, in order.

        Raises:
            InputError: a tolerance that cannot be read; the message names the case.
        """
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + self.deadline_s
        # Handing a short response to a thread costs more than grading most of them.
        if self.grader.own is not None:
            settled: Settled = {}, [], list(range(len(cases)))
        elif len(cases) == 1:
            settled = settle_quickly(cases)
        else:
            settled = await loop.run_in_executor(self._readers, settle_quickly, cases)
        grades, algebra, apart = settled

        async def fill(grade: Callable[..., list[Grade]], places: Sequence[int]) -> None:
            if places:
                call = partial(grade, [cases[place] for place in places], deadline=deadline)
                graded = await loop.run_in_executor(self._waiters, call)
                grades.update(zip(places, graded, strict=True))

        await asyncio.gather(fill(self.grader.grade_many, algebra), fill(self.grader.grade_apart, apart))
        return [grades[place] for place in range(len(cases))]

    def close(self) -> None:
        """Stop the grader's processes."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._waiters.shutdown(wait=False, cancel_futures=True)
        self.grader.close()


def settle_quickly(cases: Sequence[GradeCase]) -> Settled:
    """Settle what is quick."""
    grades: dict[int, Grade] = {}
    algebra, apart = [], []
    until = time.monotonic() + _READING_S
    for place, case in enumerate(cases):
        long = len(case.response) > _LONGEST_READ_HERE or case.kind is AnswerKind.CODE
        if long or time.monotonic() > until:
            apart.append(place)
            continue
        try:
            grade = look(case)
        except InputError as error:
            raise InputError(f"cases.{place}: {error}.") from error
        if grade is not None:
            grades[place] = grade
        else:
            algebra.append(place)
    return grades, algebra, apart
