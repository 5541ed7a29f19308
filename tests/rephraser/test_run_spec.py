"""The settings of a run: what survives the database, what is refused, slots, shares and seeds."""

import json
from typing import Any

import pytest
from scripted import make_spec

from benchmarks.studies.verdict_simulation import PLAIN
from rephraser.proposing.strategies import load_strategy
from rephraser.run.spec import RunSpec, SolverSpec
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
