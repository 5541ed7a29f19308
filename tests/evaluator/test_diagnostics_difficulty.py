"""The difficulty audit: levels by simulation, exact small cases, strategies, odd neighbors."""

from math import comb

import numpy as np
import pytest

from evaluator.signal.difficulty import EVERY_STRATEGY, homogeneity, strategy_shifts
from evaluator.signal.groups import PromptSample, QuestionGroup


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of the spread need not be exact here."""
    monkeypatch.setattr("evaluator.signal.forecast.REPLICATES", 6)


def make_groups(
    rng: np.random.Generator,
    questions: int,
    m: int,
    *,
    sd: float,
    shifts: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> list[QuestionGroup]:
    groups = []
    for number in range(questions):
        logit = 1.5 * rng.standard_normal()
        prompts = []
        for variant, shift in enumerate((None, *shifts)):
            moved = 0.0 if shift is None else shift + sd * rng.standard_normal()
            correct = int(rng.binomial(m, 1 / (1 + np.exp(-logit - moved))))
            strategy = None if shift is None else f"s{variant}"
            prompts.append(PromptSample(variant, correct, m - correct, 0, strategy, f"c{number}_{variant}"))
        groups.append(QuestionGroup(f"q{number}", tuple(prompts)))
    return groups


def test_the_p_value_is_that_of_the_exact_conditional_distribution() -> None:
    correct, known = np.array([[3, 0]]), np.array([[3, 3]])
    weights = {
        c: comb(3, c) * comb(3, 3 - c) / comb(6, 3) for c in range(4)
    }  # both extreme tables are as odd
    found = homogeneity(correct, known, draws=20_000)
    assert found["p_value"] == pytest.approx(weights[3] + weights[0], abs=0.01)
    assert found["statistic"] == pytest.approx(2 * 6 * np.log(2))


def test_strategies_that_shift_difficulty_are_found() -> None:
    rng = np.random.default_rng(2)
    rows = strategy_shifts(make_groups(rng, 300, 16, sd=0.5, shifts=(-0.8, 0.0, 0.6)))
    found = {row["strategy"]: row for row in rows}
    assert rows[0]["strategy"] == EVERY_STRATEGY
    assert rows[0]["adjusted"] is None
    for name, true in (("s1", -0.8), ("s2", 0.0), ("s3", 0.6)):
        row = found[name]
        assert row["logit_shift"] == pytest.approx(true, abs=0.2)
        assert row["low"] < row["logit_shift"] < row["high"]
        assert row["neighbors"] == row["questions"] == 300
    assert found["s1"]["adjusted"] < 0.001
    assert found["s2"]["adjusted"] > 0.05
    assert found["s1"]["rate_value"] < 0 < found["s3"]["rate_value"]
