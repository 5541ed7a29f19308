"""How fast the pages are on a large database, which is made here.

    python -m benchmarks.pages.latency --make FILE [--scale 1] [--seed 0]
    python -m benchmarks.pages.latency --browser FILE [--repeats 20]

`--make` writes 10,000 questions, 30,000 neighbors, 1,000,000 rollouts and 200,000 evaluation samples (see
`database.py`): 0.33 GB, and 0.29 GB of rollouts next to it, in about a minute of one core. `--browser` starts
`tagrpo ui --review` on it and prints how long it takes in Chromium to go to a page and back, and to do
something on the slowest pages (`ROUNDS`). Times are taken inside the page, from the event that the browser
hands to it to the last change on the screen: the script has run, nothing loads, charts and tables have their
pictures, what the action is to change has changed, and for 200 ms (which are not counted) nothing else did.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

from benchmarks.pages.database import TRAININGS, make_database

WAIT_MS = 30_000
QUIET_MS = 200
"""Nothing may change for so long before an action counts as ended."""

URL = "location.pathname + location.search"
ROOTS = """[...document.querySelectorAll('[data-testid="stBidiComponentIsolated"]')].map(
  (one) => one.offsetParent === null ? null : one.shadowRoot ?? document.createElement("p"))"""
"""What tables and the bar of keys have drawn: trees of their own, which no observer of the page sees into."""

DRAWN = """(() => {
  const app = document.querySelector('[data-testid="stApp"]');
  const has = (box, inside) => [...document.querySelectorAll(box)].every(
    (one) => one.offsetParent === null || one.querySelector(inside));
  return app?.dataset.testScriptState === "notRunning"
    && !document.querySelector('[data-testid="stSkeleton"], [data-testid="stSpinner"]')
    && has('[data-testid="stVegaLiteChart"]', 'svg, canvas')
    && has('[data-testid="stDataFrame"]', 'canvas')
    && ROOTS.every((one) => one === null || one.querySelector("th, .bar"));
})()""".replace("ROOTS", ROOTS)
"""Whether the page is drawn to its end (JavaScript)."""

_WATCH = """(() => {
  const read = () => { try { return String(%(content)s); } catch { return ""; } };
  const timer = { before: read(), start: null, end: null, last: 0 };
  window.tagrpoTimer = timer;
  const begin = () => { timer.start ??= performance.now(); };
  for (const type of ["pointerdown", "keydown"]) {
    window.addEventListener(type, begin, { capture: true, once: true });
  }
  const grid = '[data-testid="stDataFrame"]'; // goes on changing itself when it is drawn
  const inGrid = (node) => (node.closest ? node : node.parentElement)?.closest(grid);
  const observer = new MutationObserver((changes) => {
    if (changes.some((change) => !inGrid(change.target))) timer.last = performance.now();
  });
  const observed = new Set();
  const observe = (tree) => {
    if (tree === null || observed.has(tree)) return;
    observed.add(tree);
    timer.last = performance.now();
    observer.observe(tree, {
      subtree: true, childList: true, characterData: true, attributeFilter: ["d", "data-stale"],
    });
  };
  observe(document);
  let whole = null;
  const look = () => {
    if (window.tagrpoTimer !== timer) return observer.disconnect();
    %(roots)s.forEach(observe);
    const now = performance.now();
    const same = [timer.before, "", "false"].includes(read());
    if (timer.start === null || same || !%(drawn)s) whole = null;
    else whole ??= now;
    const last = Math.max(whole, timer.last);
    if (whole !== null && now - last >= %(quiet)d) {
      timer.end = last;
      observer.disconnect();
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""


@dataclass
class Tab:
    """A browser's tab, and the milliseconds of what was done in any tab, by name."""

    page: Any
    url: str
    times: dict[str, list[float]]
    chance: random.Random

    def go(self, path: str, marker: str) -> None:
        """Load an address, until it is drawn and the condition (JavaScript) holds."""
        self.page.goto(self.url + path, wait_until="commit")
        self.settle(marker)

    def settle(self, marker: str = "true") -> None:
        """Wait until all is drawn and a condition (JavaScript) holds."""
        self.page.wait_for_function(f"() => ({marker}) && {DRAWN}", timeout=WAIT_MS)

    def time(self, name: str, act: Callable[[], object], content: str = URL) -> None:
        """Do something; add how long it took until `content` (JavaScript) is another one and all is drawn."""
        self.page.evaluate(_WATCH % {"content": content, "drawn": DRAWN, "roots": ROOTS, "quiet": QUIET_MS})
        act()
        try:
            self.page.wait_for_function("() => window.tagrpoTimer.end", timeout=WAIT_MS)
        except Exception as error:
            raise RuntimeError(f"{name}: nothing changed within {WAIT_MS / 1000:g} s") from error
        taken = self.page.evaluate("() => window.tagrpoTimer.end - window.tagrpoTimer.start")
        self.times.setdefault(name, []).append(taken)


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
    for steps in ("5 steps", "1 step"):
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
