"""What must hold for the verdict on all answer counts."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies.verdict_simulation import PLAIN
from rephraser.verdict import (
    AnswerCounts,
    OverlapRule,
    Verdict,
    judge,
    original_top,
    overlap,
)

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
def test_the_order_of_classes_means_nothing(counted: AnswerCounts, rule: OverlapRule, random: Random) -> None:
    order = list(range(len(counted.original)))
    random.shuffle(order)
    moved = replace(
        counted,
        original=tuple(counted.original[i] for i in order),
        candidate=tuple(counted.candidate[i] for i in order),
        gold=None if counted.gold is None else order.index(counted.gold),
    )
    assert judge(moved, rule) == judge(counted, rule)


@given(answer_counts(), st.data())
def test_one_more_answer_never_lowers_the_overlap(counted: AnswerCounts, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counted.candidate) - 1))
    more = list(counted.candidate)
    more[place] += 1
    gained = overlap(replace(counted, candidate=tuple(more))) - overlap(counted)
    assert gained == (1 if counted.candidate[place] < counted.original[place] else 0)


@given(answer_counts())
def test_overlap_is_symmetric_blind_to_the_gold_and_bounded(counted: AnswerCounts) -> None:
    swapped = replace(counted, original=counted.candidate, candidate=counted.original)
    assert overlap(swapped) == overlap(counted) <= min(counted.original_total, counted.candidate_total)
    for gold in (None, *range(len(counted.original))):
        relabelled = replace(counted, gold=gold)
        assert (overlap(relabelled), original_top(relabelled)) == (overlap(counted), original_top(counted))


@given(answer_counts(), RULE_CASES)
def test_verdicts_keep_their_promises(counted: AnswerCounts, rule: OverlapRule) -> None:
    judgement = judge(counted, rule)
    if judgement.verdict is Verdict.REJECTED:
        assert counted.gold is not None
    if judgement.verdict in (Verdict.ACCEPTED, Verdict.REJECTED):
        assert counted.candidate_drawn >= rule.looks[0]
        assert counted.candidate_unparsed <= rule.max_unparsed_share * counted.candidate_drawn
    if judgement.verdict is Verdict.ACCEPTED:
        assert judgement.overlap >= rule.accept_overlap > 0
        assert judgement.overlap > rule.accept_over_new * judgement.new_top
        if rule.accept_gold_from is not None and counted.original_gold >= rule.accept_gold_from:
            assert counted.candidate_gold > 0
    if judgement.verdict is Verdict.REJECTED:
        assert judgement.overlap == counted.candidate_gold == 0
        assert judgement.new_top >= rule.reject_new
        assert judgement.original_top >= rule.reject_original_top
    if judgement.verdict is Verdict.UNVERIFIED:
        assert 0 in (counted.original_drawn, counted.candidate_drawn)


@given(answer_counts())
def test_what_the_default_rejects_the_plain_rule_rejects(counted: AnswerCounts) -> None:
    rejected = judge(counted).verdict is Verdict.REJECTED
    assert not rejected or judge(counted, PLAIN).verdict is Verdict.REJECTED
