"""Words, units, options, answer formats, requests, leaks and the outer shape."""

from __future__ import annotations

import pytest

from rephraser.checks import CheckOptions, Severity, check_candidate
from rephraser.checks.answer_format import answer_formats
from rephraser.checks.language import language, script
from rephraser.checks.lexicon import named
from rephraser.checks.options import options
from rephraser.checks.requests import asks, questions_asked
from rephraser.checks.sameness import likeness, skeleton
from rephraser.checks.shape import check_shape
from rephraser.checks.text import take_apart
from rephraser.checks.units import check_units, unit_names


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("the largest value", ["maximum"]),
        ("the greatest common divisor", ["gcd"]),
        ("at least three", ["at least"]),
        ("no fewer than three", ["at least"]),
        ("even if it rains", []),
        ("an even number", ["even"]),
        ("in lowest terms", []),
        ("without replacement", ["without replacement"]),
        ("the x-intercept", ["x part"]),
        ("on average", []),
    ],
)
def test_concepts(text: str, concepts: list[str]) -> None:
    assert list(named(text)) == concepts


def fatal(original: str, candidate: str) -> list[str]:
    return [f.name for f in check_candidate(original, candidate) if f.severity is Severity.FATAL]


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("What is the largest divisor of 60 below 20?", "Find the greatest factor of 60 that is under 20."),
        ("What is the mean of 3, 5 and 10?", "Find the average of 3, 5, and 10."),
        ("How many distinct ways are there to seat 5 people?", "In how many ways can 5 people be seated?"),
        ("How many positive divisors has 84?", "Find the number of divisors of 84."),
        ("Draw 2 of 9 cards without replacement. How likely are two hearts?",
         "Two of 9 cards are drawn, and the first is not replaced. What is the probability of two hearts?"),
    ],
)  # fmt: skip
def test_honest_synonyms(original: str, candidate: str) -> None:
    assert fatal(original, candidate) == []


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("12 km in 3 hrs", {"kilometer", "hour"}),
        ("60 mph", {"mile", "hour"}),
        ("$5 a pound", {"dollar", "pound"}),
        ("an angle of $30^\\circ$", {"degree"}),
        ("5 m of rope", {"meter"}),
        ("point M and set G", set()),
    ],
)
def test_units(text: str, units: set[str]) -> None:
    assert unit_names(take_apart(text)) == units


def test_units_of_length_are_strict_and_those_of_time_follow_the_numbers() -> None:
    changed = check_units(frozenset({"meter"}), frozenset({"foot"}))
    assert [(f.name, f.severity.value) for f in changed] == [("unit_changed", "fatal")]
    converted = check_units(frozenset({"week"}), frozenset({"day"}))
    assert [(f.name, f.severity.value) for f in converted] == [("unit_changed", "warning")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Which? (A) 3 (B) 4 (C) 5", {"a": "3", "b": "4", "c": "5"}),
        ("Which? $\\textbf{(A)}\\ 3\\qquad\\textbf{(B)}\\ \\frac12$", {"a": "3", "b": "1 / 2"}),
        ("A. red\nB. blue\nC. green", {"a": "r e d", "b": "b l u e", "c": "g r e e n"}),
        ("The letter A. Then the letter B. End", {}),
        ("Point (A) only", {}),
    ],
)
def test_options(text: str, found: dict[str, str]) -> None:
    assert {k.lower(): v for k, v in options(text).items()} == found


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("Express your answer as a common fraction.", {"fraction": ""}),
        ("Round to the nearest tenth.", {"rounding": "tenth"}),
        ("Give it to two decimal places.", {"rounding": "hundredth"}),
        ("to the closest whole number", {"rounding": "integer"}),
        ("in terms of $\\pi$", {"in terms of": ""}),
        ("Give your answer in base 5.", {"base": "5"}),
        ("in interval notation", {"interval notation": ""}),
        ("as a mixed number", {"mixed number": ""}),
        ("in scientific notation", {"scientific notation": ""}),
        ("Find the number of apples.", {}),
    ],
)
def test_answer_formats(text: str, formats: dict[str, str]) -> None:
    assert answer_formats(take_apart(text)) == formats


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("What is it?", 1),
        ("Find it.", 1),
        ("Determine it, please?", 1),
        ("What is it? Which one?", 2),
        ("Find $x$. Compute $y$.", 2),
        ("Find it. Express your answer as a decimal.", 1),
        ("It rains 2.5 times.", 0),
    ],
)
def test_questions_asked(text: str, count: int) -> None:
    assert questions_asked(take_apart(text)) == count


def test_what_asks() -> None:
    assert asks(take_apart("Fully simplify $2+2$."))
    assert not asks(take_apart("A marble is drawn."))


@pytest.mark.parametrize(
    ("candidate", "finding"),
    [
        ("", "empty"),
        (" $ . ", "empty"),
        ("Rephrased question: How many are 3 and 4?", "prompt_chatter"),
        ("Here's another version: How many are 3 and 4?", "prompt_chatter"),
        ("I cannot help with that. Can you?", "prompt_chatter"),
        ("Question: How many are 3 and 4?", "prompt_chatter"),
        ("How many are \x07 3 and 4?", "control_characters"),
        ("How many are \u202e 3 and 4?", "control_characters"),
        ("How many are $x and 4?", "truncated"),
        ("How many are \\frac{3}{4?", "truncated"),
        ("How many are 3 and 4 of the", "truncated"),
        ("How many are \\begin{cases} 3 and 4?", "truncated"),
    ],
)
def test_shape(candidate: str, finding: str) -> None:
    names = [f.name for f in check_shape("How many are 3 and 4?", candidate, CheckOptions())]
    assert finding in names


def test_a_price_leaves_no_formula_open() -> None:
    assert check_shape("A pen is $3. Find it.", "What is a pen at $3 and a pad at $4?", CheckOptions()) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("How many of the cows are in the field when it rains?", "en"),
        ("¿Cuántas vacas hay en el campo cuando llueve y la puerta está cerrada?", "es"),
        ("Combien de vaches sont dans le champ quand il pleut ?", "fr"),
        ("Wie viele Kühe sind auf der Weide, wenn es regnet und die Tür zu ist?", "de"),
        ("2 3 4", ""),
    ],
)
def test_language(text: str, code: str) -> None:
    assert language(text) == code


def test_script() -> None:
    assert [script(t) for t in ("abc", "农民", "корова", "ひらがな", "12")] == [
        "LATIN",
        "CJK",
        "CYRILLIC",
        "CJK",
        "",
    ]


def test_skeletons_ignore_what_does_not_matter() -> None:
    assert skeleton("Find $x+1$.") == skeleton("find \\( x + 1 \\)!".replace("!", ""))
    assert skeleton("Find $x+1$.") != skeleton("Find $x-1$.")


def test_likeness() -> None:
    assert likeness("a b c", "a b c") == 1.0
    assert likeness("a b c", "d e f") == 0.0
    assert likeness("", "") == 1.0
    assert likeness("a b", "a c") == pytest.approx(1 / 3)
