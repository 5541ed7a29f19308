"""How long the pages take in a browser: from the key or the click to the last change on the screen.

How times are taken stands in `tab.py`. Of a page that is opened both are told: when its title and something
to read or use are on the screen (*paint*), and when all of it is. A fresh page counts from the navigation, in
a tab without cookies or cache.

Beside every page stands its named alternative, loading the address of the view anew; beside fresh pages, a
bare Streamlit page with a number, a chart and a table of 60 rows (`BARE_PAGE`): what the framework takes.
"""

import os
import random
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from page_view import FLAGS, chromium, tagrpo_ui

from benchmarks.pages.tab import WAIT_MS, Tab, Times, serving

FRESH_MS, LATER_MS = 2500.0, 500.0
BARE = "a bare Streamlit page, fresh"
BARE_PAGE = """import streamlit as st
rows = [{"step": step, "value": step % 7} for step in range(60)]
axes = {name: {"field": name, "type": "quantitative"} for name in rows[0]}
st.title("Bare")
st.metric("rows", len(rows))
st.vega_lite_chart(rows, {"mark": "line", "encoding": {"x": axes["step"], "y": axes["value"]}})
st.dataframe(rows)
"""
VIEWPORT = {"width": 1280, "height": 900}


def measure_browser(database: Path, *, repeats: int, pages: Sequence[str]) -> dict[str, Any]:
    """Time fresh pages, later ones and what is done on each page; return milliseconds and memory.

    Decisions of the review page are added to the database, by a reviewer of a new name.
    """
    from playwright.sync_api import sync_playwright

    from benchmarks.pages.interactions import PAGES, ROUNDS, START

    binary = chromium()
    if binary is None:
        raise SystemExit("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    times, memory, printed = Times(), {}, set[str]()
    columns = f"{'p50':>6} {'p95':>6} {'most':>6} {'paint p50':>9} {'p95':>6} {'times':>5} {'server':>6}"
    print(f"{'in the browser (ms)':46} {columns} {'page':>6}")
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
        "fresh_over_bare": {
            name: round(found[_fresh(name)]["p50"] / bare, 2) for name in pages if _fresh(name) in found
        },
        "over": [name for name, one in found.items() if one["p95"] > one["limit"]],
        "paint_over": [name for name, one in found.items() if (one["paint_p95"] or 0) > one["limit"]],
        "memory_mb": memory,
        "load": [round(before, 2), round(os.getloadavg()[0], 2)],
        "repeats": repeats,
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _bare(browser: Any, times: Times, repeats: int) -> None:
    """Time the bare page, each in a tab without cookies or cache."""
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

    The first time in a tab, the browser loads what the page needs, so that time is taken separately.
    """
    one = tab()
    taken = one.go(*pages[name])
    said = "server: its first request" if first else _fresh(name)
    one.times.add(said, FRESH_MS, taken)
    one.page.context.close()
    one, other = tab(), "sets" if name == "overview" else "overview"
    one.go(*pages[other])
    _follow(one, name, pages, "later page, first time in the tab")
    _follow(one, other, pages, "later page, again")
    _follow(one, name, pages, "later page, again")
    one.page.context.close()


def _fresh(name: str) -> str:
    return f"{name}: fresh"


def _follow(one: Tab, name: str, pages: Any, said: str) -> None:
    path, marker = pages[name]
    link = one.page.locator(f'[data-testid="stSidebarNavLink"][href$="{path}"]')
    one.time(f"{name}: {said}", link.first.click, f"Boolean({marker})", limit=LATER_MS)


def _again(one: Tab, name: str, repeats: int, marker: str) -> None:
    """Load the view that the tab shows anew: the alternative to all that was done on it."""
    address = one.page.url.removeprefix(one.server.url)
    for _ in range(max(3, repeats // 4)):
        one.times.add(f"{name}: instead: its address loaded anew", FRESH_MS, one.go(address, marker))


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
    """Print what is known at the end: memory, load, how many are over their limits."""
    print("paint: title and something to read or use; server, page: the CPU that it took, so that a busy")
    print("machine can be told from slow pages")
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in found["fresh_over_bare"].items())
    print(f"fresh pages, times a bare Streamlit page: {ratios}")
    said = ", ".join(f"{name} {value:.0f}" for name, value in found["memory_mb"].items())
    print(f"memory of the server, MB: {said}\nload before and after: {found['load']}")
    print(f"over their limits: {len(found['over'])} of {len(found['times_ms'])}; ", end="")
    print(f"painted later than their limits: {len(found['paint_over'])}")
