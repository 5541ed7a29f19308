"""The queue of the page Review: which decisions keys become, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.pages.review.keys import REVIEW_KEYS, Event, Queue, read_events

ORDER = ["c_1", "c_2", "c_3"]


def make(order=ORDER, keys=REVIEW_KEYS, audit_id=None):
    return Queue(list(order), "ada", audit_id, keys)


def test_a_key_on_another_item_is_refused_with_all_behind_it():
    queue, stored = make(), []
    queue.handle_keys(
        "tab", [Event(1, "c_2", "A"), Event(2, "c_1", "A"), Event(3, "c_1", "D")], stored.extend
    )
    assert (stored, queue.at, queue.refused, queue.heard) == ([], 0, 3, {"tab": 3})
    queue.handle_keys("tab", [Event(4, "c_1", "Q"), Event(5, "c_1", "A")], stored.extend)
    assert (stored, queue.refused) == ([], 5)
    queue.handle_keys("tab", [Event(6, "c_1", "A")], stored.extend)
    assert [one.decision for one in stored] == ["accepted"]


def test_a_failed_write_leaves_everything_to_be_heard_again():
    queue, stored = make(), []

    def fail(_decisions):
        raise OSError("disk full")

    with pytest.raises(OSError):
        queue.handle_keys("tab", [Event(1, "c_1", "A")], fail)
    assert (queue.at, queue.marks, queue.heard) == (0, {}, {})
    queue.handle_keys("tab", [Event(1, "c_1", "A")], stored.extend)
    assert len(stored) == 1


def test_what_a_browser_sends_is_read_with_care():
    events = [{"seq": 1, "item": "c_1", "letter": "A"}, {"seq": 2.0, "item": "", "letter": "W", "words": "x"}]
    assert read_events({"client": "t", "events": events}) == (
        "t",
        [Event(1, "c_1", "A"), Event(2, "", "W", "x")],
    )
    for value in (None, [], {"client": 3, "events": []}, {"client": "t"}, {"client": "", "events": events}):
        assert read_events(value) == ("", [])
    bad = [None, {"seq": True}, {"seq": 1.5}, {"seq": float("inf")}, {"seq": 1, "item": 3}, {"seq": "1"}]
    assert read_events({"client": "t", "events": bad}) == ("t", [])


@given(pressed=st.lists(st.sampled_from("ADSU"), max_size=30), cuts=st.lists(st.integers(0, 30), max_size=6))
def test_however_keys_are_bundled_and_repeated_the_result_is_the_same(pressed, cuts):
    """A browser plays keys on its own place; the queue gets them in bundles, some sent again."""
    order = [f"c_{n}" for n in range(12)]
    at, events = 0, []
    for letter in pressed:
        if (letter == "U" and at == 0) or (letter != "U" and at == len(order)):
            continue
        events.append(Event(len(events) + 1, order[at] if at < len(order) else "", letter))
        at += -1 if letter == "U" else 1
    at_once, bundled = make(order), make(order)
    first, second = [], []
    at_once.handle_keys("tab", events, first.extend)
    sent = 0
    for cut in [*sorted(min(cut, len(events)) for cut in cuts), len(events)]:
        bundled.handle_keys("tab", events[max(0, sent - 3) : cut], second.extend)
        sent = cut
    assert first == second
    assert (at_once.at, at_once.marks, at_once.refused) == (bundled.at, bundled.marks, 0)
    assert bundled.refused == 0
    assert at_once.at == at
