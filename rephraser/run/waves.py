"""Waves: a run's questions taken some at a time, and a stop where too little of a wave is accepted."""

from dataclasses import dataclass

from sqlalchemy import func, or_, select

from rephraser.reviews.status import current_statuses
from rephraser.run.spec import PROPOSE, RunSpec
from rephraser.tables import ProposalRow
from service.database import Database
from service.runs.store import Run, run_question_ids
from service.runs.tables import CellRow, RunQuestionRow

LOW_RATE = "accept rate"
"""Why a run stopped whose wave fell below `stop_below`."""


@dataclass
class Waves:
    """How far into the questions of a run is asked: all waves that were begun, and at first the first.

    `size` None makes one wave of all questions. With `stop_below` nothing of a wave is asked before the one
    before it is finished; without, the next begins when fewer than `slots` requests are left to send, so that
    the server does not idle. Neither shapes what is asked, and another invocation may use other values.
    """

    db: Database
    run: Run
    size: int | None = None
    stop_below: float | None = None
    slots: int = 0

    def __post_init__(self) -> None:
        with self.db.read() as session:
            self.questions = len(run_question_ids(session, self.run.id))
            asked = select(CellRow.subject_id).where(CellRow.scope == self.run.id, CellRow.kind == PROPOSE)
            proposed = select(ProposalRow.question_id).where(ProposalRow.run_id == self.run.id)
            last = session.scalar(
                select(func.max(RunQuestionRow.position)).where(
                    RunQuestionRow.run_id == self.run.id,
                    or_(RunQuestionRow.question_id.in_(asked), RunQuestionRow.question_id.in_(proposed)),
                )
            )
        self.reach = self.questions
        if self.size is not None:
            self.reach = min(self.questions, ((last or 0) // self.size + 1) * self.size)

    @property
    def more(self) -> bool:
        """Whether questions are left that were not begun."""
        return self.reach < self.questions

    def begin_next(self) -> None:
        """Go on with the next wave."""
        self.reach = min(self.questions, self.reach + (self.size or self.questions))

    def has_room(self, planned: int) -> bool:
        """Say whether the next wave is to begin beside `planned` requests of those begun."""
        return self.more and self.stop_below is None and planned < self.slots

    def too_low(self) -> str | None:
        """Say of the last wave, which is finished, that fewer than `stop_below` of its candidates count.

        None where enough do. What is undecided at the end of all looks does not count, unless a review has
        accepted it since; what no model answered about is left out. A wave without any candidate is too low.
        """
        if self.stop_below is None or self.size is None:
            return None
        counting = RunSpec.from_json(self.run.spec).counting
        start = (self.reach - 1) // self.size * self.size
        with self.db.read() as session:
            questions = set(run_question_ids(session, self.run.id)[start : self.reach])
            judged = [
                candidate.status in counting
                for candidate in current_statuses(session, self.run.id)
                if candidate.question_id in questions and candidate.final
            ]
        accepted = sum(judged)
        rate = accepted / len(judged) if judged else 0.0
        if rate >= self.stop_below:
            return None
        kind = "accepted" if counting == {"accepted"} else "passed"
        return (
            f"wave {start // self.size + 1} (questions {start + 1:,} to {self.reach:,}): {accepted:,} of "
            f"{len(judged):,} candidates {kind} ({rate:.1%}), which is below --stop-below {self.stop_below:g}"
        )
