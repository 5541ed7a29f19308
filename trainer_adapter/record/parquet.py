"""Parquet files whose damage never goes unnoticed.

They have checksums of all values in the footer, and of pages. Those of pages do not cover page headers
and the footer, so a flipped bit there could change a value. The checksum of each column of each row group in
the footer is compared with what was read.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from service.errors import InputError, first_line

DIGESTS = b"tagrpo.digests"
ZSTD_LEVEL = 3


class DamagedFileError(InputError):
    """A parquet file that is empty, cut short, altered, or of another form than expected."""


def write_parquet(
    path: Path, schema: Any, parts: Iterable[Any], about: Mapping[bytes, str], repeated: Sequence[str]
) -> None:
    """Write pyarrow tables with this schema, one row group each.

    Args:
        about: stored in the footer.
        repeated: columns whose values repeat.
    """
    import pyarrow.parquet as pq

    digests: dict[str, list[int]] = {name: [] for name in schema.names}
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=list(repeated),
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for part in parts:
            writer.write_table(part, row_group_size=max(1, len(part)))
            for name, of_groups in digests.items():
                of_groups.append(_digest(part.column(name)))
        writer.add_key_value_metadata({**about, DIGESTS: json.dumps(digests, separators=(",", ":"))})


def read_parquet(
    path: Path, types: Mapping[str, str], about: Mapping[bytes, str], groups: Sequence[int] | None = None
) -> Any:
    """Return columns as a pyarrow table, after a look at every value; its metadata is the footer's.

    Args:
        types: of the columns to read.
        about: what the footer must say.
        groups: row groups to read; None for all.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is damaged, or not what the arguments say.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            there = file.metadata.metadata or {}
            for key, text in about.items():
                if there.get(key) != text.encode():
                    stored = there.get(key, b"nothing").decode(errors="replace")
                    raise DamagedFileError(
                        f"{path}: {key.decode()} is {stored!r} in this file, not {text!r}. Record the "
                        "file again, or remove it."
                    )
            digests: dict[str, list[int]] = json.loads(there[DIGESTS])
            number = len(digests[next(iter(types))])
            if number != file.metadata.num_row_groups:
                raise ValueError(f"it has {file.metadata.num_row_groups} of {number} row groups")
            parts = []
            for group in range(number) if groups is None else groups:
                part = file.read_row_group(group, columns=list(types)).select(list(types))
                part.validate(full=True)
                for name, kind in types.items():
                    column = part.column(name)
                    if column.type != kind or _digest(column) != digests[name][group]:
                        raise ValueError(f"column {name!r} does not contain the written values")
                parts.append(part)
            return pa.concat_tables(parts).replace_schema_metadata(there)
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DamagedFileError(
            f"{path}: is damaged or still being copied ({first_line(error)}). Copy it again or remove it."
        ) from error


def footer_hash(path: Path) -> str:
    """Return the hash of a parquet file's footer, which differs whenever a value differs (see `DIGESTS`).

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it has no footer.
    """
    with path.open("rb") as file:
        end = max(0, file.seek(0, 2) - 8)
        file.seek(end)
        tail = file.read(8)
        start = end - int.from_bytes(tail[:4], "little")
        if len(tail) < 8 or tail[4:] != b"PAR1" or start < 4:
            raise DamagedFileError(
                f"{path}: is empty, cut short or still being copied. Copy it again or remove it."
            )
        file.seek(start)
        return blake2b(file.read(end - start), digest_size=8).hexdigest()


def _digest(column: Any) -> int:
    """Return a checksum of a column's values and of which of them are null."""
    import numpy as np
    import pyarrow as pa

    array = column.combine_chunks()
    checksum = zlib.crc32(array.is_null().cast(pa.uint8()).to_numpy()) if array.null_count else 0
    if not pa.types.is_string(array.type):
        filled = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
        return zlib.crc32(filled.fill_null(0).to_numpy(), checksum)
    filled = array.fill_null("")
    _, offsets, data = filled.buffers()
    ends = np.frombuffer(offsets, np.int32)[filled.offset : filled.offset + len(filled) + 1]
    texts = b"" if data is None else memoryview(data)[ends[0] : ends[-1]]
    return zlib.crc32(texts, zlib.crc32(np.diff(ends).tobytes(), checksum))
