"""What is done on each page in a browser, round by round at random places: searches, pages, choices, keys."""

import re
from collections.abc import Callable
from typing import Any

from benchmarks.pages.database import TRAININGS, WORDS
from benchmarks.pages.tab import URL, WAIT_MS, Tab

LINES = """[...document.querySelectorAll('[data-testid="stVegaLiteChart"] .mark-line path')].map(
  (one) => one.getAttribute("d")).join()"""
METRICS = """[...document.querySelectorAll(".numbers")].map((one) => one.textContent).join()"""
QUESTIONS = """document.querySelectorAll('[class*="st-key-question-row-"]').length"""
SETTINGS = """document.querySelector('[data-testid="stJson"]')?.textContent"""
_BAR = """[...document.querySelectorAll(".st-key-review-keys *")].map(
  (one) => one.shadowRoot?.querySelector(".bar")).find(Boolean)"""
STORED = f"(() => {{ const bar = {_BAR}; return Number(bar.dataset.at) - Number(bar.dataset.waiting); }})()"
REVIEWED = """[...document.querySelectorAll('[class*="st-key-review-slot-c"]')].filter(
  (one) => one.checkVisibility()).map((one) => one.className).join()"""


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


def _overview(tab: Tab) -> None:
    _press(tab, "overview: runs of a kind", "radio", tab.chance.choice(("neighbors", "eval", "training")))
    _press(tab, "overview: all runs", "radio", "all")
    _click_row(tab, "overview: a run's settings", 1, tab.chance.randrange(8), SETTINGS)


def _questions(tab: Tab) -> None:
    _search(tab, "questions: search, frequent word", tab.chance.choice(WORDS))
    _search(tab, "questions: search, rare formula", f"{tab.chance.randint(100, 999)}x +")
    _search(tab, "questions: search cleared", "")
    _choose(tab, "questions: a verdict", "Verdict", tab.chance.choice(("accepted", "undecided", "rejected")))
    for _ in range(2):
        _press(tab, "questions: next page", "button", "Next")
    _press(tab, "questions: previous page", "button", "Previous")
    opens = tab.page.locator("[class*=st-key-open-] button")
    tab.time("questions: open one", opens.nth(tab.chance.randrange(opens.count())).click)
    _press(tab, "question: numbers of a neighbor", "button", "Numbers")
    _press(tab, "question: prompt and model answer", "button", "Prompt and model answer")
    shown = tab.page.get_by_role("radio", name="accepted", exact=True).get_attribute("aria-checked")
    _press(tab, "question: neighbors of a verdict", "radio", "all" if shown == "true" else "accepted")
    tab.time("question: back by the browser", lambda: _back(tab))
    _press(tab, "question: all questions", "button", "All questions")
    _choose(tab, "questions: any verdict", "Verdict", "any verdict")


def _review(tab: Tab) -> None:
    key = tab.chance.choice("ADS")
    tab.time("review: next item by key", lambda: tab.page.keyboard.press(key), REVIEWED)
    tab.settle(f"{_BAR}.dataset.waiting === '0'")
    tab.time("review: decision stored", lambda: tab.page.keyboard.press("a"), STORED)
    tab.time("review: undo", lambda: tab.page.keyboard.press("u"), STORED)
    _press(tab, "review: results", "radio", "Results")
    _press(tab, "review: back to the queue", "radio", "Queue")
    tab.settle(f"{REVIEWED} !== '' && {_BAR}.dataset.waiting === '0'")


def _sets(tab: Tab) -> None:
    _press(tab, "sets: what changed", "radio", "Changes")
    _press(tab, "sets: changed ones", "radio", re.compile("^changed"))
    _press(tab, "sets: next changes", "button", "Next")
    _press(tab, "sets: added ones", "radio", re.compile("^added"))
    _click_row(tab, "sets: compare a neighbor", 1, tab.chance.randrange(8), URL)
    _press(tab, "sets: statistics", "radio", "Statistics")
    _choose(tab, "sets: another version", "Version", "math-ta@2")
    _choose(tab, "sets: the newest version", "Version", "math-ta@3")


def _rollouts(tab: Tab) -> None:
    _choose(
        tab,
        "rollouts: another run",
        "Training run",
        _another(tab, "Training run", [f"{name}  (" for name in TRAININGS]),
        exact=False,
    )
    # The list of choices draws only what it shows: further ones cannot be clicked without scrolling it.
    _choose(tab, "rollouts: a step", "Step", _another(tab, "Step", [f"step {n}" for n in range(1, 6)]))
    _press(tab, "rollouts: groups of a kind", "radio", "mixed")
    _press(tab, "rollouts: next groups", "button", "Next")
    _click_row(tab, "rollouts: open a group", 0, tab.chance.randrange(8), URL)
    tab.settle("document.querySelector('.st-key-group-back')")
    responses = tab.page.locator(".table tbody tr")
    tab.time("rollouts: read a response", responses.nth(tab.chance.randrange(8)).click)
    _press(tab, "rollouts: next group", "button", "Next group")
    _press(tab, "rollouts: all groups", "button", "All groups")


def _signal(tab: Tab) -> None:
    _choose(tab, "signal: averaged", "Average over", "5 steps", content=LINES)
    _choose(tab, "signal: every step", "Average over", "a step", content=LINES)
    _press(tab, "signal: all right", "radio", re.compile("^all right"), content=LINES)
    _press(tab, "signal: either", "radio", "either", content=LINES)
    _press(tab, "signal: policy", "radio", "Policy", content=LINES)
    _press(tab, "signal: anchor", "radio", "Anchor", content=LINES)
    _press(tab, "signal: covariance", "radio", "Covariance", content=LINES)
    _press(tab, "signal: zero gradient", "radio", "Zero gradient", content=LINES)


def _curves(tab: Tab) -> None:
    _choose(tab, "curves: another k", "k", _another(tab, "k", ["2", "4", "8", "16", "64", "128"]))
    _choose(tab, "curves: another benchmark", "Benchmark", "math500")
    _press(tab, "curves: problems of all", "radio", "all:", exact=False)
    _click_row(tab, "curves: responses to a problem", 0, tab.chance.randrange(8), URL)
    _choose(tab, "curves: the first benchmark", "Benchmark", "aime")
    for view in ("Differences", "Table", "Cost", "Curves"):
        _press(tab, f"curves: {view.lower()}", "radio", view)


ROUNDS: dict[str, Callable[[Tab], None]] = {
    "overview": _overview,
    "questions": _questions,
    "review": _review,
    "sets": _sets,
    "rollouts": _rollouts,
    "signal": _signal,
    "curves": _curves,
}
"""By page: one round of what is done there, which ends where it began."""

START: dict[str, str] = {"review": "/review?reviewer={reviewer}"}
"""The addresses where rounds begin, where they are not those of the pages."""


def _press(
    tab: Tab, name: str, role: str, label: str | re.Pattern[str], *, exact: bool = True, content: str = URL
) -> None:
    """Click a button or one of several choices."""
    tab.time(name, tab.page.get_by_role(role, name=label, exact=exact).first.click, content)


def _search(tab: Tab, name: str, words: str) -> None:
    field = tab.page.get_by_label("Search", exact=True)
    field.fill(words)
    tab.time(name, lambda: field.press("Enter"))


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


def _click_row(tab: Tab, name: str, table: int, row: int, content: str) -> None:
    """Click a table's row, behind its first cell."""
    rows = tab.page.locator(".table table").filter(visible=True).nth(table).locator("tbody tr")
    tab.time(name, rows.nth(row).locator("td").nth(1).click, content)


def _back(tab: Tab) -> None:
    tab.page.evaluate("() => { window.tagrpoTimer.start = performance.now(); history.back(); }")
