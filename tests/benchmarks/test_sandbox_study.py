"""The study of recipes: what it runs, what it keeps, and what its tables say."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies import sandbox_study as study
from benchmarks.studies import sandbox_study_table as tables
from benchmarks.studies.sandbox_study import Point
from benchmarks.studies.sandbox_study_plan import TUNING, Stage
from benchmarks.studies.sandbox_world import World

ROOT = Path(__file__).parents[2]


def row(point: Point, share: float, **more: Any) -> dict[str, Any]:
    right = f"{round(64 * share)} {round(64 * share)} 0"
    scores = {f"pass@{k}": share for k in study.KS}
    return {**vars(point), "drawn": 15360, "dead": 0.5, "minutes": 4.0, **more, **scores, "correct": right}


def test_the_best_rate_of_the_tuning_seeds_is_taken_and_a_missing_run_is_named() -> None:
    shares = {1e-4: (0.6, 0.9), 2e-4: (0.8, 0.8), 3e-4: (0.1, 0.95)}
    rows = {
        point: row(point, share)
        for rate, both in shares.items()
        for seed, share in zip(TUNING, both, strict=True)
        for point in [Point("A", "grpo", rate, seed, 120)]
    }
    assert study.best_rate("A", "grpo", rows) == 2e-4
    assert study.best_rate("A", "grpo_kl", rows) == 2e-4
    assert study.best_rate("A", "max_rl", rows) == 2e-4
    with pytest.raises(ValueError, match="no rate for ta_rescue in world A"):
        study.best_rate("A", "rescue_own", rows)
    confirm = list(study.cells(Stage(("grpo",), None, (1, 2), (60, 120)), ["A"], rows))
    assert [cell.name for cell in confirm] == [
        "A-base-0-s0-0",
        "A-grpo-0.0002-s1-120",
        "A-grpo-0.0002-s2-120",
    ]


KILLED = """
import os

def train(place, world, cell):
    if cell.seed == 1:
        os.kill(os.getpid(), 9)
    return []
"""


@pytest.mark.slow
def test_a_training_that_is_killed_is_named_and_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "prepare", lambda world: None)
    monkeypatch.setitem(study.STAGES, "killed", Stage(("grpo",), (1e-4,), (1, 2), (60,)))
    given = argparse.Namespace(stage="killed", worlds="A", folder=tmp_path, jobs=1, done=None, rates=None)
    (tmp_path / "killed_training.py").write_text(KILLED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (killed,) = study._run(given, tmp_path, import_module("killed_training").train)
    assert killed.startswith("A-grpo-0.0001-s1-60: BrokenProcessPool: ")
    assert (tmp_path / "cells" / "A-grpo-0.0001-s2-60" / "result.json").exists()


def test_an_interval_holds_seeds_and_questions() -> None:
    chance = np.random.default_rng(0)
    seeds, questions, covered, times = 5, 40, 0, 400
    for _ in range(times):
        hardness = chance.normal(0, 0.1, questions)
        gain = 0.05 + chance.normal(0, 0.1, questions)

        def draw(level: Any) -> Any:
            return level + chance.normal(0, 0.04, (seeds, 1)) + chance.normal(0, 0.02, (seeds, questions))

        _, low, high = tables.difference(draw(hardness + gain), draw(hardness))
        covered += low <= 0.05 <= high
    assert 0.93 <= covered / times <= 0.99
    mean, low, high = tables.difference(np.array([[0.5, 0.7]]), np.array([[0.4, 0.4], [0.2, 0.6]]))
    assert mean == pytest.approx(0.2)
    assert np.isnan([low, high]).all()


def test_the_page_has_the_table_of_the_csv() -> None:
    page = (ROOT / "docs" / "studies" / "recipes.md").read_text(encoding="utf-8")
    rows, plain = study.read_summary(tables.DATA), study.read_summary(tables.PLAIN)
    assert rows
    assert "\n".join(tables.table(rows)) in page
    for each in (*rows.values(), *plain.values()):
        for k in study.KS:
            share = float(tables.values([each], k).mean())
            assert share == pytest.approx(float(each[f"pass@{k}"]), rel=1e-4)
