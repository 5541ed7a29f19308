"""Publishing: from the candidates of a run to an immutable version of a neighbor set."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.database import Database
from evaluator.errors import InputError
from evaluator.questions import Question
from evaluator.questions.tables import QuestionRow
from evaluator.runs.store import Run, check_name, package_versions
from evaluator.runs.tables import RunQuestionRow
from rephraser.browsing import find_neighbor_run
from rephraser.sets.counts import PENDING, count_proposals
from rephraser.sets.store import write_set
from rephraser.sets.types import Neighbor, PublishedSet, SetEntry, canonical_posterior
from rephraser.status import STATUSES, CandidateStatus, current_statuses
from rephraser.tables import CandidateRow, ProposalRow

SPEC_FORMAT = 1


@dataclass(frozen=True)
class Selection:
    """Which candidates of a run become neighbors.

    Attributes:
        n: at most so many a question; None takes all that fit.
        include: statuses to take. Where a question has more than n, earlier ones in this tuple come first.
        strategies, models: names to take; empty takes all.
        min_posterior: leave out neighbors with a lower posterior, or none. A human review passes.
        only_with_neighbors: leave out questions without any neighbor (else they stay and train alone).
    """

    n: int | None = None
    include: tuple[str, ...] = ("accepted",)
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    min_posterior: float | None = None
    only_with_neighbors: bool = False

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise InputError(f"{self.n} neighbors a question make no set; ask for at least 1.")
        unknown = [status for status in self.include if status not in STATUSES]
        if unknown or not self.include:
            raise InputError(
                f"cannot include {', '.join(unknown) or 'nothing'}; known: {', '.join(STATUSES)}."
            )
        if self.min_posterior is not None and not 0 <= self.min_posterior <= 1:
            raise InputError(f"a posterior lies between 0 and 1, {self.min_posterior} does not.")

    def takes(self, status: CandidateStatus) -> bool:
        """Say whether a candidate may become a neighbor, before n is applied."""
        if status.status not in self.include:
            return False
        if self.strategies and status.strategy not in self.strategies:
            return False
        if self.models and status.model not in self.models:
            return False
        if self.min_posterior is None or status.reviewed:
            return True
        return status.posterior is not None and status.posterior >= self.min_posterior


def publish(
    db: Database,
    name: str,
    *,
    run: str,
    n: int | None = None,
    include: Sequence[str] = ("accepted",),
    strategies: Sequence[str] = (),
    models: Sequence[str] = (),
    min_posterior: float | None = None,
    only_with_neighbors: bool = False,
) -> PublishedSet:
    """Publish a run's neighbors as the next version of the set `name`, in one transaction.

    Of every question the first n fitting candidates are taken, in order of status (as in `include`), round
    and ordinal; questions keep the run's order. Where the newest version of the name has the same content,
    no new one is made. The selection is explained at `Selection`.

    Args:
        run: name or id of the run.

    Raises:
        InputError: a bad name or selection; or no candidate fits, the message counts what the run has.
        NotFoundError: no such run.
    """
    selection = Selection(
        n, tuple(include), tuple(strategies), tuple(models), min_posterior, only_with_neighbors
    )
    check_name(name)
    with db.write() as session:
        source = find_neighbor_run(session, run)
        statuses = current_statuses(session, source.id)
        every = _entries(session, source, statuses, selection)
        entries = [entry for entry in every if entry.neighbors or not selection.only_with_neighbors]
        if not any(entry.neighbors for entry in entries):
            raise InputError(_nothing_fits(source, statuses, selection))
        return write_set(
            session,
            name,
            entries,
            spec={
                "format": SPEC_FORMAT,
                "run": {
                    "id": source.id,
                    "name": source.name,
                    "kind": source.kind,
                    "created_at": source.created_at,
                    "finished_at": source.finished_at,
                    "spec": source.spec,
                    "versions": source.versions,
                },
                "publish": _as_json(selection),
                "packages": package_versions(),
            },
            counts={
                "questions_left_out": len(every) - len(entries),
                "proposals": count_proposals(statuses),
            },
        )


def _entries(
    session: Session, run: Run, statuses: Sequence[CandidateStatus], selection: Selection
) -> list[SetEntry]:
    rank = {status: place for place, status in enumerate(selection.include)}
    chosen: dict[str, list[CandidateStatus]] = {}
    for status in statuses:
        if selection.takes(status):
            chosen.setdefault(status.question_id, []).append(status)
    texts = _texts(session, run.id)
    entries = []
    for question in _questions(session, run.id):
        fitting = sorted(
            chosen.get(question.id, ()),
            key=lambda status: (rank[str(status.status)], status.round, status.ordinal),
        )
        neighbors = (_neighbor(status, texts[status.candidate_id]) for status in fitting[: selection.n])
        entries.append(SetEntry(question, tuple(neighbors)))
    return entries


def _questions(session: Session, run_id: str) -> list[Question]:
    rows = session.execute(
        select(QuestionRow.id, QuestionRow.text, QuestionRow.answer, QuestionRow.level, QuestionRow.subject)
        .join(RunQuestionRow, RunQuestionRow.question_id == QuestionRow.id)
        .where(RunQuestionRow.run_id == run_id)
        .order_by(RunQuestionRow.position)
    )
    return [
        Question(id=row.id, text=row.text, answer=row.answer, level=row.level, subject=row.subject)
        for row in rows
    ]


def _texts(session: Session, run_id: str) -> dict[str, str]:
    rows = session.execute(
        select(CandidateRow.id, CandidateRow.text)
        .join(ProposalRow, ProposalRow.candidate_id == CandidateRow.id)
        .where(ProposalRow.run_id == run_id)
    )
    return {row.id: row.text for row in rows}


def _neighbor(status: CandidateStatus, text: str) -> Neighbor:
    return Neighbor(
        candidate_id=status.candidate_id,
        text=text,
        proposer=status.proposer,
        strategy=status.strategy,
        strategy_hash=status.strategy_hash,
        model=status.model,
        verdict=str(status.status),
        posterior=canonical_posterior(status.posterior),
        reviewed=status.reviewed,
    )


def _as_json(selection: Selection) -> dict[str, object]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in asdict(selection).items()
    }


def _nothing_fits(run: Run, statuses: Sequence[CandidateStatus], selection: Selection) -> str:
    found: dict[str, int] = {}
    for status in statuses:
        found[status.status or PENDING] = found.get(status.status or PENDING, 0) + 1
    has = ", ".join(f"{count:,} {status}" for status, count in sorted(found.items())) or "none at all"
    ways = ["loosen the filters"]
    if found.get("unverified") and "unverified" not in selection.include:
        ways.append("pass --include unverified (their answers were not compared)")
    if found.get(PENDING):
        ways.append("let the run finish")
    return (
        f"no candidate of run {run.name!r} fits, so there is nothing to publish. It has {has}; taken are "
        f"{', '.join(selection.include)}. Ways out: {', or '.join(ways)}."
    )
