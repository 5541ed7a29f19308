"""The study's page says what its CSV says."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    name = "sandbox_study_table"
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_csv(study: ModuleType) -> None:
    lines = study.table(study.read_cells(study.DATA))
    assert len(lines) >= 2 + 4
    assert "\n".join(lines) in (ROOT / "docs" / "sandbox-study.md").read_text(encoding="utf-8")


def test_the_stored_counts_give_the_stored_scores(study: ModuleType) -> None:
    for cell in study.read_cells(study.DATA):
        for k in study.KS:
            assert study.value_at(cell, k) == pytest.approx(cell.numbers[f"pass@{k}"], rel=1e-4)


def test_differences_are_paired_by_seed(study: ModuleType) -> None:
    cells = [cell for cell in study.read_cells(study.DATA) if cell.world == "A"]
    ours, matched = ([cell for cell in cells if cell.recipe == name] for name in ("ta_grpo", "grpo_matched"))
    seeds = {cell.seed for cell in ours} & {cell.seed for cell in matched}
    assert seeds
    expected = [
        study.value_at(a, 1) - study.value_at(b, 1)
        for a in ours
        for b in matched
        if a.seed == b.seed and a.steps == b.steps
    ]
    said = float(study.difference(ours, cells, 1).split(" ")[0])
    assert said == pytest.approx(100 * sum(expected) / len(expected), abs=0.051)
