"""How fast the pages are on a large database, which is made here.

    python -m benchmarks.pages.latency --make FILE [--scale 1] [--seed 0]
    python -m benchmarks.pages.latency --browser FILE [--repeats 20]

`--make` writes 10,000 questions, 30,000 neighbors, 1,000,000 rollouts and 200,000 evaluation samples (see
`database.py`): 0.33 GB, and 0.29 GB of rollouts next to it, in about a minute of one core. `--browser` starts
`tagrpo ui --review` on it and prints how long it takes in Chromium to go to a page and back, and to do
something on the slowest pages (`ROUNDS`).

The last line is one JSON object.
"""

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

from benchmarks.pages.database import TRAININGS, make_database
from benchmarks.pages.tab import URL, WAIT_MS, Tab

LINES = """[...document.querySelectorAll('[data-testid="stVegaLiteChart"] .mark-line path')].map(
  (one) => one.getAttribute("d")).join()"""
METRICS = """[...document.querySelectorAll(".numbers")].map((one) => one.textContent).join()"""
QUESTIONS = """document.querySelectorAll('[class*="st-key-question-row-"]').length"""


def _heading(said: str) -> str:
    return f"document.querySelector('h1')?.textContent === '{said}'"


PAGES: dict[str, tuple[str, str]] = {
    "overview": ("/", f"{_heading('Overview')} && {METRICS}"),
    "questions": ("/questions", f"{_heading('Questions')} && {QUESTIONS}"),
    "review": ("/review", _heading("Review")),
    "sets": ("/sets", f"{_heading('Sets')} && {METRICS}"),
    "rollouts": ("/rollouts", f"{_heading('Rollouts')} && {METRICS}"),
    "signal": ("/signal", f"{_heading('Training signal')} && {LINES}"),
    "curves": ("/curves", f"{_heading('Curves')} && {LINES}"),
}
"""By name: the address, and a condition (JavaScript) that holds on no other page."""


def _rollouts(tab: Tab) -> None:
    other = _another(tab, "Training run", [f"{name}  (" for name in TRAININGS])
    _choose(tab, "rollouts: another run", "Training run", other, exact=False)
    # The list of choices draws only what it shows: further ones cannot be clicked without scrolling it.
    _choose(tab, "rollouts: a step", "Step", _another(tab, "Step", [f"step {n}" for n in range(1, 6)]))
    _press(tab, "rollouts: groups of a kind", "radio", "mixed")
    _press(tab, "rollouts: next groups", "button", "Next")
    _click_row(tab, "rollouts: open a group")
    tab.settle("document.querySelector('.st-key-group-back')")
    responses = tab.page.locator(".table tbody tr")
    tab.time("rollouts: read a response", responses.nth(tab.chance.randrange(8)).click)
    _press(tab, "rollouts: next group", "button", "Next group")
    _press(tab, "rollouts: all groups", "button", "All groups")


def _signal(tab: Tab) -> None:
    for steps in ("5 steps", "a step"):
        _choose(tab, f"signal: {steps}", "Average over", steps, content=LINES)
    _press(tab, "signal: all right", "radio", re.compile("^all right"), content=LINES)
    for label in ("either", "Policy", "Anchor", "Covariance", "Zero gradient"):
        _press(tab, f"signal: {label.lower()}", "radio", label, content=LINES)


def _curves(tab: Tab) -> None:
    _choose(tab, "curves: another k", "k", _another(tab, "k", ["2", "4", "8", "16", "64", "128"]))
    _choose(tab, "curves: another benchmark", "Benchmark", "math500")
    _press(tab, "curves: problems of all", "radio", "all:", exact=False)
    _click_row(tab, "curves: responses to a problem")
    _choose(tab, "curves: the first benchmark", "Benchmark", "aime")
    for view in ("Differences", "Table", "Cost", "Curves"):
        _press(tab, f"curves: {view.lower()}", "radio", view)


ROUNDS: dict[str, Callable[[Tab], None]] = {"rollouts": _rollouts, "signal": _signal, "curves": _curves}
"""By page, of the slowest: one round of what is done there, which ends where it began."""


def _press(
    tab: Tab, name: str, role: str, label: str | re.Pattern[str], *, exact: bool = True, content: str = URL
) -> None:
    """Click a button or one of several choices."""
    tab.time(name, tab.page.get_by_role(role, name=label, exact=exact).first.click, content)


def _another(tab: Tab, label: str, values: list[str]) -> str:
    """Return a value that the choice with this label does not show now."""
    now = tab.page.get_by_role("combobox", name=label, exact=True).input_value()
    return tab.chance.choice([value for value in values if not now.startswith(value)])


def _choose(tab: Tab, name: str, label: str, value: str, *, exact: bool = True, content: str = URL) -> None:
    """Choose a value; opening the list happens in the browser alone and is not counted."""
    from playwright.sync_api import TimeoutError as NotOpened

    box: Any = tab.page.get_by_role("combobox", name=label, exact=True)
    option = tab.page.get_by_role("option", name=value, exact=exact).first
    for last in (False, False, True):  # a part of the page that is drawn late closes an open list
        box.click()
        try:
            option.wait_for(timeout=WAIT_MS if last else 2000)
        except NotOpened:
            if last:
                raise
            continue
        break
    tab.time(name, option.click, content)


def _click_row(tab: Tab, name: str) -> None:
    """Click one of the first rows of the page's table, after its first cell."""
    rows = tab.page.locator(".table table").filter(visible=True).first.locator("tbody tr")
    tab.time(name, rows.nth(tab.chance.randrange(8)).locator("td").nth(1).click)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path, metavar="FILE", help="write the database into a new file")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size of --make")
    parser.add_argument("--seed", type=int, default=0, help="of --make")
    parser.add_argument("--browser", type=Path, metavar="FILE", help="measure the pages in Chromium on it")
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
        report["times_ms"] = measure(options.browser, options.repeats)
    if not report:
        parser.error("name --make or --browser")
    print(json.dumps(report))


def measure(database: Path, repeats: int) -> dict[str, dict[str, float]]:
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
            for name, (path, marker) in PAGES.items():
                other = "sets" if name == "overview" else "overview"
                tab.go(path, marker)
                for _ in range(repeats):
                    for to, said in ((other, "left for another page"), (name, "visited again")):
                        link = page.locator(f'[data-testid="stSidebarNavLink"][href$="{PAGES[to][0]}"]')
                        tab.time(f"{name}: {said}", link.first.click, f"Boolean({PAGES[to][1]})")
                if name in ROUNDS:
                    tab.go(path, marker)
                    for _ in range(repeats):
                        ROUNDS[name](tab)
            browser.close()
    finally:
        server.terminate()
        server.communicate(timeout=30)
    print(f"{'in the browser (ms)':46} {'p50':>6} {'p95':>6} {'most':>6}")
    report = {}
    for page in ROUNDS:
        taken[f"{page}: all"] = [ms for name, times in taken.items() if name.startswith(page) for ms in times]
    for name, times in taken.items():
        times.sort()
        p95 = times[math.ceil(0.95 * len(times)) - 1]
        report[name] = {"p50": round(statistics.median(times)), "p95": round(p95), "most": round(times[-1])}
        print(f"{name:46} " + " ".join(f"{value:6}" for value in report[name].values()))
    return report


if __name__ == "__main__":
    main()
