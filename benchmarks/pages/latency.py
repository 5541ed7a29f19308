"""How fast the pages are on a large database, which is made here.

    python -m benchmarks.pages.latency --make FILE [--scale 1] [--seed 0]
    python -m benchmarks.pages.latency --browser FILE [--pages questions,review] [--repeats 20]

`--make` writes 10,000 questions, 30,000 neighbors, 1,000,000 rollouts and 200,000 evaluation samples (see
`database.py`): 0.33 GB, and 0.29 GB of rollouts next to it, in about a minute of one core. `--browser` starts
`tagrpo ui --review` on it and prints how long it takes in Chromium to go to a page and back, and to do what
`interactions.py` does there; its reviews are added to the database.

The last line is one JSON object.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

from benchmarks.pages.database import make_database
from benchmarks.pages.interactions import PAGES, ROUNDS, START
from benchmarks.pages.tab import WAIT_MS, Tab


def main() -> None:
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
        began = time.perf_counter()
        make_database(options.make, scale=options.scale, seed=options.seed)
        report["make_s"] = round(time.perf_counter() - began, 1)
        report["database_mb"] = round(options.make.stat().st_size / 1e6)
    if options.browser is not None:
        pages = options.pages.split(",") if options.pages else list(PAGES)
        if not set(pages) <= set(PAGES):
            parser.error(f"--pages: take some of {', '.join(PAGES)}")
        report["times_ms"] = measure(options.browser, repeats=options.repeats, pages=pages)
    if not report:
        parser.error("name --make or --browser")
    print(json.dumps(report))


def measure(database: Path, *, repeats: int, pages: Sequence[str]) -> dict[str, dict[str, float]]:
    """Time going to each page and what is done there; return milliseconds by what was done."""
    from playwright.sync_api import sync_playwright

    binary = chromium()
    if binary is None:
        raise SystemExit("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    taken: dict[str, list[float]] = {}
    server = subprocess.Popen(
        tagrpo_ui(database, "--review"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert server.stdout is not None
        words = (word for line in server.stdout for word in line.split())
        url = next(word for word in words if word.startswith("http://"))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.set_default_timeout(WAIT_MS)
            tab = Tab(page, url, taken, random.Random(7))
            for name in pages:
                path, marker = PAGES[name]
                other = "sets" if name == "overview" else "overview"
                tab.go(path, marker)
                for _ in range(repeats):
                    for to, said in ((other, "left for another page"), (name, "visited again")):
                        link = page.locator(f'[data-testid="stSidebarNavLink"][href$="{PAGES[to][0]}"]')
                        tab.time(f"{name}: {said}", link.first.click, f"Boolean({PAGES[to][1]})")
                tab.go(START.get(name, path).format(reviewer=f"browser-{os.getpid()}"), marker)
                for _ in range(repeats):
                    ROUNDS[name](tab)
            browser.close()
    finally:
        server.terminate()
        server.communicate(timeout=30)
    print(f"{'in the browser (ms)':46} {'p50':>6} {'p95':>6} {'most':>6}")
    report = {}
    for name, times in taken.items():
        times.sort()
        p95 = times[math.ceil(0.95 * len(times)) - 1]
        report[name] = {"p50": round(statistics.median(times)), "p95": round(p95), "most": round(times[-1])}
        print(f"{name:46} " + " ".join(f"{value:6}" for value in report[name].values()))
    return report


if __name__ == "__main__":
    main()
