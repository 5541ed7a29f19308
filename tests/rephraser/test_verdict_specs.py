"""Rules of the verdict: their looks, their form in a run's spec, and settings that make no sense."""

import json
from dataclasses import replace

import pytest

from benchmarks.studies.verdict_simulation import PLAIN
from rephraser.verdict import OverlapRule, rule_from_spec, rule_spec
from service.errors import InputError

RULE = OverlapRule()


@pytest.mark.parametrize("rule", [OverlapRule(accept_overlap=11), OverlapRule(), PLAIN])
def test_a_rule_survives_its_spec_and_json(rule: OverlapRule) -> None:
    spec = rule_spec(rule)
    assert rule_from_spec(json.loads(json.dumps(spec))) == rule


def test_a_spec_may_leave_out_what_is_default_and_nothing_else() -> None:
    assert rule_from_spec({"rule": "overlap", "reject_new": 10}) == OverlapRule(reject_new=10)
    assert rule_from_spec({"rule": "overlap", "flagged_looks": [20, 24]}) == OverlapRule()
    for spec, message in (
        ({"rule": "coin"}, r"'coin' is not a valid rule. Choose overlap"),
        ({}, "None is not a rule"),
        ({"rule": "overlap", "prior": 0.5}, r"overlap has no prior\. It has accept_gold_from"),
        ({"rule": "overlap", "accept_overlap": "ten"}, "overlap cannot use"),
    ):
        with pytest.raises(InputError, match=message):
            rule_from_spec(spec)


def test_scaled_keeps_the_default_and_shrinks_with_the_samples() -> None:
    assert OverlapRule.scaled(32, (12, 16)) == RULE
    assert OverlapRule.scaled(4, (4,)) == replace(
        RULE, accept_overlap=3, accept_gold_from=2, reject_new=3, reject_original_top=2,
        original_samples=4, looks=(4,),
    )  # fmt: skip
    assert OverlapRule.scaled(64, (24, 32)) == replace(
        RULE, accept_overlap=18, accept_gold_from=10, reject_new=22, reject_original_top=10,
        original_samples=64, looks=(24, 32),
    )  # fmt: skip
    # the overlap cannot exceed the smaller sample
    assert OverlapRule.scaled(8, (16,)) == replace(
        RULE, accept_overlap=5, accept_gold_from=2, reject_original_top=2, original_samples=8, looks=(16,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accept_overlap": 0}, "accept_overlap is 0"),
        ({"accept_over_new": 0}, "accept_over_new is 0"),
        ({"accept_gold_from": 0}, "accept_gold_from is 0"),
        ({"reject_new": 0}, "reject_new is 0"),
        ({"reject_original_top": -1}, "reject_original_top is -1"),
        ({"accept_overlap": 17}, "17 can never be reached with 32 answers to the original and 16"),
        ({"original_samples": 0}, "original_samples is 0"),
        ({"looks": ()}, "looks"),
        ({"looks": (16, 12)}, "increasing"),
        ({"looks": (0, 12)}, "increasing"),
        ({"max_unparsed_share": 1.0}, "max_unparsed_share is 1.0"),
    ],
)
def test_overlap_rules_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(RULE, **changes)  # type: ignore[arg-type]
