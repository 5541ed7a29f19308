"""Recording rollouts while training runs: one parquet shard a step, written beside the training thread."""

import itertools
import json
import logging
import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from service.database import utc_now
from service.errors import InputError
from trainer_adapter.record.rollout import (
    GROUP_CHARACTERS,
    HEADERS,
    ROWS_PER_GROUP,
    RUN_KEY,
    SCHEMA_VERSION,
    STEP_KEY,
    VERSION_KEY,
    RolloutRecord,
    schema,
    to_table,
)

MakeRecords = Callable[[], Iterable[RolloutRecord]]

_LOG = logging.getLogger("tagrpo.rollouts")
RUN_FILE = "run.json"
METRICS_FILE = "metrics.jsonl"
ZSTD_LEVEL = 3


def shard_name(step: int) -> str:
    """Return the name of a step's shard; names sort as steps do."""
    return f"step-{step:08d}.parquet"


class RolloutWriter:
    """Writes the rollouts and metrics of a training run into a folder; a context manager.

    A step is one file, which appears complete or not at all; a step that is trained again after a resume
    replaces its file. Writing happens in a thread of its own: `write` returns at once, and waits only where
    two steps are still unwritten, so that at most two are held in memory; `flush` waits until none is. A disk
    that is full or gone never stops training: the step is lost, logged, and named in `failures`.

    Args:
        folder: made where it is missing; it belongs to one run.
        run: name of the training run.
        spec: the run's settings (recipe, model, overrides), stored once as the run's specification.
        versions: of the packages that shape the run.
        background: False writes within `write`.

    Raises:
        InputError: the folder belongs to another run, or cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        spec: Mapping[str, Any] | None = None,
        versions: Mapping[str, Any] | None = None,
        background: bool = True,
    ) -> None:
        self.folder = folder
        self.run = run
        self.failures: list[str] = []
        self._schema = schema()
        self._prepare(dict(spec or {}), dict(versions or {}))
        self._waiting: queue.Queue[tuple[int, MakeRecords] | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._write_waiting, name="rollout-writer", daemon=True)
            self._thread.start()

    def __enter__(self) -> "RolloutWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, records: Iterable[RolloutRecord] | MakeRecords) -> None:
        """Record the rollouts of a step. A step without any leaves no file.

        Args:
            records: or what makes them, called where they are written, so that training does not wait for it.

        Raises:
            ValueError: a record of another step, or a reward that is not finite (without a background; with
                one it counts as a failure).
        """
        if self._thread is None:
            self._write(step, records() if callable(records) else records)
            return
        if not callable(records):
            records = partial(iter, list(records))
        self._waiting.put((step, records))

    def flush(self) -> None:
        """Wait until every step that was given is written, or has failed."""
        self._waiting.join()

    def write_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add the metrics of a step; of several lines of a step the last one counts.

        Values that are no finite numbers are left out.
        """
        finite = {name: number for name, value in metrics.items() if (number := _number(value)) is not None}
        line = json.dumps({"step": step, "metrics": finite}, ensure_ascii=False)
        try:
            # A line that a kill cut short must not swallow the next one.
            with (self.folder / METRICS_FILE).open("ab+") as file:
                if file.tell() and not _ends_a_line(file):
                    file.write(b"\n")
                file.write(line.encode() + b"\n")
        except OSError as error:
            self._fail(step, error)

    def close(self) -> None:
        """Wait until everything is written. Closing twice does nothing."""
        if self._thread is not None and self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _prepare(self, spec: dict[str, Any], versions: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for stale in self.folder.glob(".step-*.tmp"):
                stale.unlink(missing_ok=True)
            path = self.folder / RUN_FILE
            if path.exists():
                _check_owner(path, self.run)
                return
            about = {"run": self.run, "spec": spec, "versions": versions, "created_at": utc_now()}
            _replace(path, lambda part: part.write_text(json.dumps(about, indent=2), encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{self.folder}: rollouts cannot be recorded here ({error.strerror})."
            ) from error

    def _write_waiting(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            step, make = waiting
            try:
                self._write(step, make())
            except Exception as error:  # whatever it is, training must go on
                self._fail(step, error)
            del waiting, make
            self._waiting.task_done()
        self._waiting.task_done()

    def _fail(self, step: int, error: Exception) -> None:
        message = f"step {step}: rollouts or metrics were not recorded ({error})"
        _LOG.warning(message)
        self.failures.append(message)

    def _write(self, step: int, records: Iterable[RolloutRecord]) -> None:
        chunks = _chunks(records)
        first = next(chunks, None)
        if first is None:
            return
        _replace(
            self.folder / shard_name(step),
            lambda part: self._write_shard(part, step, itertools.chain([first], chunks)),
        )

    def _write_shard(self, path: Path, step: int, chunks: Iterable[list[RolloutRecord]]) -> None:
        import pyarrow.parquet as pq

        about = {VERSION_KEY: SCHEMA_VERSION, RUN_KEY: self.run, STEP_KEY: str(step)}
        shape = self._schema.with_metadata(about)
        with pq.ParquetWriter(
            path,
            shape,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=["run", *HEADERS],
            write_statistics=list(HEADERS),
            write_page_checksum=True,
        ) as writer:
            for chunk in chunks:
                for record in chunk:
                    if record.step != step:
                        raise ValueError(f"a record of step {record.step} among those of step {step}")
                writer.write_table(to_table(self.run, chunk, shape))


def _chunks(rows: Iterable[RolloutRecord]) -> Iterator[list[RolloutRecord]]:
    """Yield the records of each row group."""
    chunk: list[RolloutRecord] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += len(row.response) + len(row.token_ratios or "")
        if len(chunk) == ROWS_PER_GROUP or characters >= GROUP_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _replace(path: Path, write: Any) -> None:
    """Write a file beside its place and move it there when it is whole and on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _check_owner(path: Path, run: str) -> None:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))["run"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the description of a run; name another folder.") from error
    if owner != run:
        raise InputError(f"{path.parent}: holds the rollouts of run {owner!r}; name another folder.")


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
