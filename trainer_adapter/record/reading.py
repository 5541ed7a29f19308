"""Reading the shards that training wrote: checked, in order of steps, a row group at a time."""

import json
import math
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from service.errors import InputError, first_line
from service.hashing import canonical_json
from trainer_adapter.record.rollout import (
    COLUMNS,
    HEADERS,
    REQUIRED,
    ROWS_PER_GROUP,
    RUN_KEY,
    SCHEMA_VERSION,
    STEP_KEY,
    TOKENS,
    VERSION_KEY,
    RolloutRecord,
    TokenRatios,
    from_rows,
    schema,
)
from trainer_adapter.record.writing import METRICS_FILE, RUN_FILE


class IncompleteShardError(InputError):
    """A file that is no whole parquet file: still being copied, or cut off."""


@dataclass(frozen=True)
class Shard:
    """The rollouts of one step in a file that was checked; `content` is the hash of its footer."""

    path: Path
    run: str
    step: int
    rows: int
    content: str


@dataclass(frozen=True)
class FolderRun:
    """What a folder says of its run; name None where it has no `run.json`."""

    name: str | None
    spec: dict[str, Any]
    versions: dict[str, Any]


def read_rollouts(folder: Path, *, steps: Collection[int] | None = None) -> Iterator[RolloutRecord]:
    """Yield the rollouts of a folder by step, those of a step in the order they were recorded.

    Args:
        folder: that `RolloutWriter` wrote into.
        steps: those wanted; None for all.

    Raises:
        InputError: no such folder, no shards in it, or one that cannot be used; file and column are named.
    """
    paths = shard_paths(folder)
    if not paths:
        raise InputError(f"{folder}: holds no rollouts (step-*.parquet).")
    for path in paths:
        shard = check_shard(path)
        if steps is None or shard.step in steps:
            yield from read_shard(shard)


def shard_paths(folder: Path) -> list[Path]:
    """Return the shards of a folder by step; those that are still being written are not among them.

    Raises:
        InputError: no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; name the one that training records into.")
    return sorted(folder.glob("step-*.parquet"))


def check_shard(path: Path) -> Shard:
    """Return what a shard holds, after a look at its version, columns and types.

    Raises:
        IncompleteShardError: no whole parquet file.
        InputError: not written by tagrpo, of another version, or a column that is missing or of another type.
    """
    with _opened(path) as file:
        columns = file.schema_arrow
        about = columns.metadata or {}
        version = about.get(VERSION_KEY)
        if version is None:
            raise InputError(f"{path}: a parquet file, but no rollouts that tagrpo recorded.")
        if version != SCHEMA_VERSION.encode():
            raise InputError(
                f"{path}: rollouts of schema {version.decode(errors='replace')}, this tagrpo reads "
                f"{SCHEMA_VERSION}; use the version that recorded them."
            )
        for field in schema():
            place = columns.get_field_index(field.name)
            if place < 0:
                raise InputError(
                    f"{path}: has no column {field.name!r}; give the file as it was recorded, or remove it."
                )
            if columns.field(place).type != field.type:
                raise InputError(
                    f"{path}: column {field.name!r} is {columns.field(place).type}, not {field.type}."
                )
        try:
            run, step = about[RUN_KEY].decode(), int(about[STEP_KEY])
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: does not say its run and step; record it again.") from error
        return Shard(path, run, step, file.metadata.num_rows, footer_hash(path))


def footer_hash(path: Path) -> str:
    """Return the hash of a parquet file's footer: its schema, and sizes, places and bounds of all columns.

    Files with other rollouts have another one, and it is known without reading them.

    Raises:
        IncompleteShardError: no whole parquet file.
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            end = file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
            if length > end:
                raise IncompleteShardError(f"{path}: no whole parquet file; copy it again, or remove it.")
            file.seek(end - length)
            return blake2b(file.read(length), digest_size=16).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def check_rows(shard: Shard, *, texts: bool = True) -> None:
    """Look at every row of a shard, without making records of them.

    Args:
        texts: look at responses and log-ratios of tokens too.

    Raises:
        IncompleteShardError: the file is damaged.
        InputError: a null where a value must be, a row of another step, or log-ratios of other tokens than
            the response's.
    """
    for part in _parts(shard, COLUMNS if texts else HEADERS):
        if not texts:
            continue
        columns = (part.column(name).to_pylist() for name in (TOKENS, "tokens", "response"))
        for ratios, tokens, response in zip(*columns, strict=True):
            if ratios is not None:
                _check_tokens(shard.path, ratios, tokens, response)


def _check_tokens(path: Path, ratios: str, tokens: int, response: str) -> None:
    try:
        pairs = TokenRatios.from_text(ratios)
    except ValueError as error:
        raise InputError(f"{path}: column {TOKENS!r} holds {ratios[:40]!r} ({error}).") from error
    if (len(pairs.lengths), sum(pairs.lengths)) != (tokens, len(response)):
        raise InputError(
            f"{path}: column {TOKENS!r} tells of {len(pairs.lengths)} tokens with {sum(pairs.lengths)} "
            f"characters, the response has {tokens} with {len(response)}."
        )


def read_shard(shard: Shard) -> Iterator[RolloutRecord]:
    """Yield the records of a shard.

    Raises:
        IncompleteShardError: the file is damaged.
        InputError: a null where a value must be, or a row of another step.
    """
    for part in _parts(shard, COLUMNS):
        yield from from_rows(part.to_pydict())


def read_columns(shard: Shard, names: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
    """Yield these columns of a shard, `ROWS_PER_GROUP` rows at a time.

    Raises:
        IncompleteShardError, InputError: as `read_shard`.
    """
    for part in _parts(shard, names):
        yield part.to_pydict()


def read_texts(path: Path, content: str, rows: Collection[int], name: str) -> dict[int, str | None]:
    """Return a column's texts in these rows of a shard, by row; only their row groups are read.

    Args:
        content: the hash of its footer as it was imported.

    Raises:
        InputError: it is not there any more, was written again or is damaged.
    """
    import pyarrow as pa

    try:
        if not path.is_file():
            raise InputError(
                f"{path}: the responses lie in this file, which is not there; put it back, or import its "
                "folder from where it is now: `tagrpo rollouts import FOLDER`."
            )
        with _opened(path) as file:
            if footer_hash(path) != content:
                raise InputError(
                    f"{path}: was written again since it was imported, and its responses are others; import "
                    f"it again: `tagrpo rollouts import {path.parent}`."
                )
            texts: dict[int, str | None] = {}
            start = 0
            for group in range(file.metadata.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if wanted := [row for row in rows if start <= row < end]:
                    column = file.read_row_group(group, columns=[name]).column(name)
                    texts.update((row, column[row - start].as_py()) for row in wanted)
                start = end
            return texts
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise IncompleteShardError(f"{path}: is damaged ({first_line(error)}).") from error


def _parts(shard: Shard, names: Sequence[str]) -> Iterator[Any]:
    """Yield these columns of a shard, checked, `ROWS_PER_GROUP` rows at a time."""
    import pyarrow.compute as pc
    from pyarrow import ArrowException

    with _opened(shard.path) as file:
        try:
            for part in file.iter_batches(batch_size=ROWS_PER_GROUP, columns=list(names)):
                part.validate(full=True)
                for name in REQUIRED:
                    if name in names and part.column(name).null_count:
                        raise InputError(f"{shard.path}: column {name!r} has rows without a value.")
                if "step" not in names:
                    yield part
                    continue
                steps = set(pc.unique(part.column("step")).to_pylist())
                if steps != {shard.step}:
                    raise InputError(f"{shard.path}: column 'step' is {max(steps)}, not {shard.step}.")
                yield part
        except (OSError, ArrowException) as error:
            raise IncompleteShardError(f"{shard.path}: is damaged ({first_line(error)}).") from error


def read_run(folder: Path) -> FolderRun:
    """Return what `run.json` says.

    Raises:
        InputError: it is there and is no description of a run.
    """
    path = folder / RUN_FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        canonical_json(about)  # NaN and infinities, which no database holds
        return FolderRun(str(about["run"]), dict(about["spec"]), dict(about["versions"]))
    except FileNotFoundError:
        return FolderRun(None, {}, {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the description of a run ({error}).") from error


def read_metrics(folder: Path) -> dict[int, dict[str, float]]:
    """Return the metrics of each step, those recorded last; {} where there are none.

    Lines that hold none are passed over; `read_metric_lines` counts them.

    Raises:
        InputError: the file cannot be read.
    """
    return read_metric_lines(folder)[0]


def read_metric_lines(folder: Path) -> tuple[dict[int, dict[str, float]], int]:
    """Return the metrics of each step, and the number of lines that hold none.

    A kill of the training leaves one such line, cut short; more of them mean that the file is damaged.

    Raises:
        InputError: the file cannot be read.
    """
    path = folder / METRICS_FILE
    metrics: dict[int, dict[str, float]] = {}
    unread = 0
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return metrics, unread
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    for line in lines:
        try:
            step, of_step = _metrics_of(line)
            metrics[step] = of_step
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            unread += bool(line.strip())
    return dict(sorted(metrics.items())), unread


def _metrics_of(line: str) -> tuple[int, dict[str, float]]:
    """Return step and metrics of a line, without values that are no finite numbers, as they are written."""
    row = json.loads(line)
    step = int(row["step"])
    if not 0 <= step < 2**31 or b"\0" in "".join(row["metrics"]).encode():
        raise ValueError("a step or a name that no database holds")
    numbers = {name: float(value) for name, value in row["metrics"].items()}
    return step, {name: number for name, number in numbers.items() if math.isfinite(number)}


def _opened(path: Path) -> Any:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file.") from error
    except (OSError, ArrowException) as error:
        raise IncompleteShardError(
            f"{path}: no whole parquet file ({first_line(error)}); copy it again, or remove it."
        ) from error
