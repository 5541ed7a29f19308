"""Contamination: words, exact, fuzzy and n-gram overlaps against brute force, and what is kept."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz

from rephraser.questions.contamination import Overlap, OverlapSettings, SourceText, find_overlaps, words


def test_boilerplate_is_not_counted():
    tail = "Enter the letter of the correct option as your answer, and nothing else at all."
    sources = [SourceText(f"s{n}", f"Puzzle {'abcdefghijklmnop'[n] * 9} is here. {tail}") for n in range(12)]
    problem = [SourceText("p", f"What stands here instead? {tail}")]
    assert find_overlaps(sources, problem) == []
    assert {o.measure for o in find_overlaps(sources, problem, OverlapSettings(common=12))} == {"n-gram"}


PIECES = st.sampled_from(["find", "the", "sum", "of", "12", "7", "x", "+", "cats", "dogs"])
TEXTS = st.lists(st.lists(PIECES, min_size=1, max_size=14).map(" ".join), min_size=1, max_size=6)


@settings(deadline=None, max_examples=150)
@given(TEXTS, TEXTS, st.integers(1, 5), st.sampled_from([60.0, 75.0, 90.0]))
def test_every_pair_that_brute_force_finds_is_found(ours, theirs, n, ratio):
    def grams(sequence: list[str]) -> set[tuple[str, ...]]:
        return {tuple(sequence[at : at + n]) for at in range(max(1, len(sequence) - n + 1))}

    sources = [SourceText(str(place), text) for place, text in enumerate(ours)]
    problems = [SourceText(str(place), text) for place, text in enumerate(theirs)]
    found = {
        (overlap.source_id, overlap.problem_id)
        for overlap in find_overlaps(sources, problems, OverlapSettings(n, 0.5, ratio, common=100))
    }
    expected = set()
    for source in sources:
        for problem in problems:
            one, other = words(source.text), words(problem.text)
            shared = len(grams(one) & grams(other)) / len(grams(other))
            if shared >= 0.5 or fuzz.ratio("".join(one), "".join(other)) >= ratio:
                expected.add((source.id, problem.id))
    assert found == expected


@pytest.mark.shared
def test_the_repeats_among_natural_near_pairs_are_told_from_variants(data_folder):
    lines = (data_folder / "math_natural_near_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found: Counter[str] = Counter()
    mislabelled = set()
    for row in rows:
        source = SourceText("s", row["original_question"], row["original_answer"])
        problem = SourceText("p", row["question"], row["answer"])
        [overlap] = find_overlaps([source], [problem]) or [Overlap("s", "p", "none", 0)]
        found[overlap.measure] += 1
        if overlap.measure in ("exact", "fuzzy", "n-gram") and not row["same_answer"]:
            mislabelled.add(row["id"])
    assert found["variant"] > 800
    assert found["exact"] + found["fuzzy"] + found["n-gram"] < 42  # rows with the same answer
    assert mislabelled == {"mathnear_train_03493__train_04322"}  # its answers differ only in a font command


def test_the_same_words_below_another_picture_are_another_problem():
    ours = [
        SourceText("a", "<image>Find x.", "2", ("red",)),
        SourceText("b", "Find x. <image>", "2", ("blue",)),
    ]
    problems = [SourceText("p", "<image>Find x.", "2", ("red",)), SourceText("t", "Find x.", "2")]
    measures = {each.source_id + each.problem_id: each.measure for each in find_overlaps(ours, problems)}
    assert measures == {"ap": "exact", "bp": "variant", "at": "variant", "bt": "variant"}
