"""How long the pages take in a browser: from the key or the click to the last change on the screen.

Times are taken inside the page, from the event that the browser hands to it to the frame after the last
change: the script has run, nothing loads, charts and tables have their pictures, what the action is to change
has changed, and for 200 ms (which are not counted) nothing else did. So they hold the way to the server and
back and all drawing, and not the time of the program that presses the keys. First paint counts from the
navigation, in a tab without cookies or cache.

Beside every page stands its named alternative, loading the address of the view anew; beside first paint, a
bare Streamlit page with a number, a chart and a table of 60 rows (`BARE_PAGE`): what the framework takes.
"""

import math
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

FRESH_MS, LATER_MS, ACTION_MS = 2500.0, 500.0, 500.0
WAIT_MS = 30_000
BARE = "a bare Streamlit page: first paint, fresh"
BARE_PAGE = """import streamlit as st
rows = [{"step": step, "value": step % 7} for step in range(60)]
axes = {name: {"field": name, "type": "quantitative"} for name in rows[0]}
st.title("Bare")
st.metric("rows", len(rows))
st.vega_lite_chart(rows, {"mark": "line", "encoding": {"x": axes["step"], "y": axes["value"]}})
st.dataframe(rows)
"""
VIEWPORT = {"width": 1280, "height": 900}

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
  const drawn = () => %(drawn)s;
  const timer = { before: %(fresh)s ? "false" : read(), start: %(fresh)s ? 0 : null, end: null, last: 0 };
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
  %(roots)s.forEach(observe);
  let whole = null;
  const look = () => {
    if (window.tagrpoTimer !== timer) return observer.disconnect();
    %(roots)s.forEach(observe);
    const now = performance.now();
    if (timer.start === null || !drawn() || [timer.before, "", "false"].includes(read())) whole = null;
    else whole ??= now;
    const last = Math.max(whole, timer.last);
    if (whole !== null && now - last >= %(quiet)d) {
      timer.end = last;
      observer.disconnect();
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""

READING_MS = 2000
"""For so long somebody looks at a first page at least before going on to another one."""

QUIET_MS = 200
"""Nothing may change for so long before an action counts as ended."""


@dataclass(frozen=True)
class Taken:
    """Milliseconds of one action: until the last change on the screen; of the server's CPU; of the page's."""

    wall: float
    server: float
    page: float


@dataclass
class Times:
    """What was taken by what was done, in the order in which it was first done, and the limits of `wall`."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, limit: float, taken: Taken) -> None:
        self.taken.setdefault(name, []).append(taken)
        self.limits[name] = limit

    def summary(self) -> dict[str, dict[str, float]]:
        """Return p50, p95, the slowest and the number of times, and the means of CPU, by name."""
        found = {}
        for name, taken in self.taken.items():
            ordered = sorted(one.wall for one in taken)
            p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
            found[name] = {
                "p50": round(statistics.median(ordered)),
                "p95": round(p95),
                "most": round(ordered[-1]),
                "times": len(ordered),
                "server_cpu": round(statistics.fmean(one.server for one in taken)),
                "page_cpu": round(statistics.fmean(one.page for one in taken)),
                "limit": self.limits[name],
            }
        return found


@dataclass
class Tab:
    """A browser's tab on the server, that takes times."""

    page: Any
    server: "Server"
    times: Times
    chance: random.Random

    def __post_init__(self) -> None:
        self._metrics = self.page.context.new_cdp_session(self.page)
        self._metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu(self) -> tuple[float, float]:
        """Return the milliseconds that the server's process and the page's main thread have worked."""
        values = self._metrics.send("Performance.getMetrics")["metrics"]
        seconds = next(one["value"] for one in values if one["name"] == "TaskDuration")
        return self.server.cpu_ms(), 1000 * seconds

    def time(
        self, name: str, act: Callable[[], object], content: str = URL, *, limit: float = ACTION_MS
    ) -> None:
        """Do something; add how long it took until `content` (JavaScript) is another one and all is drawn."""
        self._watch(content, fresh=False)
        before = self.cpu()
        act()
        self.times.add(name, limit, self._ended(name, before))

    def settle(self, marker: str = "true") -> None:
        """Wait until all is drawn and a condition (JavaScript) holds."""
        self.page.wait_for_function(f"() => ({marker}) && {DRAWN}", timeout=WAIT_MS)

    def go(self, path: str, marker: str) -> Taken:
        """Load an address, until it is drawn and the condition (JavaScript) holds."""
        before = self.cpu()[0], 0.0  # another process of the browser draws what is loaded
        self.page.goto(self.server.url + path, wait_until="commit")
        self._watch(f"Boolean({marker})", fresh=True)
        return self._ended(path, before)

    def _watch(self, content: str, *, fresh: bool) -> None:
        said = {"content": content, "drawn": DRAWN, "roots": ROOTS, "quiet": QUIET_MS}
        said["fresh"] = "true" if fresh else "false"
        self.page.evaluate(_WATCH % said)

    def _ended(self, name: str, before: tuple[float, float]) -> Taken:
        try:
            self.page.wait_for_function("() => window.tagrpoTimer.end", timeout=WAIT_MS)
        except Exception as error:
            raise RuntimeError(f"{name}: did not come about within {WAIT_MS / 1000:g} s") from error
        wall = self.page.evaluate("() => window.tagrpoTimer.end - window.tagrpoTimer.start")
        server, page = (now - then for now, then in zip(self.cpu(), before, strict=True))
        return Taken(float(wall), server, page)


@dataclass(frozen=True)
class Server:
    """A running `tagrpo ui`."""

    url: str
    process: int

    def memory_mb(self) -> tuple[float, float]:
        """Return resident memory now and at its peak, in MB (1e6 bytes); zeros where /proc is not there."""
        try:
            lines = Path(f"/proc/{self.process}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return 0.0, 0.0
        kilobytes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
        return round(int(kilobytes["VmRSS"]) * 1.024e-3, 1), round(int(kilobytes["VmHWM"]) * 1.024e-3, 1)

    def cpu_ms(self) -> float:
        """Return the milliseconds of CPU that the server has used, by tens; 0 where /proc is not there."""
        try:
            parts = Path(f"/proc/{self.process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return 1000 * (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """Run a server that prints its address, such as `tagrpo ui`, until the block ends."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        words = (word for line in process.stdout for word in line.split())
        url = next((word for word in words if word.startswith("http://")), None)
        if url is None:
            raise RuntimeError(f"did not start: {shlex.join(command)}")
        yield Server(url, process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def measure_browser(database: Path, *, repeats: int, pages: Sequence[str]) -> dict[str, Any]:
    """Time first paint, later pages and what is done on each page; return milliseconds and memory.

    Decisions of the review page are added to the database, by a reviewer of a new name.
    """
    from playwright.sync_api import sync_playwright
    from ui_interactions import PAGES, ROUNDS, START

    binary = chromium()
    if binary is None:
        raise SystemExit("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    times, memory, printed = Times(), {}, set[str]()
    print(
        f"{'in the browser (ms)':52} {'p50':>6} {'p95':>6} {'most':>6} {'times':>5} {'server':>6} {'page':>6}"
    )
    before = os.getloadavg()[0]
    with serving(tagrpo_ui(database, "--review")) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
        memory["started"] = server.memory_mb()[0]

        def tab() -> Tab:
            page = browser.new_context(viewport=VIEWPORT).new_page()
            page.set_default_timeout(WAIT_MS)
            return Tab(page, server, times, random.Random(7))

        _bare(browser, times, repeats)
        for name in pages:
            for number in range(repeats):
                _visit(tab, name, PAGES, first=name == pages[0] and number == 0)
            one = tab()
            path, marker = PAGES[name]
            one.go(START.get(name, path).format(reviewer=f"browser-{os.getpid()}"), marker)
            for _ in range(repeats):
                ROUNDS[name](one)
            _again(one, name, repeats, marker)
            one.page.context.close()
            memory[f"after {name}"] = server.memory_mb()[0]
            print_times({key: value for key, value in times.summary().items() if key not in printed})
            printed |= set(times.taken)
        memory["most"] = server.memory_mb()[1]
        browser.close()
    found = times.summary()
    bare = found[BARE]["p50"]
    return {
        "times_ms": found,
        "first_paint_over_bare": {
            name: round(found[_first_paint(name)]["p50"] / bare, 2)
            for name in pages
            if _first_paint(name) in found
        },
        "over": [name for name, one in found.items() if one["p95"] > one["limit"]],
        "memory_mb": memory,
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "repeats": repeats,
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _bare(browser: Any, times: Times, repeats: int) -> None:
    """Time the first paint of the bare page, each in a tab without cookies or cache."""
    shown = """document.querySelector('h1')?.textContent.startsWith("Bare")
      && ["stMetric", "stVegaLiteChart", "stDataFrame"].every(
        (one) => document.querySelector(`[data-testid="${one}"]`))"""
    with TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(BARE_PAGE, encoding="utf-8")
        options = {"server.headless": "true", "server.address": "127.0.0.1", "server.port": str(_free_port())}
        options |= {"browser.gatherUsageStats": "false", "server.fileWatcherType": "none"}
        said = [word for name, value in options.items() for word in (f"--{name}", value)]
        with serving([sys.executable, "-m", "streamlit", "run", str(script), *said]) as server:
            for _ in range(repeats + 1):
                page = browser.new_context(viewport=VIEWPORT).new_page()
                taken = Tab(page, server, times, random.Random(7)).go("/", shown)
                page.context.close()
                times.add(BARE, WAIT_MS, taken)
    del times.taken[BARE][0]  # the server's first request


def _visit(tab: Callable[[], Tab], name: str, pages: Any, *, first: bool) -> None:
    """Open a page in a new tab; in others, go to it by the link at the side, away, and back.

    The first time in a tab, the browser loads what the page needs; `ui.pages.server.assets` does so ahead, in
    the moments in which somebody looks at the page before. So that is timed twice: at once, and after
    `READING_MS`.
    """
    one = tab()
    taken = one.go(*pages[name])
    said = "server: its first request" if first else _first_paint(name)
    one.times.add(said, FRESH_MS, taken)
    one.page.context.close()
    one, other = tab(), "sets" if name == "overview" else "overview"
    one.go(*pages[other])
    _follow(one, name, pages, "later page, first time in the tab")
    _follow(one, other, pages, "later page, again")
    _follow(one, name, pages, "later page, again")
    one.page.context.close()
    one = tab()
    one.go(*pages[other])
    one.page.wait_for_timeout(READING_MS)
    _follow(one, name, pages, f"later page, first time, after {READING_MS / 1000:g} s")
    one.page.context.close()


def _first_paint(name: str) -> str:
    return f"{name}: first paint, fresh"


def _follow(one: Tab, name: str, pages: Any, said: str) -> None:
    path, marker = pages[name]
    link = one.page.locator(f'[data-testid="stSidebarNavLink"][href$="{path}"]')
    one.time(f"{name}: {said}", link.first.click, f"Boolean({marker})", limit=LATER_MS)


def _again(one: Tab, name: str, repeats: int, marker: str) -> None:
    """Load the view that the tab shows anew: the alternative to all that was done on it."""
    address = one.page.url.removeprefix(one.server.url)
    for _ in range(max(3, repeats // 4)):
        one.times.add(f"{name}: instead: its address loaded anew", FRESH_MS, one.go(address, marker))


def print_times(found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line for everything that was timed."""
    for name, one in found.items():
        mark = f"  over {one['limit']:.0f}" if one["p95"] > one["limit"] else ""
        print(
            f"{name:52} {one['p50']:6.0f} {one['p95']:6.0f} {one['most']:6.0f} {one['times']:5.0f} "
            f"{one['server_cpu']:6.0f} {one['page_cpu']:6.0f}{mark}",
            flush=True,
        )


def print_end(found: dict[str, Any]) -> None:
    """Print what is known at the end: memory, load, how many are over their limits."""
    print("server, page: the CPU that it took, so that a busy machine can be told from slow pages")
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in found["first_paint_over_bare"].items())
    print(f"first paint, times that of a bare Streamlit page: {ratios}")
    said = ", ".join(f"{name} {value:.0f}" for name, value in found["memory_mb"].items())
    print(f"memory of the server, MB: {said}\nload before and after: {found['load']}")
    print(f"over their limits: {len(found['over'])} of {len(found['times_ms'])}")
