"""Import of MATH train (7,500 questions): seconds, rows per second, size of the database, memory."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import add_data
from evaluator.grading import Grader
from service.database import Database
from service.questions import Columns, RowLimits, read_source, store_import


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, help="only the first so many")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.db"
        steps: dict[str, float] = {}
        last = start = time.perf_counter()

        def progress(what: str, done: int, total: int) -> None:
            nonlocal last
            now = time.perf_counter()
            steps[what] = steps.get(what, 0.0) + now - last
            last = now

        source = str(args.data / "math_train.jsonl")
        with Database.open(path) as db, Grader() as grader:
            rows = read_source(source, columns=Columns(), limits=RowLimits(), limit=args.rows)
            report = store_import(db, rows, grader, name="math", progress=progress)
        seconds = time.perf_counter() - start
        size = path.stat().st_size
        start = time.perf_counter()
        with Database.open(path) as db, Grader() as grader:
            rows = read_source(source, columns=Columns(), limits=RowLimits(), limit=args.rows)
            again = store_import(db, rows, grader, name="math")
        again_seconds = time.perf_counter() - start

    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(f"{report.rows:,} rows read, {report.usable:,} usable, {len(report.held)} held back:")
    for member in report.held:
        print(f"  row {member.position}: {member.held}")
    print(f"{len(report.likeness.near_duplicates)} near-duplicates with the same answer:")
    for pair in report.likeness.near_duplicates:
        print(f"  rows {pair.earlier} and {pair.row}: {pair.ratio:.1f}%")
    print(f"{len(report.likeness.look_alikes)} rows read like an earlier one, with other numbers or answers")
    for what, spent in steps.items():
        print(f"{what}: {spent:.1f} s (with what came before it)")
    print(
        f"imported in {seconds:.1f} s; again, with nothing new ({not again.created}): {again_seconds:.1f} s"
    )
    result = {
        "rows": report.rows,
        "usable": report.usable,
        "held_rows": [member.position for member in report.held],
        "conflicts": len(report.likeness.conflicts),
        "near_duplicates": len(report.likeness.near_duplicates),
        "look_alikes": len(report.likeness.look_alikes),
        "seconds": round(seconds, 2),
        "rows_per_second": round(report.rows / seconds),
        "seconds_again": round(again_seconds, 2),
        "database_bytes": size,
        "peak_rss_bytes": peak,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
