"""Structural checks: a table of pairs, files of pairs, hostile text, likeness, rates on real pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephraser.checks.structure import FATAL, FINDINGS, check_candidate, check_chatter
from rephraser.checks.text import choose_apart, distance, estimate_tokens, likeness
from rephraser.config import MIN_DISTANCE

HERE = Path(__file__).parent / "data"
PENS = "How many are 3 and 4?"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def names_of(question: str, candidate: str, **more: Any) -> list[str]:
    return [finding.name for finding in check_candidate(question, candidate, **more)]


def fatal(question: str, candidate: str, **more: Any) -> list[str]:
    findings = check_candidate(question, candidate, **more)
    return [finding.name for finding in findings if finding.severity == "fatal"]


# --- pairs ---

PAIRS = [
    # (original, candidate, answer, names of all findings)
    ("If $5x-3=12$, what is $x$?", "Determine the value of $x$ that satisfies $5x - 3 = 12$.", "3", []),
    ("Find $x+1$.", "find  $ x + 1 $", None, ["same_as_original"]),
    (PENS, "", None, ["empty"]),
    (PENS, " $ . ", None, ["empty"]),
    (PENS, "Add \x07 3 and 4: what is it?", None, ["control_characters"]),
    (PENS, "Add \u202e 3 and 4: what is it?", None, ["control_characters"]),
    (PENS, "What are $x, 3 and 4?", None, ["truncated"]),
    (PENS, "What is \\frac{3}{4 in all?", None, ["truncated"]),
    (PENS, "What are \\begin{cases} 3 and 4?", None, ["truncated"]),
    (PENS, "What number is 3 and 4 of the", None, ["truncated"]),
    ("A pen is $3, a pad $4. Find both.", "What are a pen at $3 and a pad at $4?", None, []),
    ("What is $x$ if $x + 2 = 6$?", "A number $x$ has $x + 2 = 6$.", None, ["question_missing"]),
    ("What is $x$ if $x + 2 = 6$?", "Let $x + 2 = 6$. What is $x$? Also find $6$?", None, ["question_added"]),
    # numbers
    ("Ann has 12 eggs and eats 5. How many?", "Ann eats 5 eggs. How many?", None, ["number_missing"]),
    ("He runs 4 laps. How many?", "He runs 4 laps of 55 feet. How many laps?", None, ["number_added"]),
    ("He pays $5 and $7. How much?", "What if he pays five dollars and \\$7?", None, []),
    ("1,200 people. How many?", "How many are twelve hundred people?", None, []),
    ("60% of them left. How many?", "How many, if 0.6 of them left?", None, []),
    ("A share of $\\frac12$. How many?", "What is half of it?", None, []),
    ("$80,\\!607$ of two hundred and five. How many?", "How many of 205 are 80607?", None, []),
    ("The 5th term is what?", "What is the fifth term?", None, []),
    ("2 chords meet. Where?", "Where do both chords meet?", None, []),
    # leaks
    ("What is the ratio in the picture?", "The ratio in the picture is $427$. What is it?", "427",
     ["answer_leaked", "number_added"]),
    ("What is the ratio in the picture?", "The ratio in it is $3\\sqrt{7}$. What is it?", "3\\sqrt{7}",
     ["answer_leaked", "number_added", "number_added"]),
    ("What is $3 \\cdot 2$?", "Find the value of $3 \\cdot 2 = 6$.", "6", ["answer_leaked", "number_added"]),
    ("Solve $2x = 6$ for $x$ in $(0, 9)$.", "For which $x$ in $(0, 9)$ is $2x = 6$?", "6", []),
    ("Is 427 the ratio? Why?", "Why is the ratio 427?", "427", []),
    ("What is $x$ if $3x = 24$?", "What is $x$ if $3x = 24$? The answer is 8.", None,
     ["answer_leaked", "number_added"]),
    ("What is $x$ if $3x = 24$?", "Given $3x = 24$, we get $x$. What is it?", None, ["solution_included"]),
    ("What is $x$ if $3x = 24$?", "Since $3x = 24$, so $x = 8$. What is $x$?", None,
     ["solution_included", "number_added"]),
    ("Let $AB = CD$. What is $AB$?", "All sides match, so $AB = CD$. What is $AB$?", None, []),
    # form
    ("What is the share? Write a common fraction.", "What is the share? Give it in percent.", None,
     ["answer_format_changed"]),
    ("Find $x$ as a common fraction.", "Express $x$ as a decimal.", None, ["answer_format_changed"]),
    ("Find $x$ to the nearest tenth.", "Round $x$ to two decimal places. What is it?", None,
     ["answer_format_changed"]),
    ("Find $x$ to the nearest whole number.", "What is $x$, to the closest integer?", None, []),
    ("What is the area?", "Find the area to the nearest tenth.", None, ["answer_format_changed"]),
    ("What point is closest to $P$?", "Which one is nearest to $P$?", None, []),
    ("Give $243_5$ in base 8.", "Which base 9 number is $243_5$?", None,
     ["answer_format_changed", "number_missing", "number_added"]),
    ("Write the base 5 number $243_5$ in base 8.", "What is $243_5$ in base 8?", None, []),
    # parts
    ("See [asy] draw(1); [/asy]. Where?", "Where is it?", None, ["figure_missing"]),
    ("Which? (A) 3 (B) 4 (C) 5", "Which of 3, 4 and 5?", None, ["options_missing"]),
    ("Which? (A) 3 (B) 4 (C) 5", "Which of these: (A) 3 (B) 4, or 5?", None, ["options_missing"]),
    ("Which is it? <image>", "Which one is it?", None, ["image_missing"]),
    ("Which is it?", "Which one is it? <image>", None, ["image_added"]),
]  # fmt: skip


@pytest.mark.parametrize(("original", "candidate", "answer", "names"), PAIRS)
def test_pairs(original, candidate, answer, names):
    assert names_of(original, candidate, answer=answer) == names


def test_broken_pairs_are_noticed_by_name():
    """Rows without an expected finding are left to the answers: no finding distinguishes them."""
    rows = read(HERE / "broken_pairs.jsonl")
    assert {row["expected"] for row in rows} - {None} <= {*FINDINGS}
    for row in rows:
        findings = check_candidate(row["original_question"], row["question"], answer=row.get("answer"))
        assert row["expected"] is None or row["expected"] in [finding.name for finding in findings], row
        rejected = any(finding.severity == "fatal" for finding in findings)
        assert rejected is (row["expected"] in FATAL), row


def test_a_sibling_is_rejected():
    names = fatal(
        "What is the area of a circle of radius 3?",
        "Find the area of a circle whose radius is 3.",
        siblings=("Compute a thing.", "find the area of a circle whose radius is $3$"),
    )
    assert names == ["same_as_sibling"]


def test_too_many_tokens_by_estimate():
    question = "What is the sum of the numbers from 1 to 9?"
    candidate = "Find the sum of the numbers from 1 to 9."
    assert fatal(question, candidate, token_limit=5) == ["too_long"]
    assert fatal(question, candidate) == []
    assert [estimate_tokens(text) for text in ("", "area = 125", "circumference")] == [0, 5, 3]


# --- parts of checks ---

CHATTER = [
    "Rephrased question: How many are 3 and 4?",
    "New problem: How many are 3 and 4?",
    "3 and 4.\nRewritten problem: How many are 3 and 4?",
    "Rephrased: How many are 3 and 4?",
    "Assistant: How many are 3 and 4?",
    "Version 2: How many are 3 and 4?",
    "Here's another version: How many are 3 and 4?",
    "I cannot help with that. Can you?",
    "Question: How many are 3 and 4?",
    "How many are 3 and 4?</rephrasing>",
    "<rewrite n='2'>How many are 3 and 4?",
    "[rephrasing 2] How many are 3 and 4?",
    "How many are 3 and 4?\nResponse: seven",
    "I cannot provide paraphrases of 3 and 4.",
    "Paraphrased text:\nHow many are 3 and 4?",
]
NO_CHATTER = [
    "New York City: 5 parks\nBoston: 7 parks\nHow many parks are there?",
    "Running time: 3 hours\nOutput per hour: 5 items\nHow many items are made?",
    "User activity: 5 clicks a day\nHow many clicks are made in 6 days?",
    "Output: 5 items an hour\nHow many items are made in 3 hours?",
    "Sue says: I can't find 3 of my 20 keys. How many keys does she still have?",
    "Great Grandma Mae has 3 cats and 4 dogs. How many pets does she have?",
]


@pytest.mark.parametrize("candidate", [*CHATTER, *NO_CHATTER])
def test_chatter(candidate):
    found = [finding.name for finding in check_chatter(PENS, candidate)]
    assert found == (["prompt_chatter"] if candidate in CHATTER else [])


# --- hostile text ---

PIECES = st.sampled_from(
    ["$", "$$", "\\$", "\\(", "\\)", "\\[", "\\frac", "\\sqrt{", "{", "}", "^", "_", "[asy]", "[/asy]", "1/0",
     "(A) ", "twenty ", "one hundred and ", "half ", "\\begin{cases}", "\\end{cases}", "\x00", "\u202e",
     "²", "½", "٣", "①", "1,000", "\\left", "percent ", "nearest ", "base ", "-", "x", "? ", "find "]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.text(), st.text(), st.one_of(st.none(), st.text()))
def test_never_raises_on_any_text(question, candidate, answer):
    first = check_candidate(question, candidate, answer=answer, siblings=(question,))
    assert first == check_candidate(question, candidate, answer=answer, siblings=(question,))


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=40), st.lists(PIECES, max_size=40))
def test_never_raises_on_broken_latex(question, candidate):
    for finding in check_candidate("".join(question), "".join(candidate), answer="".join(question)):
        assert finding.name in FINDINGS


# --- real pairs ---


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "same_answer", "low", "high", "most_fatal"),
    [
        ("free_honest", None, 0.0, 0.3, 0.02),
        ("rephrase_gsm8k_decontaminator", None, 0.0, 0.03, 0.01),
        ("gsm_hard", False, 0.98, 1.0, 0.01),
        ("math_natural_near_pairs", False, 0.8, 1.0, 0.02),
        ("math_perturb_simple", None, 0.65, 1.0, 0.05),
    ],
)
def test_shares_on_real_pairs(data_folder, name, same_answer, low, high, most_fatal):
    """Share with any finding, and share with a fatal one."""
    rows = [r for r in read(data_folder / f"{name}.jsonl") if r["original_question"] and r["question"]]
    if same_answer is not None:
        rows = [r for r in rows if r.get("same_answer") is same_answer]
    rows = rows[::3]
    found = [set(names_of(r["original_question"], r["question"])) for r in rows]
    assert low <= sum(map(bool, found)) / len(rows) <= high
    assert sum(bool(names & {*FATAL}) for names in found) / len(rows) <= most_fatal


QUESTION = "Nora bakes 24 rolls and gives 9 of them to her aunt. How many rolls are left on the tray?"
SWAPPED = "Nora bakes 24 rolls and gives 9 of them to her aunt. How many rolls remain on the tray?"
OTHER = "After handing 9 rolls to an aunt, what number stays on Nora's tray, if 24 came out of the oven?"


def test_likeness_is_the_share_of_words_in_common_in_order():
    assert likeness("a b c d", "a b c e") == 0.75
    assert likeness("a b c d", "d c b a") == 0.25
    assert likeness("A b.", "a, B!") == 1.0
    assert likeness("", "...") == 1.0
    assert distance("a b", "c d") == 1.0


@pytest.mark.parametrize(
    ("candidate", "siblings", "finding"),
    [
        (SWAPPED, (), "too_like_original"),
        (OTHER.replace("handing", "passing"), (OTHER,), "too_like_sibling"),
        (OTHER, (), None),
    ],
)
def test_what_is_too_like_is_refused_with_the_distance(candidate, siblings, finding):
    found = check_candidate(QUESTION, candidate, siblings=siblings, min_distance=MIN_DISTANCE)
    like = [one for one in found if one.name.startswith("too_like")]
    assert [one.name for one in like] == ([] if finding is None else [finding])
    assert all("at least 15%" in one.detail for one in like)
    assert not any(one.name.startswith("too_like") for one in check_candidate(QUESTION, candidate))


def apart(question: str, texts: list[str], n: int | None = None, least: float = 0.0) -> list[int]:
    return choose_apart(question, texts, [()] * len(texts), n, least)[0]


def test_the_next_one_is_furthest_from_all_that_is_chosen():
    # 2 is furthest from the question; 1 is nearly 2, so 0 comes next although it is nearer to the question
    assert apart("a b c d", ["a b x y", "p q r a", "p q r s"], n=2) == [2, 0]
    assert apart("a b c d", ["a b x y", "p q r a", "p q r s"]) == [2, 0, 1]
