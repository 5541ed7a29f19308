"""Numbers in digits, words, fractions, percents and units."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rephraser.checks.numbers import check_numbers, number_facts, show
from rephraser.checks.reading.text import take_apart


def names(original: str, candidate: str, *, verbatim: bool = False) -> list[str]:
    before, after = number_facts(take_apart(original)), number_facts(take_apart(candidate))
    return [f.name for f in check_numbers(before, after, verbatim=verbatim)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,200 people", {1200}),
        ("twenty-one cats", {21}),
        ("one hundred and five", {105}),
        ("two thousand three hundred", {2300}),
        ("three million", {3_000_000}),
        ("2.5 million", {2_500_000}),
        ("3.0 liters", {3}),
        ("two-fifths of it", {Fraction(2, 5)}),
        ("2/5 of it", {Fraction(2, 5)}),
        ("1 1/2 cups", {Fraction(3, 2)}),
        ("two and a half cups", {Fraction(5, 2)}),
        ("half of them", {Fraction(1, 2)}),
        ("thrice a day", {3}),
        ("3 dozen eggs", {36}),
        ("a dozen eggs", {12}),
        ("the 54th digit", {54}),
        ("at 8:15 a.m.", {8, 15}),
        ("at 8:00 pm", {8}),
        ("twentyfold", {20}),
        ("COVID-19 and Apollo-11", set()),
        ("an apple and one pear", set()),
    ],
)
def test_stated_numbers(text: str, numbers: set[Fraction]) -> None:
    assert set(number_facts(take_apart(text)).stated) == numbers


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("He pays $5 and then $7.", "He pays five dollars and then \\$7."),
        ("It takes 30 minutes.", "It takes half an hour."),
        ("It takes 2 weeks.", "It takes 14 days."),
        ("It lasts 10 years.", "It lasts a decade."),
        ("60% of them left.", "3/5 of them left."),
        ("50% of them left.", "Half of them left."),
        ("$\\frac{2}{3}$ of them left.", "Two-thirds of them left."),
        ("She has twice as many.", "She has two times as many."),
        ("A fifth of them are red.", "One out of every five is red."),
        ("3 times fewer came.", "Only a third came."),
        ("12 cookies are baked.", "A dozen cookies are baked."),
        ("$80,\\!607$", "80607"),
        ("Two books cost 12.", "Both books cost 12."),
        (
            "At 8:00 and at 10:00 a train leaves.",
            "At 8:00 a train leaves, two hours later, at 10:00, another.",
        ),
        ("the 5th term", "the fifth term"),
        ("ten twenties", "ten $20 bills"),
        ("Two chords AB and CD meet.", "Chords AB and CD meet."),
    ],
)
def test_the_same_numbers_told_otherwise(original: str, candidate: str) -> None:
    assert names(original, candidate) == []


@pytest.mark.parametrize(
    ("original", "candidate", "finding"),
    [
        ("He pays $5.", "He pays $6.", "number_missing"),
        ("Two-fifths left.", "Two-thirds left.", "number_missing"),
        ("He runs 4 laps.", "He runs 4 laps of 55 feet.", "number_added"),
        ("It takes 3 weeks.", "It takes 3 weeks and 40 days.", "number_added"),
        ("the fifth term", "the sixth term", "number_missing"),
        ("The lower one is $-4$.", "The upper one is $4$.", "number_sign_changed"),
        ("Two circles touch.", "Three circles touch.", "number_missing"),
        ("three-digit numbers", "two-digit numbers", "number_missing"),
    ],
)
def test_changed_numbers(original: str, candidate: str, finding: str) -> None:
    assert finding in names(original, candidate)


def test_word_for_word_repetitions_are_counted() -> None:
    original, candidate = "sides 1, 2, 2, 4 and 2", "sides 2, 2, 2, 4 and 4"
    assert names(original, candidate) == []
    assert names("sides 3, 5 and 5", "sides 3, 3 and 5", verbatim=True) == ["number_missing"]


def test_numbers_are_shown_readably() -> None:
    assert [show(Fraction(n)) for n in ("12", "2/3", "2.5", "19.95")] == ["12", "2/3", "5/2", "19.95"]
