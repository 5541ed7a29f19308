"""Verdicts from answer counts and from programs: every branch by hand, and what must hold for all counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies.verdict_simulation import PLAIN
from evaluator.grading import Grade, GradeValue
from rephraser.checks.structure import check_candidate
from rephraser.run.judge import count_classes
from rephraser.verdict import AnswerCounts, OverlapRule, Verdict, count_answers, judge
from rephraser.verdict.judge import cluster_programs, rule_for_programs

RULE = OverlapRule()


def counts_for(original: str, candidate: str, gold: str | None = "g") -> AnswerCounts:
    """Count answers written as one letter each; "?" is an answer that could not be parsed."""
    letters = ([None if letter == "?" else letter for letter in word] for word in (original, candidate))
    return count_answers(*letters, gold)


BRANCHES = [
    # (original, candidate, gold, verdict, part of the reason)
    ("g" * 32, "g" * 12, "g", "accepted", "12 of 12 candidate answers are shared with the original (9"),
    ("a" * 31 + "b", "a" * 11 + "b", "g", "accepted", "12 of 12"),  # never solved, the same mistakes
    ("g" * 16 + "a" * 16, "g" * 5 + "a" * 4 + "n" * 3 + "mmkk", "g", "accepted", "9 of 16"),
    ("g" * 32, "g" * 9 + "n" * 4 + "mmm", "g", "accepted", "the most frequent new answer was given 4 times"),
    ("g" * 32, "g" * 9 + "n" * 5 + "mm", "g", "undecided", "5 times: acceptance needs more than 10 shared"),
    # 10 is not over 2 * 5.
    ("g" * 32, "g" * 10 + "n" * 5, "g", "undecided", "a new answer was given 5 times"),
    ("g" * 32, "g" * 11 + "n" * 5, "g", "accepted", "11 of 16"),
    ("g" * 32, "g" * 8 + "nnmm", "g", "undecided", "8 of 12 candidate answers are shared"),
    ("g" * 8 + "a" * 24, "g" * 16, "g", "undecided", "8 of 16"),  # overlap is capped by both sides
    # The candidate's right answer may be the original's usual mistake.
    ("g" * 5 + "a" * 27, "a" * 16, "g", "undecided", "but none is correct, while 5 answers to the original"),
    ("g" * 5 + "a" * 27, "a" * 15 + "g", "g", "accepted", "16 of 16"),
    ("g" * 4 + "a" * 28, "a" * 16, "g", "accepted", "16 of 16"),
    ("g" * 5 + "a" * 27, "a" * 16, None, "accepted", "16 of 16"),
    ("g" * 32, "g" * 15 + "m", "g", "accepted", "the most frequent new answer was given once"),
    ("g" * 32, "n" * 12, "g", "rejected", "a new answer was given 12 times"),
    ("g" * 32, "n" * 11 + "m" * 5, "g", "rejected", "a new answer was given 11 times"),
    ("g" * 32, "n" * 10 + "m" * 6, "g", "undecided", "given 10 times, and rejection needs 11"),
    ("g" * 5 + "abcdefhijklmopqrstuvwxyzABC", "N" * 12, "g", "rejected", "was given 5 times"),
    ("g" * 4 + "abcdefhijklmopqrstuvwxyzABCD", "n" * 12, "g", "undecided", "one was given 4 times"),
    ("g" * 32, "n" * 11 + "g", "g", "undecided", "1 of 12 candidate answers are shared"),
    ("a" * 32, "n" * 11 + "g", "g", "undecided", "1 candidate answers are correct"),
    ("a" * 32, "n" * 11 + "a", "g", "undecided", "1 of 12"),
    ("a" * 32, "n" * 12, "g", "rejected", "None of 12"),
    ("a" * 32, "n" * 12, None, "undecided", "the new answer given 12 times may be correct"),
    ("a" * 32, "a" * 12, None, "accepted", "12 of 12"),
]


@pytest.mark.parametrize(("original", "candidate", "gold", "verdict", "reason"), BRANCHES)
def test_overlap_rule_branches(original, candidate, gold, verdict, reason):
    judgement = judge(counts_for(original, candidate, gold))
    assert judgement.verdict == verdict
    assert reason in judgement.reason


def test_without_answers_on_a_side_nothing_is_verified():
    for counted, side in (
        (AnswerCounts((), (), None), "original"),
        (counts_for("g" * 32, ""), "candidate"),
        (counts_for("", "g" * 16), "original"),
    ):
        judgement = judge(counted, RULE)
        assert judgement.verdict is Verdict.UNVERIFIED
        assert judgement.reason == f"No answers to the {side} were sampled, so none were compared."


def test_nothing_is_decided_before_the_first_look():
    first = RULE.looks[0]
    for answer in "gn":
        early = judge(counts_for("g" * 32, answer * (first - 1)), RULE)
        assert early.verdict is Verdict.UNDECIDED
        assert (
            f"Only {first - 1} answers to the candidate; the first verdict is possible after {first}."
            == early.reason
        )
    assert judge(counts_for("g" * 32, "n" * (first - 1) + "?"), RULE).verdict is Verdict.REJECTED


def test_many_unparsed_answers_decide_nothing():
    half = judge(counts_for("g" * 32, "g" * 8 + "?" * 8), RULE)
    assert "parsed" not in half.reason
    more = judge(counts_for("g" * 32, "g" * 7 + "?" * 9), RULE)
    assert more.verdict is Verdict.UNDECIDED
    assert more.reason == "9 of 16 answers to the candidate could not be parsed; at most 50% may fail."
    for candidate in ("g" * 16, "n" * 16, "?" * 16):
        original_lost = judge(counts_for("g" * 15 + "?" * 17, candidate), RULE)
        assert original_lost.verdict is Verdict.UNDECIDED
        assert "17 of 32 answers to the original" in original_lost.reason


def test_a_dropped_premise_blocks_acceptance_and_nothing_else():
    blocked = judge(counts_for("g" * 32, "g" * 12), RULE, premise_dropped=True)
    assert blocked.verdict == "undecided"
    assert "a premise was dropped" in blocked.reason
    assert judge(counts_for("g" * 32, "n" * 12), RULE, premise_dropped=True).verdict == "rejected"


@pytest.mark.parametrize("side", ["original", "candidate"])
def test_answers_that_could_not_be_compared_never_reject(side):
    certain = counts_for("g" * 32, "n" * 16)
    assert judge(certain, RULE).verdict == "rejected"
    judgement = judge(replace(certain, **{f"{side}_unsettled": 1}), RULE)  # type: ignore[arg-type]
    assert judgement.verdict == "undecided"
    assert "answers that could not be compared (1) may be shared" in judgement.reason


def test_answers_that_could_not_be_compared_are_neither_shared_nor_new():
    counted = replace(counts_for("g" * 32, "g" * 9), candidate_unsettled=7)
    assert (sum(counted.candidate), counted.drawn("candidate"), counted.unsettled) == (9, 16, 7)
    judgement = judge(counted)
    assert (judgement.verdict, judgement.overlap, judgement.new_top) == ("accepted", 9, 0)
    most = judge(replace(counted, candidate_unsettled=10))
    assert most.verdict == "undecided"
    assert "10 of 19 answers to the candidate could not be parsed or compared" in most.reason


PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=8)


@st.composite
def answer_counts(draw: st.DrawFn) -> AnswerCounts:
    pairs = draw(PAIRS)
    gold = draw(st.none() | st.integers(0, len(pairs) - 1))
    unparsed = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    return AnswerCounts(tuple(o for o, _ in pairs), tuple(c for _, c in pairs), gold, *unparsed)


RULE_CASES = st.sampled_from([OverlapRule(), PLAIN, OverlapRule.scaled(4, (4,))])


@pytest.mark.slow
@given(answer_counts(), RULE_CASES, st.randoms(use_true_random=False))
def test_the_order_of_classes_means_nothing(counted, rule, random):
    order = list(range(len(counted.original)))
    random.shuffle(order)
    gold = None if counted.gold is None else order.index(counted.gold)
    original, candidate = (tuple(row[i] for i in order) for row in (counted.original, counted.candidate))
    moved = replace(counted, original=original, candidate=candidate, gold=gold)
    assert judge(moved, rule) == judge(counted, rule)


@given(answer_counts(), RULE_CASES)
def test_verdicts_keep_their_promises(counted, rule):
    judgement = judge(counted, rule)
    if judgement.verdict is Verdict.REJECTED:
        assert counted.gold is not None
    if judgement.verdict in (Verdict.ACCEPTED, Verdict.REJECTED):
        assert counted.drawn("candidate") >= rule.looks[0]
        assert counted.candidate_unparsed <= rule.max_unparsed_share * counted.drawn("candidate")
    if judgement.verdict is Verdict.ACCEPTED:
        assert judgement.overlap >= rule.accept_overlap > 0
        assert judgement.overlap > rule.accept_over_new * judgement.new_top
        if rule.accept_gold_from is not None and counted.correct("original") >= rule.accept_gold_from:
            assert counted.correct("candidate") > 0
    if judgement.verdict is Verdict.REJECTED:
        assert judgement.overlap == counted.correct("candidate") == 0
        assert judgement.new_top >= rule.reject_new
        assert judgement.original_top >= rule.reject_original_top
    if judgement.verdict is Verdict.UNVERIFIED:
        assert 0 in (counted.drawn("original"), counted.drawn("candidate"))


QUESTION = '''from typing import List

def halves(numbers: List[int]) -> List[float]:
    """Halve each of 3 or more numbers; x^2 + 1 is no number.
    >>> halves([2, 4])
    [1.0, 2.0]
    """'''
HONEST = '''from typing import List

def halves(numbers: List[int]) -> List[float]:
    """What is left of every number, three of them or more, if half of it goes away?
    >>> halves([2, 4])
    [1.0, 2.0]
    """'''


def names(candidate: str, question: str = QUESTION) -> set[str]:
    return {finding.name for finding in check_candidate(question, candidate, names=("halves",))}


def test_an_honest_candidate_has_no_findings():
    assert names(HONEST) == set()
    assert names(QUESTION.replace("    ", "  ")) == {"same_as_original"}


def test_names_and_signatures_stay():
    line, changed = "def halves(numbers: List[int]) -> List[float]:", {"signature_changed"}
    for signature in (line.replace("halves", "thirds"), line.replace("])", "], n: int)", 1)):
        assert names(HONEST.replace(line, signature)) == changed
    assert names("Halve the numbers.", "Write `halves`, which halves numbers.") == changed
    assert names("Let `halves` halve numbers.", "Write `halves`, which halves numbers.") == set()


def test_examples_stay_and_no_code_is_given_away():
    (missing,) = check_candidate(
        QUESTION, HONEST.replace(">>> halves([2, 4])", ">>> halves([2, 6])"), names=("halves",)
    )
    assert (missing.name, missing.severity) == ("example_missing", "evidence")
    given_away = HONEST + "\n    return [number / 2 for number in numbers]"
    (solved,) = check_candidate(QUESTION, given_away, names=("halves",))
    assert (solved.name, solved.severity) == ("solution_included", "fatal")
    assert names("") == {"empty"}


def grade(*, passes: bool) -> Grade:
    value = GradeValue.CORRECT if passes else GradeValue.WRONG
    return Grade(value, "how", "tests passed" if passes else "tests failed")


def verdict(original: list[Grade], candidate: list[Grade]) -> Verdict:
    rule = rule_for_programs(OverlapRule())
    clustering = cluster_programs([*original, *candidate], len(original))
    counts = count_classes([""] * len(original), [""] * len(candidate), clustering)
    return judge(counts, rule).verdict


def programs(right: int, wrong: int) -> list[Grade]:
    return [*[grade(passes=True)] * right, *[grade(passes=False)] * wrong]


@pytest.mark.parametrize(
    ("original", "candidate", "expected"),
    [
        ((32, 0), (12, 0), Verdict.ACCEPTED),
        ((32, 0), (9, 3), Verdict.ACCEPTED),
        ((9, 23), (9, 3), Verdict.ACCEPTED),
        ((32, 0), (8, 4), Verdict.UNDECIDED),
        ((32, 0), (10, 6), Verdict.UNDECIDED),  # a condition that half of the programs guess
        ((32, 0), (11, 5), Verdict.ACCEPTED),
        ((32, 0), (0, 12), Verdict.REJECTED),
        ((24, 8), (0, 12), Verdict.REJECTED),
        ((23, 9), (0, 16), Verdict.UNDECIDED),  # a harder wording would do
        ((32, 0), (1, 11), Verdict.UNDECIDED),
        ((0, 32), (0, 12), Verdict.UNDECIDED),  # failing together shows nothing
        ((0, 32), (12, 0), Verdict.UNDECIDED),
    ],
)
def test_verdicts_by_programs(original, candidate, expected):
    assert verdict(programs(*original), programs(*candidate)) is expected
