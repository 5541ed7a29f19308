"""Words, units, options, answer formats, requests, leaks and the outer shape."""

from __future__ import annotations

import pytest

from rephraser.checks import CheckOptions, Severity, check_candidate
from rephraser.checks.form import answer_formats, options
from rephraser.checks.reading.text import take_apart
from rephraser.checks.shape import check_shape, language, script
from rephraser.checks.wording import shared_pairs, skeleton
from rephraser.checks.words import asks, check_contraries, questions_asked


@pytest.mark.parametrize(
    ("original", "candidate", "change"),
    [
        ("the largest value", "the smallest value", ("maximum", "minimum")),
        ("no fewer than three", "at most three", ("at least", "at most")),
        ("an even number", "an odd number", ("even", "odd")),
        ("the greatest common divisor", "the lcm", ("greatest common divisor", "least common multiple")),
        ("drawn without replacement", "drawn with replacement", ("without replacement", "with replacement")),
        ("inscribed in a circle", "circumscribed about a circle", ("inscribed", "circumscribed")),
        ("the remainder", "the quotient", ("remainder", "quotient")),
    ],
)
def test_contraries(original: str, candidate: str, change: tuple[str, str]) -> None:
    findings = check_contraries(take_apart(original), take_apart(candidate))
    assert f"'{change[0]}' of the original became '{change[1]}'" in [finding.detail for finding in findings]


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ("the largest value", "the greatest value"),
        ("positive numbers", "numbers"),
        ("a game", "a game at the very least"),
        ("the sum and the product", "the product and the sum"),
    ],
)
def test_words_that_come_or_go_are_no_contraries(original: str, candidate: str) -> None:
    assert check_contraries(take_apart(original), take_apart(candidate)) == []


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
        ("Find it.", 0),
        ("Determine it, please?", 1),
        ("What is it? Which one?", 2),
        ("What is $x$? Also find $y$.", 2),
        ("Find $x = m/n$ in lowest terms. Compute $m + n$.", 0),
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
        ("New problem: How many are 3 and 4?", "prompt_chatter"),
        ("3 and 4.\nRewritten problem: How many are 3 and 4?", "prompt_chatter"),
        ("Rephrased: How many are 3 and 4?", "prompt_chatter"),
        ("Assistant: How many are 3 and 4?", "prompt_chatter"),
        ("Version 2: How many are 3 and 4?", "prompt_chatter"),
        ("Here's another version: How many are 3 and 4?", "prompt_chatter"),
        ("I cannot help with that. Can you?", "prompt_chatter"),
        ("Question: How many are 3 and 4?", "prompt_chatter"),
        ("How many are 3 and 4?</rephrasing>", "prompt_chatter"),
        ("<rewrite n='2'>How many are 3 and 4?", "prompt_chatter"),
        ("[rephrasing 2] How many are 3 and 4?", "prompt_chatter"),
        ("How many are \x07 3 and 4?", "control_characters"),
        ("How many are \u202e 3 and 4?", "control_characters"),
        ("How many are $x and 4?", "truncated"),
        ("How many are \\frac{3}{4?", "truncated"),
        ("How many are 3 and 4 of the", "truncated"),
        ("How many are \\begin{cases} 3 and 4?", "truncated"),
        ("How many are 3 and 4?\nResponse: seven", "prompt_chatter"),
        ("I cannot provide paraphrases of 3 and 4.", "prompt_chatter"),
        ("Paraphrased text:\nHow many are 3 and 4?", "prompt_chatter"),
    ],
)
def test_shape(candidate: str, finding: str) -> None:
    names = [f.name for f in check_shape("How many are 3 and 4?", candidate, CheckOptions())]
    assert finding in names


@pytest.mark.parametrize(
    "candidate",
    [
        "New York City: 5 parks\nBoston: 7 parks\nHow many parks are there?",
        "Running time: 3 hours\nOutput per hour: 5 items\nHow many items are made?",
        "User activity: 5 clicks a day\nHow many clicks are made in 6 days?",
        "Output: 5 items an hour\nHow many items are made in 3 hours?",
        "Sue says: I can't find 3 of my 20 keys. How many keys does she still have?",
        "Great Grandma Mae has 3 cats and 4 dogs. How many pets does she have?",
    ],
)
def test_lists_of_facts_are_no_chatter(candidate: str) -> None:
    assert check_shape("How many are 3 and 4?", candidate, CheckOptions()) == []


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


def test_shared_pairs() -> None:
    assert shared_pairs("a b c", "a b c") == 1.0
    assert shared_pairs("a b c", "d e f") == 0.0
    assert shared_pairs("", "") == 1.0
    assert shared_pairs("a b", "a c") == pytest.approx(1 / 3)
