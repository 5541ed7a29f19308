"""Rollouts from the folder of a training run into the database: once, or again and again while it trains."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import zstandard
from sqlalchemy import Table, column, delete, func, insert, select, table
from sqlalchemy.orm import Session

from evaluator.evals.grading import shorten_answer
from service.database import Database, upsert, utc_now
from service.database.base import ZSTD_LEVEL
from service.errors import InputError
from service.hashing import canonical_json
from service.runs.store import Run, check_name, find_run, find_same_run, open_run
from service.runs.tables import RunRow
from trainer_adapter.record.joint_groups import remove_groups, store_groups
from trainer_adapter.record.reading import (
    FolderRun,
    IncompleteShardError,
    Shard,
    check_rows,
    check_shard,
    file_hash,
    read_metric_lines,
    read_metrics,
    read_run,
    read_shard,
    shard_paths,
)
from trainer_adapter.record.rollout import ROWS_PER_GROUP, RolloutRecord
from trainer_adapter.record.tables import (
    TRAIN,
    RolloutPromptRow,
    RolloutRow,
    RolloutShardRow,
    RolloutTextRow,
    RolloutTokensRow,
    TrainStepRow,
)

Report = Callable[[int, int], None]
"""Told the number of shards that were looked at and of all."""

_PER_STATEMENT = 500
_INSERT_ROLLOUTS = insert(cast(Table, RolloutRow.__table__))
# Tables of bare columns: the texts are compressed here.
_INSERT_TEXT = insert(table("rollout_texts", column("rollout_id"), column("text")))
_INSERT_TOKENS = insert(table("rollout_tokens", column("rollout_id"), column("ratios")))


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
class _Wanted:
    """The run of a folder, in the database from the first thing on that is stored of it."""

    name: str
    about: FolderRun


@dataclass
class Seen:
    """Files that were imported as they are, so that the next look need not read them again."""

    states: dict[str, tuple[int, int]] = field(default_factory=dict)


def import_rollouts(
    db: Database, folder: Path, *, name: str | None = None, report: Report | None = None
) -> Imported:
    """Import what a folder holds of a run and the database does not; each step is committed at once.

    What is there stays as it is, so that a second import changes nothing, and several processes may import
    the same folder at once. A step whose file has another content (it was trained again after a resume)
    replaces the rollouts of that step.

    Args:
        name: of the run in the database; default: as training called it.

    Raises:
        InputError: no rollouts in the folder, a file that cannot be used (those before it are imported), or
            a run of this name that is no training run or has other settings.
    """
    paths = shard_paths(folder)
    if not paths and not read_metrics(folder):
        raise InputError(f"{folder}: holds no rollouts (step-*.parquet) and no metrics.jsonl.")
    wanted = _wanted(db, folder, paths, name)
    counts = {"new": 0, "replaced": 0, "unchanged": 0}
    rollouts = 0
    for done, path in enumerate(paths):
        if report is not None:
            report(done, len(paths))
        outcome, rows = _import_shard(db, wanted, path)
        counts[outcome] += 1
        rollouts += rows
    metrics, unread = _import_metrics(db, wanted, folder)
    if report is not None:
        report(len(paths), len(paths))
    return Imported(wanted.name, **counts, rollouts=rollouts, metrics=metrics, unread=unread)


def watch_rollouts(
    db: Database,
    folder: Path,
    *,
    name: str | None = None,
    every_s: float = 5.0,
    idle_s: float | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Imported | InputError]:
    """Import new shards as they appear; yield what each look brought, where it brought anything.

    A file that cannot be used is yielded as an error, once for each state it is in, and tried again when it
    changes; so is a folder that is not there yet.

    Args:
        every_s: seconds between two looks.
        idle_s: end when nothing new has come for so long; None goes on until `stop` is set.
        stop: set by another thread, or by whoever catches Ctrl-C.
    """
    stop = stop or threading.Event()
    seen, reported = Seen(), set[str]()
    changed_at = time.monotonic()
    while True:
        for outcome in _look(db, folder, name, seen):
            if isinstance(outcome, InputError):
                if str(outcome) not in reported:
                    reported.add(str(outcome))
                    yield outcome
                continue
            changed_at = time.monotonic()
            yield outcome
        if idle_s is not None and time.monotonic() - changed_at >= idle_s:
            return
        if stop.wait(every_s):
            return


def _look(db: Database, folder: Path, name: str | None, seen: Seen) -> Iterator[Imported | InputError]:
    """Import the files that have changed since the last look."""
    try:
        paths = shard_paths(folder)
        states = {path.name: _state(path) for path in paths}
        metrics_state = _state(folder / "metrics.jsonl")
        changed = [path for path in paths if seen.states.get(path.name) != states[path.name]]
        metrics_changed = seen.states.get("metrics.jsonl") != metrics_state and metrics_state != (0, 0)
        if not changed and not metrics_changed:
            return
        wanted = _wanted(db, folder, paths, name)
    except InputError as error:
        yield error
        return
    counts = {"new": 0, "replaced": 0, "unchanged": 0}
    rollouts = 0
    for path in changed:
        try:
            outcome, rows = _import_shard(db, wanted, path)
        except InputError as error:
            if not isinstance(error, IncompleteShardError):  # the state of a file that grows is not settled
                seen.states[path.name] = states[path.name]
            yield error
            continue
        seen.states[path.name] = states[path.name]
        counts[outcome] += 1
        rollouts += rows
    metrics, unread = _import_metrics(db, wanted, folder) if metrics_changed else (0, 0)
    seen.states["metrics.jsonl"] = metrics_state
    if counts["new"] or counts["replaced"] or metrics:
        yield Imported(wanted.name, **counts, rollouts=rollouts, metrics=metrics, unread=unread)


def _state(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_size)


def _wanted(db: Database, folder: Path, paths: Sequence[Path], name: str | None) -> _Wanted:
    """Return which run a folder is of; raise where the database has another one of this name."""
    about = read_run(folder)
    run_name = name or about.name or (check_shard(paths[0]).run if paths else None)
    if run_name is None:
        raise InputError(f"{folder}: does not say which run it is of; name it with --run.")
    wanted = _Wanted(check_name(run_name), about)
    with db.read() as session:
        _stored_run(session, wanted)
    return wanted


def _stored_run(session: Session, wanted: _Wanted) -> Run | None:
    """Return the run where the database has it."""
    name, about = wanted.name, wanted.about
    row = session.scalar(select(RunRow).where(RunRow.name == name))
    if row is not None and row.kind != TRAIN:
        raise InputError(f"run {name!r} is no training run; name this one with --run.")
    if row is not None and about.name is None:
        return find_run(session, name)
    return find_same_run(session, name=name, kind=TRAIN, spec=about.spec, question_ids=())


def _opened(session: Session, wanted: _Wanted) -> Run:
    """Return the run, made where it is not there yet: with what is stored next, or not at all."""
    run = _stored_run(session, wanted)
    if run is not None:
        return run
    about = wanted.about
    run, _ = open_run(
        session, name=wanted.name, kind=TRAIN, spec=about.spec, question_ids=(), versions=about.versions
    )
    return run


def _import_shard(db: Database, wanted: _Wanted, path: Path) -> tuple[str, int]:
    """Return new, replaced or unchanged, and the rollouts written."""
    shard = check_shard(path)
    content = file_hash(path)
    with db.read() as session:
        run = _stored_run(session, wanted)
        if run is not None and _content(session, run.id, shard.step) == content:
            return "unchanged", 0
    # Whatever is wrong with a row is found before the write lock is taken.
    check_rows(shard)
    with db.write() as session:
        run = _opened(session, wanted)
        before = _content(session, run.id, shard.step)
        if before == content:  # another process was quicker
            return "unchanged", 0
        if before is not None:
            _remove(session, run.id, shard.step)
        _insert(session, run, shard, content)
        store_groups(session, run, shard.step)
    return ("new" if before is None else "replaced"), shard.rows


def _content(session: Session, run_id: str, step: int) -> str | None:
    return session.scalar(
        select(RolloutShardRow.content).where(RolloutShardRow.run_id == run_id, RolloutShardRow.step == step)
    )


def _remove(session: Session, run_id: str, step: int) -> None:
    remove_groups(session, run_id, step)
    shards = select(RolloutShardRow.id).where(RolloutShardRow.run_id == run_id, RolloutShardRow.step == step)
    rollouts = select(RolloutRow.id).where(RolloutRow.shard_id.in_(shards))
    for row in (RolloutTextRow, RolloutTokensRow):
        session.execute(delete(row).where(row.rollout_id.in_(rollouts)))
    session.execute(delete(RolloutRow).where(RolloutRow.shard_id.in_(shards)))
    session.execute(delete(RolloutShardRow).where(RolloutShardRow.id.in_(shards)))


def _insert(session: Session, run: Run, shard: Shard, content: str) -> None:
    shard_id = session.execute(
        insert(RolloutShardRow)
        .values(run_id=run.id, step=shard.step, content=content, rows=shard.rows, imported_at=utc_now())
        .returning(RolloutShardRow.id)
    ).scalar_one()
    connection = session.connection()
    # The write lock is held, so nobody takes these ids in between.
    next_id = (session.scalar(select(func.max(RolloutRow.id))) or 0) + 1
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
    prompts: dict[bytes, int] = {}
    records = read_shard(shard)
    while part := list(itertools.islice(records, ROWS_PER_GROUP)):
        keys = [_prompt_key(record) for record in part]
        _add_prompts(session, run.id, dict(zip(keys, part, strict=True)), prompts)
        ids = range(next_id, next_id + len(part))
        rows = [
            _row(record, id=id, shard_id=shard_id, prompt_id=prompts[key])
            for id, record, key in zip(ids, part, keys, strict=True)
        ]
        connection.execute(_INSERT_ROLLOUTS, rows)
        texts = [
            {"rollout_id": id, "text": compress(record.response.encode("utf-8"))}
            for id, record in zip(ids, part, strict=True)
        ]
        connection.execute(_INSERT_TEXT, texts)
        tokens = [
            {"rollout_id": id, "ratios": compress(record.token_ratios.encode("utf-8"))}
            for id, record in zip(ids, part, strict=True)
            if record.token_ratios is not None
        ]
        if tokens:
            connection.execute(_INSERT_TOKENS, tokens)
        next_id += len(part)


def _row(record: RolloutRecord, **ids: int) -> dict[str, Any]:
    return {
        **ids,
        "group": record.group,
        "session": record.session,
        "tokens": record.tokens,
        "truncated": record.truncated,
        "reward": record.reward,
        "grade": record.grade,
        "reason": record.reason,
        "extracted": shorten_answer(record.extracted),
        "advantage": record.advantage,
        "old_log_prob": record.old_log_prob,
        "sampling_log_prob": record.sampling_log_prob,
        "ref_log_prob": record.ref_log_prob,
        "entropy": record.entropy,
        "weights_version": record.weights_version,
    }


def _prompt_key(record: RolloutRecord) -> bytes:
    about: list[str | int | None] = [record.question_id, record.variant, record.neighbor_id]
    about += [record.strategy, record.prompt]
    return blake2b(canonical_json(about).encode("utf-8"), digest_size=16).digest()


def _add_prompts(
    session: Session, run_id: str, records: dict[bytes, RolloutRecord], prompt_ids: dict[bytes, int]
) -> None:
    """Add to `prompt_ids` the ids of these prompts, made where they are not there yet."""
    missing = [key for key in records if key not in prompt_ids]
    rows = [
        {
            "run_id": run_id,
            "key": key,
            "question_id": records[key].question_id,
            "variant": records[key].variant,
            "neighbor_id": records[key].neighbor_id,
            "strategy": records[key].strategy,
            "text": records[key].prompt,
        }
        for key in missing
    ]
    if rows:
        session.execute(upsert(cast(Table, RolloutPromptRow.__table__)).on_conflict_do_nothing(), rows)
    for start in range(0, len(missing), _PER_STATEMENT):
        part = missing[start : start + _PER_STATEMENT]
        stored = session.execute(
            select(RolloutPromptRow.key, RolloutPromptRow.id).where(
                RolloutPromptRow.run_id == run_id, RolloutPromptRow.key.in_(part)
            )
        )
        prompt_ids.update((key, id) for key, id in stored)


def _import_metrics(db: Database, wanted: _Wanted, folder: Path) -> tuple[int, int]:
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
