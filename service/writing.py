"""Read texts of the user's; write files and folders atomically.

What is written goes into a hidden path next to the target, which is renamed when complete.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from service.errors import InputError


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, without a byte order mark; an error names the file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not valid UTF-8. Save the file as UTF-8.") from error


def write_file(target: Path, write: Callable[[Path], object], *, overwrite: bool | None) -> None:
    """Let `write` make a file and put it at `target`; until then the target stays as it was.

    Args:
        overwrite: whether it may be there already; None where the user has no option that says so.
    """
    check_file_target(target, overwrite=overwrite)
    with _hidden_beside(target) as hidden:
        made = hidden / target.name
        write(made)
        _sync(made)
        check_file_target(target, overwrite=overwrite)  # another process may have written it meanwhile
        os.replace(made, target)


def write_text(target: Path, text: str, *, overwrite: bool | None) -> None:
    """Write a text as it is, in UTF-8; see `write_file`."""
    write_file(target, lambda made: made.write_text(text, encoding="utf-8", newline=""), overwrite=overwrite)


def write_folder(target: Path, write: Callable[[Path], None], *, overwrite: bool | None, mark: str) -> None:
    """Let `write` fill a folder and put it at `target`; until then the target stays as it was.

    An old export is moved aside first and removed last, so a kill in between leaves either the old one, or
    the new one, or (for the moment between two renames) both beside the target, never a mixture.

    Args:
        mark: a file that shows that a folder is an export and may be overwritten.
    """
    check_folder_target(target, overwrite=overwrite, mark=mark)
    with _hidden_beside(target) as hidden:
        made, old = hidden / "new", hidden / "old"
        made.mkdir()
        write(made)
        for path in made.rglob("*"):
            if path.is_file():
                _sync(path)
        if target.exists():
            os.replace(target, old)
        os.replace(made, target)


def write_rows(path: Path, schema: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    at_once = 50 if "images" in schema.names else 500  # rows of a group; an image has up to 20 MB
    rest = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(rest, at_once)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


def check_file_target(target: Path, *, overwrite: bool | None) -> None:
    """Refuse a file that cannot be written; see `write_file`."""
    if target.is_dir():
        raise InputError(f"{target}: is a folder. Give a file name.")
    if target.exists() and not overwrite:
        raise InputError(f"{target}: already exists. Choose another file{_or_pass(overwrite)}.")


def check_folder_target(target: Path, *, overwrite: bool | None, mark: str) -> None:
    """Refuse a folder that cannot be written; see `write_folder`."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file. Give a folder name.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{target}: is not empty. Choose another folder{_or_pass(overwrite)}.")
    if not (target / mark).is_file():
        raise InputError(f"{target}: contains no {mark}, so it is not overwritten as an export.")


def _or_pass(overwrite: bool | None) -> str:
    return "" if overwrite is None else " or pass --overwrite"


@contextmanager
def _hidden_beside(target: Path) -> Iterator[Path]:
    """A folder on the target's disk that is gone afterwards, whatever happens but SIGKILL."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        prefix, parent = f".{target.name}.", target.parent
        with tempfile.TemporaryDirectory(prefix=prefix, suffix=".partial", dir=parent) as hidden:
            yield Path(hidden)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{target}: writing failed ({reason}). No partial file was left.") from error


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
