"""The review queue under fast fingers: each key reaches the item that was on the screen, and none is lost."""

import pytest
from page_view import served, tagrpo_ui
from runs import Proposed, add_run, open_empty
from world_runs import rows

from rephraser.reviews.audit import open_audit

ITEMS = 80
PRESS_MS = 50

# Notes what a reader sees when a key goes down, without help of the queue: the neighbor's text on the screen.
EYES = r"""() => {
    window.seen = [];
    const shown = () => [...document.querySelectorAll('[class*="st-key-review-slot-"]')]
        .filter(slot => slot.offsetParent !== null)
        .map(slot => (slot.innerText.match(/Wording (\d+)\b/) || [])[1]);
    window.addEventListener('keydown', event => window.seen.push([event.key, shown()]), true);
}"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A question with formulas for each item, whose neighbor says its number. Each test has own reviewers."""
    path = tmp_path_factory.mktemp("keys") / "t.db"
    question = "Let $x_{{{n}}} = \\frac{{{n}}}{{7}}$ and $y = \\sqrt{{{n} + x^2}}$. Find $7x + {n}$."
    wording = "Wording {n} of it: what is $7x + {n}$ if $x = \\frac{{{n}}}{{7}}$?"
    verdicts = ["accepted" if n % 3 else "rejected" for n in range(ITEMS)]
    asked = [
        (question.format(n=n), str(2 * n), [Proposed(wording.format(n=n), (verdict,))])
        for n, verdict in enumerate(verdicts)
    ]
    db = open_empty(path)
    run = add_run(db, "fast", asked)
    open_audit(db, run, size=40, seed=1)
    db.close()
    return path


@pytest.fixture(scope="module")
def url(database):
    with served(tagrpo_ui(database, "--review")) as address:
        yield address


def decisions(path, *reviewers):
    """Return (number of the wording, reviewer, decision, reason) of some reviewers, the oldest first."""
    query = (
        "SELECT c.text, r.reviewer, r.decision, r.reason FROM reviews r "
        "JOIN candidates c ON c.id = r.candidate_id ORDER BY r.id"
    )
    return [(row[0].split()[1], *row[1:]) for row in rows(path, query) if row[1] in reviewers]


def queue(view_of, url, reviewer, **more):
    options = "".join(f"&{name}={value}" for name, value in more.items())
    view = view_of(url).open(f"/review?run=fast&reviewer={reviewer}{options}")
    view.tab.get_by_text("Accept", exact=True).wait_for()
    view.until("() => document.documentElement.dataset.reviewReady === '1'")
    view.tab.evaluate(EYES)
    return view


def press(view, letters, pause=PRESS_MS):
    for letter in letters:
        view.tab.keyboard.press(letter)
        view.tab.wait_for_timeout(pause)


def until_quiet(view):
    """Wait until the server has acknowledged every key."""
    view.tab.locator(".bar[data-waiting='0']").wait_for()
    view.settle()


def test_twenty_keys_a_second_are_all_stored_for_what_was_on_the_screen(url, view_of, database):
    view = queue(view_of, url, "ada", verdict="accepted")
    letters = ("aadamxalba" * 6)[:50]
    press(view, letters)
    until_quiet(view)
    seen = view.tab.evaluate("window.seen")
    assert [key for key, _ in seen] == list(letters)
    assert all(len(shown) == 1 for _, shown in seen), seen
    stored = decisions(database, "ada")
    expected = [(shown[0], "accepted" if key == "a" else "rejected") for key, shown in seen]
    assert [(number, decision) for number, _, decision, _ in stored] == expected
    assert len({number for number, *_ in stored}) == len(letters)
    assert {reason for *_, decision, reason in stored if decision == "accepted"} == {""}
    view.check()


def test_keys_decide_once_a_name_was_entered(url, view_of, database):
    view = view_of(url).open("/review?run=fast")
    view.tab.get_by_placeholder("your name").fill("ida")
    view.tab.keyboard.press("Enter")
    view.until("() => document.documentElement.dataset.reviewReady === '1'")
    view.until("() => document.activeElement.tagName !== 'INPUT'")
    press(view, "ad")
    until_quiet(view)
    assert [decision for _, _, decision, _ in decisions(database, "ida")] == ["accepted", "rejected"]
    name = view.tab.get_by_placeholder("your name")
    name.fill("jo")  # another one takes over, in the same tab
    name.press("Enter")
    view.until("() => document.activeElement.tagName !== 'INPUT'")
    view.tab.get_by_text("0 of 80 decided by jo").wait_for()
    view.settle()
    press(view, "a")
    until_quiet(view)
    assert len(decisions(database, "jo")) == 1
    assert len(decisions(database, "ida")) == 2
    view.check()


def test_undo_skip_and_reasons_in_words(url, view_of, database):
    view = queue(view_of, url, "bea")
    press(view, "asd")
    until_quiet(view)
    press(view, "u")
    until_quiet(view)
    assert "Undone: you had rejected this one." in view.tab.locator(".says").inner_text()
    assert "1 of 80 decided by bea; in this session: 1 accepted, 0 rejected, 1 skipped" in view.text()
    press(view, "w")
    view.tab.get_by_label("Reason for the rejection").fill("another unknown, so a u and an a are no keys")
    view.tab.keyboard.press("Enter")
    until_quiet(view)
    seen = [shown[0] for _, shown in view.tab.evaluate("window.seen")]
    stored = decisions(database, "bea")
    decided = [(number, decision) for number, _, decision, _ in stored]
    assert decided == [(seen[0], "accepted"), (seen[2], "rejected"), (seen[2], "rejected")]
    assert stored[2][3] == "another unknown, so a u and an a are no keys"
    assert "2 of 80 decided by bea; in this session: 1 accepted, 1 rejected, 1 skipped" in view.text()
    press(view, "n")
    view.tab.get_by_label("Comment on accepting").fill("shorter, and as clear")
    view.tab.keyboard.press("Enter")
    until_quiet(view)
    assert decisions(database, "bea")[3][2:] == ("accepted", "shorter, and as clear")
    view.check()


def test_held_keys_shortcuts_and_other_letters_decide_nothing(url, view_of, database):
    view = queue(view_of, url, "cleo")
    view.tab.keyboard.press("Control+a")
    view.tab.keyboard.press("q")
    view.tab.keyboard.down("a")
    for _ in range(5):
        view.tab.keyboard.down("a")  # as a keyboard repeats a key that is held
    view.tab.keyboard.up("a")
    until_quiet(view)
    assert len(decisions(database, "cleo")) == 1
    view.check()


def test_two_reviewers_at_a_time_do_not_disturb_each_other(url, view_of, database):
    dora, emil = queue(view_of, url, "dora"), queue(view_of, url, "emil")
    for place in range(20):
        press(dora, "a", pause=25)
        press(emil, "d" if place % 2 else "a", pause=25)
    until_quiet(dora)
    until_quiet(emil)
    for view, name in ((dora, "dora"), (emil, "emil")):
        seen = [
            (shown[0], name, "accepted" if key == "a" else "rejected")
            for key, shown in view.tab.evaluate("window.seen")
        ]
        assert [row[:3] for row in decisions(database, name)] == seen
        assert len(seen) == 20
        view.check()


def test_a_reload_goes_on_where_the_reviewer_was(url, view_of, database):
    view = queue(view_of, url, "finn")
    press(view, "aaa")
    until_quiet(view)
    first = [shown[0] for _, shown in view.tab.evaluate("window.seen")]
    view.tab.reload()
    view.settle()
    view.tab.get_by_text("1 of 77").wait_for()
    assert "3 of 80 decided by finn" in view.text()
    view.until("() => document.documentElement.dataset.reviewReady === '1'")
    view.tab.evaluate(EYES)
    press(view, "a")
    until_quiet(view)
    ((_, shown),) = view.tab.evaluate("window.seen")
    assert shown[0] not in first
    view.check()


def test_without_review_the_queue_is_looked_through_and_nothing_is_written(database, view_of):
    before = database.read_bytes()
    with served(tagrpo_ui(database)) as address:
        view = view_of(address).open("/review?run=fast")
        view.tab.get_by_text("Next", exact=True).wait_for()
        assert f"tagrpo ui --review --db {database}" in view.text()
        assert view.tab.get_by_text("Accept", exact=True).count() == 0
        view.until("() => document.documentElement.dataset.reviewReady === '1'")
        view.tab.evaluate(EYES)
        press(view, "sasus")
        until_quiet(view)
        shown = [one[0] for _, one in view.tab.evaluate("window.seen")]
        assert shown[1] == shown[2] == shown[4]
        assert len(set(shown)) == 3
        view.check()
    assert database.read_bytes() == before
