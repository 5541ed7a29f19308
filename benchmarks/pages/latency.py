"""How fast the pages are on a large database, which is made here.

    python -m benchmarks.pages.latency --make FILE [--scale 1] [--seed 0]
    python -m benchmarks.pages.latency --browser FILE [--pages questions,review] [--repeats 20]

`--make` writes 10,000 questions, 30,000 neighbors, 1,000,000 rollouts and 200,000 evaluation samples (see
`database.py`): 0.33 GB, and 0.29 GB of rollouts next to it, in about a minute of one core. `--browser` starts
`tagrpo ui --review` on it and prints how long first paint, later pages and every action take in Chromium (see
`browser.py`); its reviews are added to the database.

The last line is one JSON object.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Do what was asked for; return 1 where something is over its target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path, metavar="FILE", help="write the database into a new file")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size of --make")
    parser.add_argument("--seed", type=int, default=0, help="of --make")
    parser.add_argument("--browser", type=Path, metavar="FILE", help="measure the pages in Chromium on it")
    parser.add_argument("--pages", help="those of --browser, with commas; all without it")
    parser.add_argument("--repeats", type=int, default=20, help="of --browser")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    if options.make is not None:
        if options.make.exists():
            parser.error(f"{options.make} exists; name a new file or remove it")
        from benchmarks.pages.database import make_database

        report["make_s"] = make_database(options.make, scale=options.scale, seed=options.seed)
        report["database_mb"] = round(options.make.stat().st_size / 1e6)
    if options.browser is not None:
        from benchmarks.pages.browser import measure_browser, print_end
        from benchmarks.pages.interactions import PAGES

        pages = options.pages.split(",") if options.pages else list(PAGES)
        if not set(pages) <= set(PAGES):
            parser.error(f"--pages: take some of {', '.join(PAGES)}")
        report["browser"] = measure_browser(options.browser, repeats=options.repeats, pages=pages)
        print_end(report["browser"])
    if not report:
        parser.error("name --make or --browser")
    print(json.dumps(report))
    return 1 if report.get("browser", {}).get("over") else 0


if __name__ == "__main__":
    sys.exit(main())
