"""`python -m ui.shipped_demo DATABASE`: pack a demo's database to ship with tagrpo."""

import argparse
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from service.database.engine import HEAD_REVISION
from service.errors import TagrpoError
from service.writing import write_text
from ui.shipped_demo.packing import pack, read_pack, table_names
from ui.shipped_demo.unpacking import SHIPPED, describe, unpack

_PAGE = """# The shipped demo

`{pack}` contains the database and the rollouts from a run of `tagrpo demo` on {day} (UTC). \
`tagrpo ui --demo` unpacks them to the user's cache folder and shows them. \
No row is omitted, rounded or edited. Only the path of the demo's folder is shortened to its last part.

- runs: {runs}
- rollouts: {rollouts:,} of {trainings} trainings
- schema {schema}; {packed:,} bytes packed, the database {unpacked:,} unpacked
- made with {versions}

These commands, run from the root of the source tree, create this page and the pack:

```bash
tagrpo demo
python -m ui.shipped_demo tagrpo-demo/tagrpo.db
```

| table | rows |
|---|---:|
{rows}
"""


def main(arguments: list[str] | None = None) -> int:
    """Pack, unpack to see that it works, write the README beside it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ui.shipped_demo", description=__doc__)
    parser.add_argument("database", type=Path, help="Database of a finished demo: tagrpo-demo/tagrpo.db")
    parser.add_argument(
        "--folder", type=Path, help="Folder of the demo. Default: the folder that contains the database."
    )
    parser.add_argument(
        "--to", type=Path, default=SHIPPED, help="Path of the pack. Default: the shipped one."
    )
    options = parser.parse_args(arguments)
    try:
        pack(options.database, options.to, folder=options.folder)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            unpack(options.to, Path(folder, "tagrpo.db"))
            seconds = time.perf_counter() - start
            page = _page(options.to, Path(folder, "tagrpo.db"))
        readme = options.to.with_name("README.md")
        write_text(readme, page, overwrite=True)
    except TagrpoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.to}: {options.to.stat().st_size:,} bytes, unpacked in {seconds:.1f} s")
    return 0


def _page(pack: Path, unpacked: Path) -> str:
    """Return the page that says where a pack came from and what it holds."""
    day, runs, versions = describe(unpacked)
    drawn = [len(record["rollouts"]["step"]) for record in read_pack(pack)[1].values()]
    return _PAGE.format(
        pack=pack.name,
        day=day,
        runs=", ".join(f"{count} {kind}" for kind, count in runs.items()),
        rollouts=sum(drawn),
        trainings=len(drawn),
        schema=HEAD_REVISION,
        packed=pack.stat().st_size,
        unpacked=unpacked.stat().st_size,
        versions=", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
        rows="\n".join(f"| {name} | {rows:,} |" for name, rows in count_rows(unpacked).items() if rows),
    )


def count_rows(database: Path) -> dict[str, int]:
    """Return the number of rows of each packed table, the largest first."""
    with closing(sqlite3.connect(database)) as connection:
        counts = {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for name in table_names(connection)
        }
    return dict(sorted(counts.items(), key=lambda entry: -entry[1]))


if __name__ == "__main__":
    sys.exit(main())
