"""A tab of the browser that times what is done in it.

Times are taken inside the page, from the event that the browser hands to it to the last change on the screen:
the script has run, nothing loads, charts and tables have their pictures, what the action is to change has
changed, and for 200 ms (which are not counted) nothing else did. So they include the way to the server and
all drawing, but not the time of the program that presses the keys.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
