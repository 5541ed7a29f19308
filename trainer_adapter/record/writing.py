"""Recording rollouts while training runs: the files of a step, written by a thread of their own."""

import json
import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from service.database import utc_now
from service.errors import InputError
from service.hashing import whole_characters
from service.writing import write_file, write_text
from trainer_adapter.record.counting import (
    count_prompts,
    current_counts,
    replace_step,
)
from trainer_adapter.record.files import (
    COUNTS_FILE,
    HEADER_TYPES,
    METRICS_FILE,
    RUN_FILE,
    TEXTS_KEY,
    TEXTS_PER_GROUP,
    about_file,
    read_run,
    step_path,
    texts_path,
)
from trainer_adapter.record.parquet import footer_hash, write_parquet
from trainer_adapter.record.rollout import TEXTS, RolloutRecord

MakeRecords = Callable[[], Iterable[RolloutRecord]]

_LOG = logging.getLogger("tagrpo.rollouts")
_ORDER = attrgetter("question_id", "session", "group")
_TEXT_TYPES = {"question_id": "string", "session": "int64", **dict.fromkeys(TEXTS, "string")}
_REPEATED = ("step", "question_id", "variant", "neighbor_id", "strategy", "group", "reason", "extracted")
_REPEATED_COUNTS = ("question_id", "neighbor_id", "strategy", "content")


class RolloutWriter:
    """Writes the rollouts and metrics of a training run into a folder; a context manager.

    Each file appears complete or not at all: first the texts of a step, then its headers, then the counts of
    all steps. A step that is trained again after a resume replaces its files. A thread writes, so that
    `write` returns at once unless the step before is unwritten. A disk that is full or gone never stops
    training: the step is lost, logged, and named in `failures`.

    Args:
        folder: belongs to one run.
        spec, versions: the run's settings and package versions, stored once.
        background: False writes within `write`.
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
        self._counts: Any = None
        self._prepare(dict(spec or {}), dict(versions or {}))
        self._pool = ThreadPoolExecutor(1, "rollout-writer") if background else None
        self._last: Future[None] | None = None

    def __enter__(self) -> "RolloutWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, records: Iterable[RolloutRecord] | MakeRecords) -> None:
        """Record the rollouts of a step, in any order.

        A function that yields them by question, session and group is called by the writing thread.
        """
        if not callable(records):
            records = partial(iter, sorted(records, key=_ORDER))
        self.flush()
        if self._pool is None:
            self._write(step, records())
        else:
            self._last = self._pool.submit(self._try_to_write, step, records)

    def flush(self) -> None:
        """Wait until every step that was given is written, or has failed."""
        if self._last is not None:
            self._last.result()

    def write_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add the finite metrics of a step; the last line of a step counts."""
        finite = {name: number for name, value in metrics.items() if (number := _number(value)) is not None}
        line = json.dumps({"step": step, "metrics": finite}, ensure_ascii=False)
        try:
            # A line that a kill cut short must not swallow the next one.
            with (self.folder / METRICS_FILE).open("ab+") as file:
                file.seek(max(0, file.tell() - 1))
                if file.read(1) not in (b"", b"\n"):
                    file.write(b"\n")
                file.write(line.encode() + b"\n")
        except OSError as error:
            self._fail(step, error)

    def close(self) -> None:
        """Wait until everything is written. Closing twice does nothing."""
        if self._pool is not None:
            self._pool.shutdown()

    def _prepare(self, spec: dict[str, Any], versions: dict[str, Any]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for stale in self.folder.glob(".*.partial"):
                shutil.rmtree(stale, ignore_errors=True)
            owner = read_run(self.folder).name
            if owner is None:
                about = {"run": self.run, "spec": spec, "versions": versions, "created_at": utc_now()}
                write_text(self.folder / RUN_FILE, json.dumps(about, indent=2), overwrite=True)
            elif owner != self.run:
                raise InputError(f"{self.folder}: belongs to run {owner!r}. Choose another folder.")
        except OSError as error:
            raise InputError(f"{self.folder}: cannot record rollouts here ({error.strerror}).") from error

    def _try_to_write(self, step: int, make: MakeRecords) -> None:
        try:
            self._write(step, make())
        except Exception as error:  # whatever it is, training must go on
            self._fail(step, error)

    def _fail(self, step: int, error: Exception) -> None:
        message = f"step {step}: rollouts or metrics were not recorded ({error})"
        _LOG.warning(message)
        self.failures.append(message)

    def _write(self, step: int, records: Iterable[RolloutRecord]) -> None:
        import pyarrow as pa

        rows = iter(records)
        if (first := next(rows, None)) is None:
            return
        columns: dict[str, list[Any]] = {name: [] for name in HEADER_TYPES}
        parts = _text_tables(step, chain([first], rows), columns)
        about, repeated = about_file(self.run, step), ["question_id", "prompt"]
        texts, headers = texts_path(self.folder, step), step_path(self.folder, step)
        self._put(texts, pa.schema(_TEXT_TYPES), parts, about, repeated)
        about[TEXTS_KEY] = footer_hash(texts)
        for name in (name for name, kind in HEADER_TYPES.items() if kind == "double"):  # finite or null
            columns[name] = [_number(value) for value in columns[name]]
        table = pa.table(columns, schema=pa.schema(HEADER_TYPES))
        self._put(headers, table.schema, [table], about, _REPEATED)
        self._count(step, table, footer_hash(headers))

    def _count(self, step: int, headers: Any, content: str) -> None:
        if self._counts is None:  # what an earlier start left
            self._counts, _, problems = current_counts(self.folder, self.run)
            for problem in problems:
                _LOG.warning("%s", problem)
        self._counts = counts = replace_step(self._counts, step, count_prompts(step, headers, content))
        path = self.folder / COUNTS_FILE
        self._put(path, counts.schema, [counts], about_file(self.run), _REPEATED_COUNTS)

    def _put(self, path: Path, *content: Any) -> None:
        write_file(path, lambda part: write_parquet(part, *content), overwrite=True)


def _text_tables(step: int, records: Iterable[RolloutRecord], columns: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the tables of a step's texts, and collect the columns of its headers meanwhile."""
    import pyarrow as pa

    rows = iter(records)
    while part := list(islice(rows, TEXTS_PER_GROUP)):
        for record in part:
            if record.step != step:
                raise ValueError(f"step {step} contains a record of step {record.step}")
            if not math.isfinite(record.reward):
                raise ValueError(
                    f"step {step}, question {record.question_id}: reward {record.reward} is not finite"
                )
        for name, column in columns.items():
            column += _values(part, name)
        texts = {name: _values(part, name) for name in _TEXT_TYPES}
        yield pa.table(texts, schema=pa.schema(_TEXT_TYPES))


def _values(records: Sequence[RolloutRecord], name: str) -> list[Any]:
    values = (getattr(record, name) for record in records)
    return [whole_characters(value) if isinstance(value, str) else value for value in values]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
