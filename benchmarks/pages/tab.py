"""A tab of the browser that takes times, and the server whose pages it shows.

Times are taken inside the page, from the event that the browser hands to it to the frame after the last
change: the script has run, nothing loads, charts and tables have their pictures, what the action is to change
has changed, and for 200 ms (which are not counted) nothing else did. So they hold the way to the server and
back and all drawing, and not the time of the program that presses the keys.
"""

import math
import os
import random
import shlex
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACTION_MS = 500.0
WAIT_MS = 30_000

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

PAINTED = """(() => {
  const title = document.querySelector('[data-testid="stMain"] h1');
  if (!title) return "";
  const kinds = ["stMetric", "stCaptionContainer", "stMarkdown", "stSelectbox", "stTextInput", "stRadio",
    "stButtonGroup", "stVegaLiteChart", "stBidiComponentIsolated"].map((one) => `[data-testid="${one}"]`);
  const there = [...document.querySelectorAll(kinds)].some((one) =>
    title.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING
    && !one.closest('[data-stale="true"], [data-testid="stLayoutWrapper"]:has(h1)')
    && one.checkVisibility() && one.getBoundingClientRect().height > 0);
  return there ? title.textContent : "";
})()"""
"""The title of the page that is shown, once something to read or use stands below it; "" before that."""

_WATCH = """(() => {
  const read = () => { try { return String(%(content)s); } catch { return ""; } };
  const drawn = () => %(drawn)s;
  const timer = { before: %(fresh)s ? "false" : read(), start: %(fresh)s ? 0 : null, end: null, last: 0,
    title: %(fresh)s ? "" : (%(painted)s), painted: null, frame: false };
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
    if (timer.frame) timer.painted ??= now; // the frame before has been drawn
    if (timer.start !== null && ![timer.title, ""].includes(%(painted)s)) timer.frame = true;
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

QUIET_MS = 200
"""Nothing may change for so long before an action counts as ended."""


@dataclass(frozen=True)
class Taken:
    """Milliseconds of one action: until the last change on the screen; of the server's CPU; of the page's.

    `paint` is when another page's title and something below it were on the screen; None on the same page.
    """

    wall: float
    server: float
    page: float
    paint: float | None = None


def _p95(ordered: Sequence[float]) -> int:
    return round(ordered[math.ceil(0.95 * len(ordered)) - 1])


@dataclass
class Times:
    """What was taken by what was done, in the order in which it was first done, and the limits of `wall`."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, limit: float, taken: Taken) -> None:
        self.taken.setdefault(name, []).append(taken)
        self.limits[name] = limit

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return p50, p95, the slowest and the number of times, and the means of CPU, by name."""
        found = {}
        for name, taken in self.taken.items():
            ordered = sorted(one.wall for one in taken)
            painted = sorted(one.paint for one in taken if one.paint is not None)
            found[name] = {
                "p50": round(statistics.median(ordered)),
                "p95": _p95(ordered),
                "paint_p50": round(statistics.median(painted)) if painted else None,
                "paint_p95": _p95(painted) if painted else None,
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
        said = {"content": content, "drawn": DRAWN, "roots": ROOTS, "quiet": QUIET_MS, "painted": PAINTED}
        said["fresh"] = "true" if fresh else "false"
        self.page.evaluate(_WATCH % said)

    def _ended(self, name: str, before: tuple[float, float]) -> Taken:
        try:
            self.page.wait_for_function("() => window.tagrpoTimer.end", timeout=WAIT_MS)
        except Exception as error:
            raise RuntimeError(f"{name}: did not come about within {WAIT_MS / 1000:g} s") from error
        start, end, painted = self.page.evaluate(
            "() => [window.tagrpoTimer.start, window.tagrpoTimer.end, window.tagrpoTimer.painted]"
        )
        server, page = (now - then for now, then in zip(self.cpu(), before, strict=True))
        return Taken(end - start, server, page, None if painted is None else painted - start)


@dataclass(frozen=True)
class Server:
    """A running `tagrpo ui`."""

    url: str
    process: int

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
