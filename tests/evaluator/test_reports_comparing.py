"""Comparisons of methods over benchmarks."""

from types import SimpleNamespace
from typing import Any

import pytest
from eval_runs import Counts, add_eval_run, make_problems

from evaluator.reports.comparing import (
    MethodComparison,
    ahead,
    compare_methods,
    comparison_document,
)
from evaluator.reports.methods import load_methods
from service.database import Database
from service.errors import InputError


def compared(db: Database, a: str, b: str, **options: Any) -> MethodComparison:
    with db.read() as session:
        return compare_methods(*load_methods(session, [a, b]), **options)


def runs(db: Database, name: str, **counts: Counts) -> None:
    for benchmark, of_it in counts.items():
        add_eval_run(db, f"{name}.{benchmark}", of_it, benchmark=benchmark)


LOW: Counts = [(8, 2, 0)] * 12
HIGH: Counts = [(8, 6, 0)] * 12
SAME: Counts = [(8, 2, 0)] * 11 + [(8, 3, 0)]


def test_p_values_are_corrected_over_benchmarks_at_each_k(db: Database) -> None:
    runs(db, "a", aime24=HIGH, gsm8k=SAME, amc12=HIGH)
    runs(db, "b", aime24=LOW, gsm8k=LOW, amc12=LOW)
    found = compared(db, "a", "b", ks=[1])
    assert [part.benchmark for part in found.parts] == ["amc12", "aime24", "gsm8k"]
    plain, adjusted = ({row["benchmark"]: row[p] for row in found.rows} for p in ("p_value", "p_holm"))
    assert plain["amc12"] == plain["aime24"] < 0.01
    assert plain["gsm8k"] == 1.0
    assert adjusted["amc12"] == pytest.approx(3 * plain["amc12"])
    assert adjusted["aime24"] == pytest.approx(3 * plain["amc12"])
    assert adjusted["gsm8k"] == 1.0


def test_different_problems_need_to_be_asked_for(db: Database) -> None:
    problems = make_problems(3)
    add_eval_run(db, "a", LOW[:2], problems=problems[:2])
    add_eval_run(db, "b", LOW[:2], problems=problems[1:])
    with pytest.raises(InputError, match="--common-only"):
        compared(db, "a", "b", ks=[1])
    found = compared(db, "a", "b", ks=[1], common_only=True)
    assert [change["problem_id"] for change in found.parts[0].changes] == [problems[1].id]
    assert any("1 problems only in A and 1 only in B" in note for note in comparison_document(found).notes)


def test_benchmarks_of_one_side_and_settings_are_said(db: Database) -> None:
    runs(db, "a", one=LOW, two=LOW)
    add_eval_run(db, "b.one", LOW, benchmark="one", temperature=1.0, model="other", seed=3)
    notes = comparison_document(compared(db, "a", "b")).notes
    assert "Not compared, because only a has results: two." in notes
    assert "one: sampled with different settings: sampling.temperature (0.6 in A (a), 1.0 in B (b))." in notes


def intervals(spans: dict[int, tuple[float, float]]) -> Any:
    """Return a comparison of x with y of which the intervals at some k are known."""
    rows = [{"k": k, "low": low, "high": high} for k, (low, high) in spans.items()]
    return SimpleNamespace(label_a="x", label_b="y", rows=rows)


def test_a_side_is_ahead_only_where_the_interval_leaves_zero_out() -> None:
    spans = {1: (-0.05, -0.01), 8: (0.01, 0.03), 16: (0.0, 0.03), 32: (-0.01, 0.02)}
    assert ahead(intervals(spans)) == (
        "**x** is ahead at k = 8; **y** is ahead at k = 1; the interval contains 0 at k = 16 and 32"
    )
    level = intervals({1: (-0.05, 0.01), 8: (-0.02, 0.02)})
    assert ahead(level) == "no significant difference at any k"
