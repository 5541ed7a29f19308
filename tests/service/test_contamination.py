"""Contamination: words, exact, fuzzy and n-gram overlaps against brute force, and what is kept."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz
from sqlalchemy import text

from service.database import Database
from service.errors import InputError
from service.questions.contamination import (
    Overlap,
    Settings,
    Text,
    find_overlaps,
    overlaps_with,
    store_check,
)
from service.questions.contamination.words import numbers, words

TRAIN = (
    "A farmer has 12 hens and 7 ducks. Each hen lays 3 eggs a week and each duck lays 2 eggs a week. "
    "How many eggs does the farmer collect in 4 weeks?"
)


def measures(source: str, problem: str, **options: str | None) -> list[tuple[str, float]]:
    found = find_overlaps(
        [Text("s", source, options.get("answer"))], [Text("p", problem, options.get("gold"))]
    )
    return [(overlap.measure, overlap.score) for overlap in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"$\dfrac12$ of $1,000$.", r"\frac{1}{2} of 1000"),
        (r"Find $x^{2}$!", "find  x^2"),
        (r"\left( 3, 4 \right)", "(3,4)"),
        (r"\text{Is } 2.50 \text{ more?}", "is 2.50 more"),
    ],
)
def test_formatting_makes_no_difference(one: str, other: str) -> None:
    assert words(one) == words(other)


def test_what_changes_the_question_stays() -> None:
    assert words(r"\frac{t+1}{t}") != words(r"t+\frac{1}{t}")
    assert words("x^2+1") != words("x^2-1")
    assert words("2.5") != words("25")
    assert words("(1,2)") != words("(12)")
    assert numbers(words("Six of 3.5 boxes, 1,200 pens")) == ["six", "3.5", "1200"]
    assert words(" ... $$ ") == []


def test_the_same_question_in_other_formatting_is_exact() -> None:
    assert measures(TRAIN, TRAIN.replace("12", "$12$").upper()) == [("exact", 100.0)]


def test_a_slip_of_the_pen_is_fuzzy() -> None:
    [(measure, score)] = measures(TRAIN, TRAIN.replace("collect", "gather"))
    assert measure == "fuzzy"
    assert 90 < score < 100


def test_a_question_inside_a_longer_text_is_found_by_n_grams() -> None:
    long = f"Read the story first. {TRAIN} Give the number, then say how you found it, and check it by hand."
    assert measures(long, TRAIN) == [("n-gram", 100.0)]


@pytest.mark.parametrize("changed", [TRAIN.replace("12", "15"), TRAIN.replace("7 ducks", "nine ducks")])
def test_other_numbers_make_a_variant(changed: str) -> None:
    [(measure, _)] = measures(TRAIN, changed)
    assert measure == "variant"


def test_another_answer_makes_a_variant_of_what_is_nearly_the_same() -> None:
    near = TRAIN.replace("collect", "gather")
    assert measures(TRAIN, near, answer="200", gold="200")[0][0] == "fuzzy"
    assert measures(TRAIN, near, answer="200", gold="144")[0][0] == "variant"
    assert measures(TRAIN, near, answer="200", gold=None)[0][0] == "fuzzy"
    assert measures(TRAIN, TRAIN, answer="200", gold="144") == [("exact", 100.0)]


def test_a_grader_may_compare_the_answers() -> None:
    asked: list[tuple[str, str]] = []

    def equal(pairs: list[tuple[str, str]]) -> list[bool]:
        asked.extend(pairs)
        return [True for _ in pairs]

    near = TRAIN.replace("collect", "gather")
    found = find_overlaps([Text("s", TRAIN, "1/2")], [Text("p", near, "0.5")], equal=equal)
    assert [overlap.measure for overlap in found] == ["fuzzy"]
    assert asked == [("1/2", "0.5")]


def test_unrelated_questions_do_not_overlap() -> None:
    assert measures(TRAIN, "Compute the area of a circle whose radius is 3.") == []


def test_boilerplate_is_not_counted() -> None:
    tail = "Enter the letter of the correct option as your answer, and nothing else at all."
    sources = [Text(f"s{n}", f"Puzzle {'abcdefghijklmnop'[n] * 9} goes here. {tail}") for n in range(12)]
    problem = [Text("p", f"What stands here instead? {tail}")]
    assert find_overlaps(sources, problem) == []
    assert {o.measure for o in find_overlaps(sources, problem, Settings(common=12))} == {"n-gram"}


def test_texts_without_words_overlap_with_nothing() -> None:
    assert find_overlaps([Text("s", "$$"), Text("t", "")], [Text("p", "..."), Text("q", "")]) == []
    assert find_overlaps([], [Text("p", "x")]) == []
    assert find_overlaps([Text("s", "x")], []) == []


def test_a_short_question_is_one_n_gram() -> None:
    assert measures("Compute 2+2.", "compute 2+2") == [("exact", 100.0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n-gram has 0 words"),
        ({"containment": 0.0}, r"--threshold is 0\.0"),
        ({"ratio": 30.0}, "ratio is 30.0"),
        ({"common": 0}, "more than 0 texts"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**options)  # type: ignore[arg-type]


PIECES = st.sampled_from(["find", "the", "sum", "of", "12", "7", "x", "+", "cats", "dogs"])
TEXTS = st.lists(st.lists(PIECES, min_size=1, max_size=14).map(" ".join), min_size=1, max_size=6)


@settings(deadline=None, max_examples=150)
@given(TEXTS, TEXTS, st.integers(1, 5), st.sampled_from([60.0, 75.0, 90.0]))
def test_every_pair_that_brute_force_finds_is_found(
    ours: list[str], theirs: list[str], n: int, ratio: float
) -> None:
    def grams(sequence: list[str]) -> set[tuple[str, ...]]:
        return {tuple(sequence[at : at + n]) for at in range(max(1, len(sequence) - n + 1))}

    sources = [Text(str(place), text) for place, text in enumerate(ours)]
    problems = [Text(str(place), text) for place, text in enumerate(theirs)]
    found = {
        (overlap.source_id, overlap.problem_id)
        for overlap in find_overlaps(sources, problems, Settings(n, 0.5, ratio, common=100))
    }
    expected = set()
    for source in sources:
        for problem in problems:
            one, other = words(source.text), words(problem.text)
            shared = len(grams(one) & grams(other)) / len(grams(other))
            if shared >= 0.5 or fuzz.ratio("".join(one), "".join(other)) >= ratio:
                expected.add((source.id, problem.id))
    assert found == expected


@pytest.mark.slow
@pytest.mark.shared
def test_what_math_train_shares_with_math500_and_olympiadbench(data_folder: Path) -> None:
    def read(name: str) -> list[Text]:
        lines = (data_folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return [Text(row["id"], row["question"], row["answer"]) for row in map(json.loads, lines)]

    train = read("math_train")
    found = {
        name: find_overlaps(train, read(name))
        for name in ("math500", "olympiadbench_675", "aime24", "amc12_83")
    }
    assert found["aime24"] == found["amc12_83"] == []
    repeated = {
        (overlap.source_id, overlap.problem_id, overlap.measure)
        for overlap in found["math500"]
        if overlap.measure != "variant"
    }
    assert ("math_train_00304", "math500_386", "fuzzy") in repeated
    assert ("math_train_01509", "math500_237", "n-gram") in repeated
    olympiad = {overlap.problem_id: overlap.measure for overlap in found["olympiadbench_675"]}
    assert olympiad == {
        "olympiad_2607": "fuzzy",
        "olympiad_2644": "fuzzy",
        "olympiad_2791": "fuzzy",
        "olympiad_2794": "fuzzy",
        "olympiad_2890": "exact",
        "olympiad_2895": "fuzzy",
    }


@pytest.mark.shared
def test_the_repeats_among_natural_near_pairs_are_told_from_variants(data_folder: Path) -> None:
    lines = (data_folder / "math_natural_near_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found: Counter[str] = Counter()
    mislabelled = set()
    for row in rows:
        [overlap] = find_overlaps(
            [Text("s", row["original_question"], row["original_answer"])],
            [Text("p", row["question"], row["answer"])],
        ) or [Overlap("s", "p", "none", 0)]
        found[overlap.measure] += 1
        if overlap.measure in ("exact", "fuzzy", "n-gram") and not row["same_answer"]:
            mislabelled.add(row["id"])
    assert found["variant"] > 800
    assert found["exact"] + found["fuzzy"] + found["n-gram"] < 42  # rows with the same answer
    assert mislabelled == {"mathnear_train_03493__train_04322"}  # its answers differ only in a font command


def check(db: Database, name: str, hash: str, *overlaps: Overlap) -> None:
    with db.write() as session:
        store_check(
            session,
            set_name=name,
            set_hash=hash,
            benchmark="sums",
            problems_hash="h",
            settings=Settings(),
            overlaps=overlaps,
        )


def test_not_checked_is_not_none_found(tmp_path: Path) -> None:
    with Database.open(tmp_path / "t.db") as db:
        check(db, "clean", "c1")
        check(
            db,
            "math",
            "m1",
            Overlap("q_1", "p_1", "exact", 100.0),
            Overlap("q_2", "p_1", "fuzzy", 95.0),
            Overlap("q_3", "p_1", "variant", 91.0),
            Overlap("q_3", "p_2", "variant", 91.0),
        )
        with db.read() as session:
            clean, math = overlaps_with(session, "h")
            assert overlaps_with(session, "another") == []
        assert (clean.set_name, clean.problems, clean.variants) == ("clean", 0, 0)
        assert (math.set_name, math.problems, math.variants) == ("math", 1, 1)
        assert math.settings == {"n": 8, "containment": 0.5, "ratio": 90.0, "common": 10, "version": 1}


def test_the_newest_check_of_a_set_counts(tmp_path: Path) -> None:
    with Database.open(tmp_path / "t.db") as db:
        check(db, "math", "m1", Overlap("q_1", "p_1", "exact", 100.0))
        check(db, "math", "m1")
        check(db, "math", "m2", Overlap("q_1", "p_1", "exact", 100.0))
        with db.read() as session:
            found = [(checked.set_hash, checked.problems) for checked in overlaps_with(session, "h")]
    assert found == [("m1", 0), ("m2", 1)]


def test_checks_cannot_be_changed(tmp_path: Path) -> None:
    with Database.open(tmp_path / "t.db") as db:
        check(db, "math", "m1", Overlap("q_1", "p_1", "exact", 100.0))
        for table in ("contamination_checks", "overlaps"):
            with pytest.raises(Exception, match="append-only"), db.write() as session:
                session.execute(text(f'DELETE FROM "{table}"'))


def test_the_same_words_below_another_picture_are_another_problem() -> None:
    ours = [Text("a", "<image>Find x.", "2", ("red",)), Text("b", "Find x. <image>", "2", ("blue",))]
    problems = [Text("p", "<image>Find x.", "2", ("red",)), Text("t", "Find x.", "2")]
    measures = {(each.source_id, each.problem_id): each.measure for each in find_overlaps(ours, problems)}
    assert measures == {
        ("a", "p"): "exact",
        ("b", "p"): "variant",
        ("a", "t"): "variant",
        ("b", "t"): "variant",
    }
