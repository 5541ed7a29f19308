"""Rollouts from the folder of a training run into the database, a step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, cast

import zstandard
from sqlalchemy import ScalarSelect, Table, bindparam, column, delete, func, insert, select, table
from sqlalchemy.orm import Session

from evaluator.evals.grading import shorten_answer
from service.database import Database, upsert, utc_now
from service.database.base import ZSTD_LEVEL
from service.errors import InputError
from service.hashing import canonical_json
from service.runs.store import Run, check_name, find_run, find_same_run, open_run
from service.runs.tables import RunRow
from service.telling import TellProgress
from trainer_adapter.record.joint_groups import remove_groups, store_groups
from trainer_adapter.record.reading import (
    FolderRun,
    Shard,
    check_rows,
    check_shard,
    read_columns,
    read_metric_lines,
    read_metrics,
    read_run,
    shard_paths,
)
from trainer_adapter.record.rollout import HEADERS, TEXTS, TOKENS, grade_name
from trainer_adapter.record.tables import (
    TRAIN,
    RolloutPromptRow,
    RolloutRow,
    RolloutShardRow,
    RolloutTextRow,
    RolloutTokensRow,
    TrainStepRow,
)

_PER_STATEMENT = 500
_INSERT_ROLLOUTS = insert(cast(Table, RolloutRow.__table__))
# Tables of bare columns: the texts are compressed here.
_INSERT_TEXT, _INSERT_TOKENS = (
    insert(table(name, column("rollout_id"), column(kept))).values(
        rollout_id=bindparam("rollout_id"), **{kept: bindparam("text")}
    )
    for name, kept in (("rollout_texts", "text"), ("rollout_tokens", "ratios"))
)
_RESPONSE = "response"
_COPIED = (
    *("group", "session", "tokens", "truncated", "reward", "reason", "advantage", "old_log_prob"),
    *("sampling_log_prob", "ref_log_prob", "entropy", "weights_version"),
)
"""Columns of a shard that stand in `rollouts` as they are."""


@dataclass(frozen=True)
class Imported:
    """What an import did; a step whose file had changed counts among `replaced`, not among `new`.

    `unread` are lines of metrics.jsonl that hold no metrics.
    """

    run: str
    new: int
    replaced: int
    unchanged: int
    rollouts: int
    metrics: int
    unread: int = 0


@dataclass(frozen=True)
class WantedRun:
    """The run of a folder, in the database from the first thing on that is stored of it."""

    name: str
    about: FolderRun


def import_rollouts(
    db: Database,
    folder: Path,
    *,
    name: str | None = None,
    texts: bool = False,
    report: TellProgress | None = None,
) -> Imported:
    """Import what a folder holds of a run and the database does not; each step is committed at once.

    What is there stays as it is, so that a second import changes nothing, and several processes may import
    the same folder at once. A step whose file has another content (it was trained again after a resume)
    replaces the rollouts of that step. Texts stay in the files, and are read from where these lay at the last
    import.

    Args:
        name: of the run in the database; default: as training called it.
        texts: copy texts into the database too, also those of steps that are there without.

    Raises:
        InputError: no rollouts in the folder, a file that cannot be used (those before it are imported), or
            a run of this name that is no training run or has other settings.
    """
    paths = shard_paths(folder)
    if not paths and not read_metrics(folder):
        raise InputError(f"{folder}: holds no rollouts (step-*.parquet) and no metrics.jsonl.")
    wanted = wanted_run(db, folder, paths, name)
    counts = {"new": 0, "replaced": 0, "unchanged": 0}
    rollouts = 0
    for done, path in enumerate(paths):
        if report is not None:
            report(done, len(paths))
        outcome, rows = import_shard(db, wanted, path, texts=texts)
        counts[outcome] += 1
        rollouts += rows
    metrics, unread = import_metrics(db, wanted, folder)
    if report is not None:
        report(len(paths), len(paths))
    return Imported(wanted.name, **counts, rollouts=rollouts, metrics=metrics, unread=unread)


def wanted_run(db: Database, folder: Path, paths: Sequence[Path], name: str | None) -> WantedRun:
    """Return which run a folder is of; raise where the database has another one of this name."""
    about = read_run(folder)
    run_name = name or about.name or (check_shard(paths[0]).run if paths else None)
    if run_name is None:
        raise InputError(f"{folder}: does not say which run it is of; name it with --name.")
    wanted = WantedRun(check_name(run_name), about)
    with db.read() as session:
        _stored_run(session, wanted)
    return wanted


def _stored_run(session: Session, wanted: WantedRun) -> Run | None:
    """Return the run where the database has it."""
    name, about = wanted.name, wanted.about
    row = session.scalar(select(RunRow).where(RunRow.name == name))
    if row is not None and row.kind != TRAIN:
        raise InputError(f"run {name!r} is no training run; name this one with --name.")
    if row is not None and about.name is None:
        return find_run(session, name)
    return find_same_run(session, name=name, kind=TRAIN, spec=about.spec, question_ids=())


def _opened(session: Session, wanted: WantedRun) -> Run:
    """Return the run, made where it is not there yet: with what is stored next, or not at all."""
    run = _stored_run(session, wanted)
    if run is not None:
        return run
    about = wanted.about
    run, _ = open_run(
        session, name=wanted.name, kind=TRAIN, spec=about.spec, question_ids=(), versions=about.versions
    )
    return run


def import_shard(db: Database, wanted: WantedRun, path: Path, *, texts: bool = False) -> tuple[str, int]:
    """Return new, replaced or unchanged, and the rollouts written.

    Raises:
        InputError: the file cannot be used; nothing of it was written.
    """
    shard = check_shard(path)
    with db.read() as session:
        run = _stored_run(session, wanted)
        if run is not None and _is_there(session, run.id, shard, texts=texts):
            return "unchanged", 0
    # Whatever is wrong with a row is found before the write lock is taken.
    check_rows(shard, texts=texts)
    with db.write() as session:
        run = _opened(session, wanted)
        if _is_there(session, run.id, shard, texts=texts):  # another process was quicker
            return "unchanged", 0
        stored = _stored_shard(session, run.id, shard.step)
        if stored is not None and stored.content == shard.content:
            if texts and not _has_texts(session, stored.id):
                _insert_texts(session, stored.id, shard)
            stored.path = str(path.resolve())
            return "unchanged", 0
        if stored is not None:
            remove_step(session, run.id, shard.step)
        shard_id = _insert(session, run, shard)
        if texts:
            _insert_texts(session, shard_id, shard)
        store_groups(session, run, shard.step)
    return ("new" if stored is None else "replaced"), shard.rows


def _is_there(session: Session, run_id: str, shard: Shard, *, texts: bool) -> bool:
    """Say whether a file was imported as it is, from where it is."""
    stored = _stored_shard(session, run_id, shard.step)
    return (
        stored is not None
        and (stored.content, stored.path) == (shard.content, str(shard.path.resolve()))
        and (not texts or _has_texts(session, stored.id))
    )


def _stored_shard(session: Session, run_id: str, step: int) -> RolloutShardRow | None:
    return session.scalar(
        select(RolloutShardRow).where(RolloutShardRow.run_id == run_id, RolloutShardRow.step == step)
    )


def _first_rollout(shard_id: int) -> ScalarSelect[int]:
    return select(func.min(RolloutRow.id)).where(RolloutRow.shard_id == shard_id).scalar_subquery()


def _has_texts(session: Session, shard_id: int) -> bool:
    first = select(RolloutTextRow.rollout_id).where(RolloutTextRow.rollout_id == _first_rollout(shard_id))
    return session.scalar(first) is not None


def remove_step(session: Session, run_id: str, step: int) -> None:
    """Remove the rollouts of a step; its metrics stay, and so does its file."""
    remove_groups(session, run_id, step)
    shards = select(RolloutShardRow.id).where(RolloutShardRow.run_id == run_id, RolloutShardRow.step == step)
    rollouts = select(RolloutRow.id).where(RolloutRow.shard_id.in_(shards))
    for row in (RolloutTextRow, RolloutTokensRow):
        session.execute(delete(row).where(row.rollout_id.in_(rollouts)))
    session.execute(delete(RolloutRow).where(RolloutRow.shard_id.in_(shards)))
    session.execute(delete(RolloutShardRow).where(RolloutShardRow.id.in_(shards)))


def _insert(session: Session, run: Run, shard: Shard) -> int:
    """Store the headers of a step; return the id of the shard."""
    about = {"run_id": run.id, "step": shard.step, "content": shard.content, "rows": shard.rows}
    shard_id = session.execute(
        insert(RolloutShardRow)
        .values(**about, imported_at=utc_now(), path=str(shard.path.resolve()))
        .returning(RolloutShardRow.id)
    ).scalar_one()
    connection = session.connection()
    # The write lock is held, so nobody takes these ids in between: a shard's follow one another.
    next_id = (session.scalar(select(func.max(RolloutRow.id))) or 0) + 1
    prompts: dict[_Prompt, int] = {}
    for part in read_columns(shard, HEADERS):
        asked = [_Prompt(*values) for values in zip(*(part[name] for name in _Prompt._fields), strict=True)]
        _add_prompts(session, run.id, asked, prompts)
        columns = {
            "id": range(next_id, next_id + len(asked)),
            "prompt_id": [prompts[prompt] for prompt in asked],
            **{name: part[name] for name in _COPIED},
            "grade": [grade_name(correct) for correct in part["correct"]],
            "extracted": [shorten_answer(answer) for answer in part["extracted"]],
        }
        names = tuple(columns)
        rows = [
            dict(zip(names, values, strict=True), shard_id=shard_id)
            for values in zip(*columns.values(), strict=True)
        ]
        connection.execute(_INSERT_ROLLOUTS, rows)
        next_id += len(asked)
    return shard_id


def _insert_texts(session: Session, shard_id: int, shard: Shard) -> None:
    """Copy the texts of a step whose headers are there."""
    connection = session.connection()
    next_id = session.scalar(select(_first_rollout(shard_id))) or 0
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
    for part in read_columns(shard, TEXTS):
        for name, statement in ((_RESPONSE, _INSERT_TEXT), (TOKENS, _INSERT_TOKENS)):
            rows = [
                {"rollout_id": next_id + place, "text": compress(text.encode("utf-8"))}
                for place, text in enumerate(part[name])
                if text is not None
            ]
            if rows:
                connection.execute(statement, rows)
        next_id += len(part[_RESPONSE])


class _Prompt(NamedTuple):
    """What all responses to a prompt share."""

    question_id: str
    variant: int
    neighbor_id: str | None
    strategy: str | None
    prompt: str | None

    @property
    def key(self) -> bytes:
        return blake2b(canonical_json(list(self)).encode("utf-8"), digest_size=16).digest()


def _add_prompts(
    session: Session, run_id: str, asked: Sequence[_Prompt], prompt_ids: dict[_Prompt, int]
) -> None:
    """Add to `prompt_ids` the ids of these prompts, made where they are not there yet."""
    missing = {prompt.key: prompt for prompt in dict.fromkeys(asked) if prompt not in prompt_ids}
    rows = [
        {
            "run_id": run_id,
            "key": key,
            "question_id": prompt.question_id,
            "variant": prompt.variant,
            "neighbor_id": prompt.neighbor_id,
            "strategy": prompt.strategy,
            "text": prompt.prompt,
        }
        for key, prompt in missing.items()
    ]
    if rows:
        session.execute(upsert(cast(Table, RolloutPromptRow.__table__)).on_conflict_do_nothing(), rows)
    keys = list(missing)
    for start in range(0, len(keys), _PER_STATEMENT):
        part = keys[start : start + _PER_STATEMENT]
        stored = session.execute(
            select(RolloutPromptRow.key, RolloutPromptRow.id).where(
                RolloutPromptRow.run_id == run_id, RolloutPromptRow.key.in_(part)
            )
        )
        prompt_ids.update((missing[key], id) for key, id in stored)


def import_metrics(db: Database, wanted: WantedRun, folder: Path) -> tuple[int, int]:
    """Store the metrics of steps that are new or differ; return how many, and how many lines hold none."""
    metrics, unread = read_metric_lines(folder)
    with db.read() as session:
        run = _stored_run(session, wanted)
        stored = {} if run is None else _metrics(session, run.id)
    changed = {step: values for step, values in metrics.items() if stored.get(step) != values}
    if not changed:
        return 0, unread
    statement = upsert(cast(Table, TrainStepRow.__table__))
    statement = statement.on_conflict_do_update(
        index_elements=["run_id", "step"], set_={"metrics": statement.excluded.metrics}
    )
    with db.write() as session:
        run = _opened(session, wanted)
        rows = [{"run_id": run.id, "step": step, "metrics": values} for step, values in changed.items()]
        session.execute(statement, rows)
    return len(changed), unread


def _metrics(session: Session, run_id: str) -> dict[int, dict[str, Any]]:
    rows = session.execute(
        select(TrainStepRow.step, TrainStepRow.metrics).where(TrainStepRow.run_id == run_id)
    )
    return {row.step: row.metrics for row in rows}
