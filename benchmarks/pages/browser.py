"""How long the pages take in a browser: from the key or the click to the last change on the screen.

How times are taken stands in `tab.py`. Of a page that is opened both are told: when its title and something
to read or use are on the screen (*paint*), and when all of it is. A fresh page counts from the navigation, in
a tab without cookies or cache.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

from benchmarks.pages.tab import WAIT_MS, Tab, Times, serving

FRESH_MS, LATER_MS = 2500.0, 500.0
VIEWPORT = {"width": 1280, "height": 900}


def measure_browser(database: Path, *, repeats: int, pages: Sequence[str]) -> dict[str, Any]:
    """Time fresh pages, later ones and what is done on each page; return milliseconds.

    Decisions of the review page are added to the database, by a reviewer of a new name.
    """
    from playwright.sync_api import sync_playwright

    from benchmarks.pages.interactions import PAGES, ROUNDS, START

    binary = chromium()
    if binary is None:
        raise SystemExit("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    times, printed = Times(), set[str]()
    columns = f"{'p50':>6} {'p95':>6} {'most':>6} {'paint p50':>9} {'p95':>6} {'times':>5} {'server':>6}"
    print(f"{'in the browser (ms)':46} {columns} {'page':>6}")
    with serving(tagrpo_ui(database, "--review")) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))

        def tab() -> Tab:
            page = browser.new_context(viewport=VIEWPORT).new_page()
            page.set_default_timeout(WAIT_MS)
            return Tab(page, server, times, random.Random(7))

        for name in pages:
            for number in range(repeats):
                _visit(tab, name, PAGES, first=name == pages[0] and number == 0)
            one = tab()
            path, marker = PAGES[name]
            one.go(START.get(name, path).format(reviewer=f"browser-{os.getpid()}"), marker)
            for _ in range(repeats):
                ROUNDS[name](one)
            one.page.context.close()
            print_times({key: value for key, value in times.summary().items() if key not in printed})
            printed |= set(times.taken)
        browser.close()
    found = times.summary()
    return {
        "times_ms": found,
        "over": [name for name, one in found.items() if one["p95"] > one["limit"]],
        "paint_over": [name for name, one in found.items() if (one["paint_p95"] or 0) > one["limit"]],
        "repeats": repeats,
    }


def _visit(tab: Callable[[], Tab], name: str, pages: Any, *, first: bool) -> None:
    """Open a page in a new tab; in others, go to it by the link at the side, away, and back.

    The first time in a tab, the browser loads what the page needs, so that time is taken separately.
    """
    one = tab()
    taken = one.go(*pages[name])
    said = "server: its first request" if first else f"{name}: fresh"
    one.times.add(said, FRESH_MS, taken)
    one.page.context.close()
    one, other = tab(), "sets" if name == "overview" else "overview"
    one.go(*pages[other])
    _follow(one, name, pages, "later page, first time in the tab")
    _follow(one, other, pages, "later page, again")
    _follow(one, name, pages, "later page, again")
    one.page.context.close()


def _follow(one: Tab, name: str, pages: Any, said: str) -> None:
    path, marker = pages[name]
    link = one.page.locator(f'[data-testid="stSidebarNavLink"][href$="{path}"]')
    one.time(f"{name}: {said}", link.first.click, f"Boolean({marker})", limit=LATER_MS)


def print_times(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line for everything that was timed."""
    for name, one in found.items():
        over = f"  over {one['limit']:.0f}" if one["p95"] > one["limit"] else ""
        paint = f"{one['paint_p50']:9.0f} {one['paint_p95']:6.0f}" if one["paint_p50"] else " " * 16
        print(
            f"{name:46} {one['p50']:6.0f} {one['p95']:6.0f} {one['most']:6.0f} {paint} {one['times']:5.0f} "
            f"{one['server_cpu']:6.0f} {one['page_cpu']:6.0f}{over}",
            flush=True,
        )


def print_end(found: dict[str, Any]) -> None:
    """Print how many are over their limits."""
    print("paint: title and something to read or use; server, page: the CPU that it took, so that a busy")
    print("machine can be told from slow pages")
    print(f"over their limits: {len(found['over'])} of {len(found['times_ms'])}; ", end="")
    print(f"painted later than their limits: {len(found['paint_over'])}")
