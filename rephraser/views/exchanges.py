"""What a model was sent for a candidate, and what it answered, word for word."""

from dataclasses import dataclass

from rephraser.run.read import first_choice
from rephraser.run.spec import RunSpec
from service.database import Database
from service.runs.cells import Cell, read_bodies
from service.runs.store import Run
from service.runs.tables import CellRow


@dataclass(frozen=True)
class Exchange:
    """A request for candidates and its answer.

    Attributes:
        prompt: (role, text) of the messages, made again from the run's spec as they were when they were sent.
        text: of the answer's first choice; None while there is no answer.
        body: the answer as the server sent it.
    """

    prompt: tuple[tuple[str, str], ...]
    text: str | None
    body: str | None


def proposing_exchange(db: Database, run: Run, cell_id: int) -> Exchange:
    """Return the exchange of a proposing cell of this run."""
    from rephraser.run.ask import proposing_requests

    with db.read() as session:
        row = session.get_one(CellRow, cell_id)
        cell = Cell(
            row.id,
            row.scope,
            row.kind,
            row.subject_id,
            row.round,
            row.ordinal,
            row.attempt,
            row.payload,
            row.state,
        )
        body = read_bodies(session, [cell_id]).get(cell_id)
    (request,) = proposing_requests(db, run.id, RunSpec.from_json(run.spec), [cell])
    return Exchange(
        prompt=tuple((message.role, message.content) for message in request.messages),
        text=None if body is None else first_choice(body)[0],
        body=body,
    )
