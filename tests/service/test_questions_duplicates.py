"""Near-duplicates: found through MinHash, measured exactly, quick on thousands from one template."""

import random
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz

from service.questions.duplicates import NearIndex, comparable, compare_members
from service.questions.question import make_question
from service.questions.store import Member

LONG = "A farmer has seventeen sheep, and all but nine of them run away over the hill. How many remain?"


def members(*rows: tuple[str, str]) -> list[Member]:
    return [Member(position, make_question(text, answer)) for position, (text, answer) in enumerate(rows)]


def test_blanks_and_case_make_no_difference() -> None:
    index = NearIndex()
    index.add(4, "Evaluate $\\log_8 2$.")
    match = index.nearest("evaluate  $\\log_82$.")
    assert match is not None
    assert (match.key, match.ratio, match.same_digits) == (4, 100.0, True)


def test_other_texts_do_not_match_and_a_lookup_adds_nothing() -> None:
    index = NearIndex()
    assert index.nearest(LONG) is None
    assert index.nearest(LONG) is None
    index.add(0, LONG)
    assert index.nearest("What is the capital of the moon?") is None


def test_the_ratio_is_that_of_rapidfuzz_and_digits_tell_problems_apart() -> None:
    first, second = "Find the sum of 12 and 34, please.", "Find the sum of 12 and 35, please."
    index = NearIndex()
    index.add(0, first)
    match = index.nearest(second)
    assert match is not None
    assert match.ratio == fuzz.ratio(comparable(first), comparable(second))
    assert not match.same_digits


def test_a_match_with_the_same_digits_goes_before_a_closer_one_with_others() -> None:
    index = NearIndex()
    index.add(0, LONG + " Give 3 facts.")
    index.add(1, LONG.replace("farmer", "farmer's son") + " Give 2 facts.")
    match = index.nearest(LONG + " Give 2 facts.")
    assert match is not None
    assert (match.key, match.same_digits) == (1, True)


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1, max_size=300))
def test_a_text_always_finds_itself(text: str) -> None:
    index = NearIndex()
    index.add(0, text)
    match = index.nearest(text)
    assert match is not None
    assert match.ratio == 100.0


def test_one_changed_word_in_long_texts_is_nearly_always_found() -> None:
    rng = random.Random(3)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(3000)]
    found = 0
    index = NearIndex()
    for key in range(200):
        text = rng.choices(words, k=40)
        index.add(key, " ".join(text))
        text[rng.randrange(40)] = rng.choice(words)
        match = index.nearest(" ".join(text))
        found += match is not None and match.key == key
    assert found >= 198


@pytest.mark.slow
def test_thousands_from_one_template_take_seconds() -> None:
    index = NearIndex()
    start = time.process_time()
    for key in range(3000):
        index.add(key, f"Tom buys {key} apples at {key % 7} dollars each. How much does he pay in all?")
    assert time.process_time() - start < 10


def test_look_alikes_are_sorted_by_what_they_mean() -> None:
    question = "If $x+y=12$ and $x-y=6$, what is the value of $x$?"
    likeness = compare_members(
        members(
            (question, "9"),
            ("If  $x+y=12$ and $x - y = 6$, what is the value of $x$ ?", "9"),
            ("If $x+y=12$  and $x-y=6$, what is the value of $x$?", "8"),
            ("If $x+y=12$ and $x-y=6$, what is the value of $y$?", "3"),
            ("If $x+y=14$ and $x-y=6$, what is the value of $x$?", "10"),
            ("Name a prime number above one hundred.", "101"),
        ),
        lambda pairs: [first == second for first, second in pairs],
    )
    assert [(pair.row, pair.earlier) for pair in likeness.near_duplicates] == [(1, 0)]
    assert [(pair.row, pair.earlier) for pair in likeness.conflicts] == [(2, 0)]
    assert [pair.row for pair in likeness.look_alikes] == [3, 4]
