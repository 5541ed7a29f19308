"""Importing the steps of a training while it runs, again and again."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from service.database import Database
from service.errors import InputError
from trainer_adapter.record.importing.shards import Imported, import_metrics, import_shard, wanted_run
from trainer_adapter.record.reading import IncompleteShardError, shard_paths


@dataclass
class Seen:
    """Files that were imported as they are, so that the next look need not read them again."""

    states: dict[str, tuple[int, int]] = field(default_factory=dict)


def watch_rollouts(
    db: Database,
    folder: Path,
    *,
    name: str | None = None,
    texts: bool = False,
    every_s: float = 5.0,
    idle_s: float | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Imported | InputError]:
    """Import new shards as they appear; yield what each look brought, where it brought anything.

    A file that cannot be used is yielded as an error, once for each state it is in, and tried again when it
    changes; so is a folder that is not there yet.

    Args:
        name, texts: see `import_rollouts`.
        every_s: seconds between two looks.
        idle_s: end when nothing new has come for so long; None goes on until `stop` is set.
        stop: set by another thread, or by whoever catches Ctrl-C.
    """
    stop = stop or threading.Event()
    seen, reported = Seen(), set[str]()
    changed_at = time.monotonic()
    while True:
        for outcome in _look(db, folder, name, seen, texts=texts):
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


def _look(
    db: Database, folder: Path, name: str | None, seen: Seen, *, texts: bool
) -> Iterator[Imported | InputError]:
    """Import the files that have changed since the last look."""
    try:
        paths = shard_paths(folder)
        states = {path.name: _state(path) for path in paths}
        metrics_state = _state(folder / "metrics.jsonl")
        changed = [path for path in paths if seen.states.get(path.name) != states[path.name]]
        metrics_changed = seen.states.get("metrics.jsonl") != metrics_state and metrics_state != (0, 0)
        if not changed and not metrics_changed:
            return
        wanted = wanted_run(db, folder, paths, name)
    except InputError as error:
        yield error
        return
    counts = {"new": 0, "replaced": 0, "unchanged": 0}
    rollouts = 0
    for path in changed:
        try:
            outcome, rows = import_shard(db, wanted, path, texts=texts)
        except InputError as error:
            if not isinstance(error, IncompleteShardError):  # the state of a file that grows is not settled
                seen.states[path.name] = states[path.name]
            yield error
            continue
        seen.states[path.name] = states[path.name]
        counts[outcome] += 1
        rollouts += rows
    metrics, unread = import_metrics(db, wanted, folder) if metrics_changed else (0, 0)
    seen.states["metrics.jsonl"] = metrics_state
    if counts["new"] or counts["replaced"] or metrics:
        yield Imported(wanted.name, **counts, rollouts=rollouts, metrics=metrics, unread=unread)


def _state(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_size)
