"""Word-level differences: what was kept, dropped, added and moved, and how it is marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.characters import visible
from ui.pages.text.differences import compare, mark_differences

ORIGINAL = "Ada has $3$ apples and buys 4 more. How many apples does she have now?"


def changes(stretches):
    return [(stretch.change, "".join(word.text for word in stretch.words).strip()) for stretch in stretches]


def test_case_is_no_difference_words_and_formulas_are_and_a_sentence_may_move():
    difference = compare(ORIGINAL, ORIGINAL.replace("Ada", "ADA"))
    assert changes(difference.original) == [("kept", ORIGINAL)]
    assert {stretch.change for stretch in difference.neighbor} == {"kept"}
    difference = compare(ORIGINAL, ORIGINAL.replace("$3$", "$7$").replace("more.", "more pears."))
    differing = [[pair for pair in changes(side) if pair[0] != "kept"] for side in difference]
    assert differing == [
        [("dropped", "$3$"), ("dropped", "more.")],
        [("added", "$7$"), ("added", "more pears.")],
    ]
    moved = "How many apples does she have now, if Ada has $3$ apples and buys 4 more."
    for side in compare("If Ada has $3$ apples and buys 4 more. How many apples does she have", moved):
        assert ("moved", "How many apples does she have") in changes(side)


def test_marks_stand_around_escaped_words():
    difference = compare("A 5 b", "A [6] b")
    assert mark_differences(difference.original) == "A :red-background[~~**5**~~] b"
    assert mark_differences(difference.neighbor) == "A :green-background[**\\[6\\]**] b"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("$[0,1)$", ":green-background[$$ \\lbrack 0,1) $$]"),
        ("$[0,1]$", ":green-background[$$ [0,1] $$]"),
        ("$\\sqrt[3]{x}$", ":green-background[$$ \\sqrt[3]{x} $$]"),
        ("$\\sqrt[3]{[x}$", "$$ \\sqrt[3]{[x} $$"),
    ],
)
def test_a_mark_ends_where_it_should(formula, expected):
    assert mark_differences(compare("", formula).neighbor) == expected


def test_very_long_texts_are_compared_as_a_whole():
    long = "word " * 5000
    assert [stretch.change for stretch in compare(long, long).neighbor] == ["kept"]
    assert [stretch.change for stretch in compare(long, long + "x").neighbor] == ["added"]


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_word_is_lost(original, neighbor):
    difference = compare(original, neighbor)
    for text, stretches in ((original, difference.original), (neighbor, difference.neighbor)):
        assert "".join(word.text for stretch in stretches for word in stretch.words) == visible(text)
    kept = [
        [w.same_as for s in side if s.change == "kept" for w in s.words]
        for side in (difference.original, difference.neighbor)
    ]
    assert kept[0] == kept[1]
