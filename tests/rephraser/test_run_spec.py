"""The settings of a run: what survives the database, what is refused, slots, shares and seeds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import make_spec

from benchmarks.studies.verdict_simulation import PLAIN
from rephraser.proposing.strategies import load_strategy
from rephraser.run.spec import RunSpec, SolverSpec, ask_seed
from rephraser.verdict import OverlapRule
from service.errors import InputError


@pytest.mark.parametrize("rule", [OverlapRule(), PLAIN])
def test_a_spec_survives_the_database(rule: OverlapRule) -> None:
    spec = make_spec(rule=rule, tokenizer="t.json", solvers=(SolverSpec("a"), SolverSpec("b")))
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategies": ()}, "at least one strategy"),
        ({"n": 1, "strategies": (load_strategy("rename"), load_strategy("format"))}, "2 strategies for 1"),
        ({"strategies": (load_strategy("rename"),) * 2}, "named twice"),
        ({"solvers": (SolverSpec("a"), SolverSpec("a"))}, "named twice"),
    ],
)
def test_specs_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_spec(**changes)


@given(st.integers(1, 64), st.integers(1, 4))
def test_slots_and_shares_are_even_and_complete(n: int, parts: int) -> None:
    names = ("perspectives", "paraphrase", "rename", "format")[: min(parts, n)]
    spec = make_spec(
        n=n,
        strategies=tuple(load_strategy(name) for name in names),
        solvers=tuple(SolverSpec(f"s{i}") for i in range(parts)),
    )
    for split in (spec.slots(), spec.shares(n)):
        assert sum(split) == n
        assert max(split) - min(split) <= 1


def test_seeds_depend_on_every_part() -> None:
    seeds = {ask_seed(0, "q", 0, 0, 0), ask_seed(1, "q", 0, 0, 0), ask_seed(0, "q", 1, 0, 0)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
