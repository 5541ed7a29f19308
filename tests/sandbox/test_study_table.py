"""The study's page says what its CSV says."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import sandbox_study_table as study
from benchmarks.studies.sandbox_study import Cell, read_summary, write_commands, write_summary

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_of_the_csv() -> None:
    lines = study.table(study.read_cells(study.DATA))
    assert len(lines) >= 2 + 4
    assert "\n".join(lines) in (ROOT / "docs" / "sandbox-study-former-policy.md").read_text(encoding="utf-8")


def test_the_stored_counts_give_the_stored_scores() -> None:
    for cell in study.read_cells(study.DATA):
        for k in study.KS:
            assert study.value_at(cell, k) == pytest.approx(cell.numbers[f"pass@{k}"], rel=1e-4)


def test_differences_are_paired_by_seed() -> None:
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


def test_a_summary_keeps_what_another_folder_gave(tmp_path: Path) -> None:
    def result(recipe: str, share: float) -> dict[str, Any]:
        scores = {str(k): share for k in study.KS}
        return {"world": "A", "recipe": recipe, "seed": 1, "steps": 60, "pass": scores, "correct": [9, 0, 64]}

    target, commands = tmp_path / "study.csv", tmp_path / "study.sh"
    for recipe, share in (("ta_grpo", 0.5), ("grpo", 0.25), ("grpo", 0.75)):
        folder = tmp_path / recipe / f"{share}"
        cell = folder / "cells" / f"A-{recipe}-s1-60"
        cell.mkdir(parents=True)
        (cell / "result.json").touch()
        (cell / "commands.sh").write_text(f"tagrpo train run {recipe} --folder {cell}/run\n")
        write_summary([result(recipe, share)], target)
        write_commands(folder, commands)
    assert [(cell.recipe, row["pass@8"]) for cell, row in read_summary(target).items()] == [
        ("grpo", "0.75"),
        ("ta_grpo", "0.5"),
    ]
    assert read_summary(target)[Cell("A", "ta_grpo", 1, 60)]["correct"] == "9 0 64"
    assert commands.read_text().splitlines() == [
        "STUDY=study",
        "export OMP_NUM_THREADS=1",
        "",
        "# A-grpo-s1-60",
        "tagrpo train run grpo --folder $STUDY/cells/A-grpo-s1-60/run",
        "",
        "# A-ta_grpo-s1-60",
        "tagrpo train run ta_grpo --folder $STUDY/cells/A-ta_grpo-s1-60/run",
    ]
