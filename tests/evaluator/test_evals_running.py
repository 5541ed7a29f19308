"""The driver of eval runs, with samplers that leave things out, fail, stop, or share the work."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from eval_runs import make_problems
from eval_sampling import draw, every, places, start, stored

from evaluator.evals import running
from evaluator.evals.missing import samples_missing
from evaluator.evals.tables import GradeRow
from evaluator.grading import Grader
from service.database import Database
from service.errors import InputError
from service.models.drawing import CellsToDraw, DrawnCell, LeasedCell, ReportSamples, Response
from service.models.settings import DrawingSpec
from service.runs.cells import Receipt
from service.runs.filling import Filled
from service.runs.store import Run, find_run

RECEIPT = Receipt("fake", 1, 1, 0.0, 0, 0.0)


class FakeSampler:
    """Draws one cell after the other; `respond` says how many responses it brings, None that it fails."""

    def __init__(
        self,
        respond: Callable[[LeasedCell], int | None] = lambda request: request.count,
        stop_after: int | None = None,
    ) -> None:
        self.respond, self.stop_after = respond, stop_after
        self.requests: list[LeasedCell] = []
        self.passes = 0

    def describe(self) -> Mapping[str, Any]:
        return {"sampler": "fake"}

    def check(self, spec: DrawingSpec) -> None:
        return None

    def fill(self, work: CellsToDraw, report: ReportSamples) -> Filled:
        self.passes += 1
        filled = Filled()
        with work.keep_leases():
            while leased := work.lease(1):
                if self.stop_after is not None and len(self.requests) >= self.stop_after:
                    filled.stopped, filled.message = "budget", "nothing is left"
                    break
                (request,) = leased
                self.requests.append(request)
                count = self.respond(request)
                if count is None:
                    work.fail(request, "no")
                    filled.failed += 1
                    filled.failures["fake"] = filled.failures.get("fake", 0) + 1
                    continue
                answer = f"so \\boxed{{{request.problem.answer}}}"
                work.store([DrawnCell(request, [Response(answer, "stop", 5, 7)] * count, RECEIPT)])
                filled.answered += 1
                report(count, "")
        return filled


def finished(db: Database, run: Run) -> bool:
    with db.read() as session:
        return find_run(session, run.id).finished_at is not None


def test_all_samples_are_drawn_and_graded_and_the_run_is_finished(db: Database) -> None:
    run = start(db, "r", make_problems(3))
    steps: list[tuple[str, int, int | None]] = []
    drawing = FakeSampler()

    def report(stage: str, done: int, total: int | None, words: str) -> None:
        steps.append((stage, done, total))

    with Grader(workers=1) as grader:
        outcome = running.run_eval(db, run, drawing, 10, report, grader=grader)
    assert (outcome.drawn, outcome.missing, outcome.stopped) == (30, 0, None)
    assert (outcome.graded.correct, outcome.graded.samples) == (30, 30)
    assert places(db, run) == every(3, 10)
    assert finished(db, run)
    assert ("sampling", 8, 30) in steps
    assert ("sampling", 30, 30) in steps
    assert steps[-1] == ("grading", 30, 30)
    assert drawing.passes == 1


def test_the_same_command_again_does_nothing(db: Database) -> None:
    run = start(db, "r", make_problems(2))
    draw(db, run, FakeSampler(), 4)
    again = FakeSampler()
    outcome = draw(db, run, again, 4)
    assert (outcome.drawn, outcome.graded.samples, again.passes) == (0, 0, 0)


@pytest.mark.parametrize("n", [0, -1, 100_001])
def test_a_number_of_samples_out_of_range_is_refused(db: Database, n: int) -> None:
    run = start(db, "r", make_problems(1))
    with pytest.raises(InputError, match="give 1 to 100,000"):
        draw(db, run, FakeSampler(), n)


def test_responses_left_out_are_planned_again_until_nothing_is_missing(db: Database) -> None:
    run = start(db, "r", make_problems(2))
    drawing = FakeSampler(lambda request: max(1, request.count - 2))
    outcome = draw(db, run, drawing, 8)
    assert outcome.missing == 0
    assert places(db, run) == every(2, 8)
    assert [request.count for request in drawing.requests] == [8, 8, 2, 2, 1, 1]


def test_cells_that_bring_nothing_end_the_run_without_an_endless_loop(db: Database) -> None:
    run = start(db, "r", make_problems(2))
    drawing = FakeSampler(lambda request: 0)
    outcome = draw(db, run, drawing, 8)
    assert (outcome.missing, outcome.stopped, drawing.passes) == (16, None, 1)
    assert not finished(db, run)


def test_failed_requests_are_missing_until_the_next_invocation(db: Database) -> None:
    run = start(db, "r", make_problems(2))
    fails = FakeSampler(lambda request: None if request.problem.position == 0 else request.count)
    outcome = draw(db, run, fails, 8)
    assert (outcome.drawn, outcome.missing, outcome.failures) == (8, 8, {"fake": 1})
    assert not finished(db, run)
    assert draw(db, run, FakeSampler(), 8).missing == 0
    assert finished(db, run)
    assert places(db, run) == every(2, 8)


def test_a_stop_is_told_and_what_was_drawn_is_graded(db: Database) -> None:
    run = start(db, "r", make_problems(4))
    outcome = draw(db, run, FakeSampler(stop_after=3), 8)
    assert (outcome.stopped, outcome.message) == ("budget", "nothing is left")
    assert (outcome.drawn, outcome.missing, outcome.graded.correct) == (24, 8, 24)


def test_growing_opens_a_finished_run_again_and_keeps_every_sample(db: Database) -> None:
    run = start(db, "r", make_problems(2))
    draw(db, run, FakeSampler(), 3)
    before = stored(db, run)
    outcome = draw(db, run, FakeSampler(stop_after=1), 20)
    assert outcome.missing == 2 * 17 - 8
    assert not finished(db, run)
    draw(db, run, FakeSampler(), 20)
    assert [row for row in stored(db, run) if row[1] < 3] == before
    assert places(db, run) == every(2, 20)
    with db.read() as session:
        assert session.query(GradeRow).count() == 40
        assert samples_missing(session, run.id, 21) == 2
