"""Reads rows from JSON Lines, CSV and parquet files. Each row knows its place, for error messages."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

from service.errors import InputError, first_lines
from service.hashing import file_sha256

LONGEST_CSV_FIELD = 64 * 1024 * 1024
ROWS_LOOKED_AT = 200  # for the names of columns, where each row names its own
KINDS: dict[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
SUFFIXES = ", ".join(KINDS)


class JsonNumber(str):
    """A JSON number in the spelling of the file: 0.10 stays 0.10, and 1e999 does not become infinite."""


@dataclass(frozen=True)
class RawRow:
    """One row of a source: its number from 0, its place (`file:line`), and its columns.

    A row with a `problem` cannot be used; if it cannot even be read, it has no columns.
    """

    number: int
    place: str
    values: Mapping[str, Any]
    problem: str = ""


Rows: TypeAlias = Iterator[RawRow]


@dataclass(frozen=True)
class Source:
    """An opened source: its name for messages, the default name of the set, and where it is from.

    `columns` are all columns, or those of the first rows if each row names its own. `read` yields the rows;
    given names, it may leave out the other columns (some data sets carry far more text than needed).
    """

    name: str
    stem: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str] | None], Rows]
    origin: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None  # of a file, to which paths in its rows are relative

    @property
    def rows(self) -> Rows:
        """All rows with all their columns."""
        return self.read(None)


def open_file(path: Path, or_else: str = "") -> Source:
    """Open a file of questions by its suffix; `or_else` is what else than a file may be given."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Give a file ({SUFFIXES}).")
    if not path.exists():
        raise InputError(f"{path}: no such file. Give a file ({SUFFIXES}){or_else}.")
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path}: unknown file type. tagrpo reads {SUFFIXES}.")
    try:
        size = path.stat().st_size
        digest = file_sha256(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    if size == 0:
        raise InputError(f"{path}: the file is empty.")
    origin = {"source": str(path), "format": kind, "sha256": digest}
    if kind == "parquet":
        names, read = _open_parquet(path)
        return Source(path.name, path.stem, names, read, origin, path.parent)
    read_text = _read_csv if kind == "csv" else _read_json
    head = list(islice(read_text(path), ROWS_LOOKED_AT))
    if not head:
        raise InputError(f"{path.name}: contains no rows.")
    columns = tuple(dict.fromkeys(name for row in head for name in row.values))
    bad = [f"{row.place}: {row.problem}" for row in head if row.problem]
    if bad and not columns:
        raise InputError(f"{path.name}: none of the first {len(head)} rows can be used:{first_lines(bad)}")
    return Source(path.name, path.stem, columns, lambda wanted: read_text(path), origin, path.parent)


def read_objects(path: Path, like: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON Lines with the numbers of their lines; blank lines are left out.

    A line that is not an object is an error; `like` says what it should be.
    """
    for number, value in _parse_lines(path, like, json.loads):
        if isinstance(value, str):
            raise InputError(f"{path}:{number}: {value}.")
        yield number, value


def _load_json(text: str) -> Any:
    return json.loads(text, parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=float)


def _read_json(path: Path) -> Rows:
    first = next((line.strip() for _, line in _read_lines(path) if line.strip()), b"")
    if first.startswith(b"["):
        yield from _read_json_array(path)
        return
    if first == b"{":
        raise InputError(f"{path}: is one JSON object. Write its rows as JSON Lines or as an array.")
    for row, (number, value) in enumerate(_parse_lines(path, 'like {"question": ...}', _load_json)):
        values, problem = ({}, value) if isinstance(value, str) else (value, "")
        yield RawRow(row, f"{path.name}:{number}", values, problem)


def _read_json_array(path: Path) -> Rows:
    try:
        values = _load_json(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start + 1} of the file.") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: starts like a JSON array, but is not a complete one ({error}). The file may be cut off."
        ) from error
    for row, value in enumerate(values):
        place = f"{path.name}: row {row}"
        problem = "" if isinstance(value, dict) else "not a JSON object"
        yield RawRow(row, place, {} if problem else value, problem)


def _parse_lines(
    path: Path, like: str, loads: Callable[[str], Any]
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number and the object of each line that is not blank, or why it is none."""
    for number, line in _read_lines(path):
        if not line.strip():
            continue
        try:
            value = loads(_decode(line))
        except (json.JSONDecodeError, RecursionError) as error:
            why = "nested too deeply"
            if isinstance(error, ValueError):
                why = f"{error.msg}, column {error.colno}"
            cut = "" if line.endswith(b"\n") else "; its last line is not terminated: the file may be cut off"
            yield number, f"not valid JSON ({why}){cut}"
        except ValueError as error:
            yield number, str(error)
        else:
            yield number, value if isinstance(value, dict) else f"not a JSON object {like}".strip()


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Yield each line with its number from 1, without the mark that some editors put before UTF-8.

    Only "\n" ends a line: JSON text may hold other separators as they are.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InputError(f"{path}: the encoding is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8.")
                yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
        raise ValueError(f"not UTF-8: {byte}. Save the file as UTF-8") from error


def _read_csv(path: Path) -> Rows:
    def decoded() -> Iterator[str]:
        for number, line in _read_lines(path):
            try:
                yield _decode(line)
            except ValueError as error:
                raise InputError(f"{path.name}:{number}: {error}.") from error

    csv.field_size_limit(LONGEST_CSV_FIELD)
    reader = csv.reader(decoded(), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    header: list[str] = []
    row, line = 0, 1
    try:
        for cells in reader:
            place, line = f"{path.name}:{line}", reader.line_num + 1
            if not cells:
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                if twice := [name for name in header if header.count(name) > 1]:
                    raise InputError(f'{place}: the header contains the column "{twice[0]}" twice.')
                continue
            if len(cells) == len(header):
                yield RawRow(row, place, dict(zip(header, cells, strict=True)))
            else:
                fields = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
                yield RawRow(row, place, {}, f"has {fields}, but the header has {len(header)}")
            row += 1
    except csv.Error as error:
        problem = f"not valid CSV ({error}). A quote may be unclosed, or the file cut off"
        yield RawRow(row, f"{path.name}:{line}", {}, problem)


def number_rows(name: str, batches: Iterable[Any]) -> Rows:
    """Yield the rows of pyarrow batches or tables."""
    for number, values in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches)):
        yield RawRow(number, f"{name}: row {number}", values)


def _open_parquet(path: Path) -> tuple[tuple[str, ...], Callable[[Sequence[str] | None], Rows]]:
    import pyarrow
    from pyarrow import parquet

    def damaged(error: Exception) -> InputError:
        return InputError(f"{path}: not a readable parquet file ({error}). It may be cut off.")

    def read(wanted: Sequence[str] | None) -> Rows:
        try:
            yield from number_rows(path.name, file.iter_batches(batch_size=rows, columns=wanted))
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise damaged(error) from error

    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise damaged(error) from error
    rows = 100 if "binary" in str(file.schema_arrow) else 2_000  # at once: images are large
    return tuple(file.schema_arrow.names), read
