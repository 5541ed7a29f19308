"""`python -m ui.shipped_demo DATABASE`: pack a demo's database to ship with tagrpo."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from service.errors import TagrpoError
from ui.shipped_demo.contents import README, write_contents
from ui.shipped_demo.packing import pack
from ui.shipped_demo.unpacking import SHIPPED, unpack


def main(arguments: list[str] | None = None) -> int:
    """Pack, unpack to see that it works, write the README beside it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ui.shipped_demo", description=__doc__)
    parser.add_argument("database", type=Path, help="of a finished demo, such as tagrpo-demo/tagrpo.db")
    parser.add_argument("--folder", type=Path, help="in which the demo ran; else where the database lies")
    parser.add_argument("--to", type=Path, default=SHIPPED, help="the pack; the shipped one without it")
    options = parser.parse_args(arguments)
    try:
        tables = pack(options.database, options.to, folder=options.folder)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            unpack(options.to, Path(folder, "tagrpo.db"))
            seconds = time.perf_counter() - start
            size = Path(folder, "tagrpo.db").stat().st_size
        write_contents(options.to, tables, size, options.to.with_name(README))
    except TagrpoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for one in tables[:12]:
        print(f"{one.name:24} {one.rows:>9,} rows {one.size:>11,} bytes")
    packed = options.to.stat().st_size
    print(f"{options.to}: {packed:,} bytes; unpacked {size:,} bytes, in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
