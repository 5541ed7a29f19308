"""Retention by step: responses of every K-th step are kept, those of the others go, with their shards."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from service.database import Database
from service.errors import InputError
from service.telling import TellProgress
from trainer_adapter.record.importing.shards import remove_step
from trainer_adapter.record.reading import footer_hash
from trainer_adapter.record.tables import RolloutPromptRow, RolloutRow, RolloutShardRow


@dataclass(frozen=True)
class Leaving:
    """A step whose responses are to go; `file` is its shard, None where that is gone or another one now."""

    step: int
    rollouts: int
    file: Path | None
    bytes: int


def steps_to_prune(session: Session, run_id: str, *, keep_every: int, keep_last: int = 1) -> list[Leaving]:
    """Return the steps whose responses go where every `keep_every`-th and the last `keep_last` stay."""
    shards = session.execute(
        select(RolloutShardRow.step, RolloutShardRow.rows, RolloutShardRow.path, RolloutShardRow.content)
        .where(RolloutShardRow.run_id == run_id)
        .order_by(RolloutShardRow.step)
    ).all()
    leaving = []
    for step, rows, path, content in shards[: max(0, len(shards) - keep_last)]:
        if step % keep_every:
            file = None if path is None else _as_imported(Path(path), content)
            leaving.append(Leaving(step, rows, file, 0 if file is None else file.stat().st_size))
    return leaving


def prune(db: Database, run_id: str, leaving: list[Leaving], *, report: TellProgress | None = None) -> None:
    """Remove the responses of these steps from the database, and their shards; metrics stay.

    Each step is committed before its shard goes. What is left after a kill goes at the next call.
    """
    for place, each in enumerate(leaving):
        if report is not None:
            report(place, len(leaving))
        with db.write() as session:
            remove_step(session, run_id, each.step)
        if each.file is not None:
            each.file.unlink(missing_ok=True)
    asked = exists().where(RolloutRow.prompt_id == RolloutPromptRow.id)
    with db.write() as session:
        session.execute(delete(RolloutPromptRow).where(RolloutPromptRow.run_id == run_id, ~asked))
    if report is not None:
        report(len(leaving), len(leaving))


def _as_imported(path: Path, content: str) -> Path | None:
    try:
        return path if path.is_file() and footer_hash(path) == content else None
    except InputError:
        return None
