"""The study's table and picture, from its CSV: recipes beside each other, with their spread over seeds.

Differences are to `grpo_matched` (GRPO with as many responses as TA-GRPO) of the same world and seeds, at
equal steps; of what was trained longer, at equal responses. The interval is for new questions of the same
kind: seeds are averaged question by question first. It holds nothing of what other seeds would give; the
spread over seeds stands beside it.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import ROOT
from benchmarks.studies.sandbox_study import BASE, KS, SAMPLES
from evaluator.passk.comparison import paired_bounds
from evaluator.passk.curves import values_over_k
from evaluator.passk.intervals import new_problems_bounds

DATA = ROOT / "docs" / "data" / "sandbox-study-former-policy.csv"
PICTURE = ROOT / "docs" / "pictures" / "sandbox-study-former-policy.svg"
SHOWN = (1, 8, 32)
COMPARED = "grpo_matched"
DRAWN = (BASE, "grpo", COMPARED, "ta_grpo", "ta_grpo_star")
"""Lines of the picture: more cannot be told apart."""


@dataclass(frozen=True)
class Cell:
    """One training: who, and pass@k of each question [K, M] for all of `KS`."""

    world: str
    recipe: str
    steps: int
    seed: int
    numbers: dict[str, float]
    values: Any


def read_cells(path: Path) -> list[Cell]:
    """Return the rows of the study's CSV."""
    cells = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            correct = np.array([int(count) for count in row.pop("correct").split()])
            values = values_over_k(np.full(len(correct), SAMPLES), correct, KS)
            who = row.pop("world"), row.pop("recipe"), int(row.pop("steps")), int(row.pop("seed"))
            numbers = {name: float(value) for name, value in row.items() if value}
            cells.append(Cell(*who, numbers, values))
    return cells


def table(cells: list[Cell]) -> list[str]:
    """Return the lines of a Markdown table: one a world, recipe and number of steps."""
    head = ["world", "recipe", "steps", "seeds", "responses drawn", "groups without gradient"]
    head += [f"pass@{k}" for k in SHOWN] + [f"to {COMPARED} @{k}" for k in SHOWN]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for group in groups(cells):
        first, base = group[0], group[0].recipe == BASE
        drawn = "" if base else f"{mean(group, 'drawn') / 1000:.1f}k"
        zero = "" if base else f"{mean(group, 'zero_group'):.2f}".lstrip("0")
        row = [first.world, first.recipe, "" if base else str(first.steps), "" if base else str(len(group))]
        row += [drawn, zero, *(spread([value_at(cell, k) for cell in group]) for k in SHOWN)]
        row += [difference(group, cells, k) for k in SHOWN]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def groups(cells: list[Cell]) -> list[list[Cell]]:
    """Return the cells of each world, recipe and number of steps; the base first."""
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.world, cell.recipe != BASE, cell.recipe, cell.steps)):
        found.setdefault((cell.world, cell.recipe, cell.steps), []).append(cell)
    return list(found.values())


def mean(group: list[Cell], name: str) -> float:
    return statistics.fmean(cell.numbers[name] for cell in group)


def value_at(cell: Cell, k: int) -> float:
    return float(cell.values[KS.index(k)].mean())


def spread(values: list[float]) -> str:
    """Return the mean, and the standard deviation over seeds where there are several."""
    text = f"{statistics.fmean(values):.3f}".lstrip("0")
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.3f}".replace("0.", ".")
    return text


def difference(group: list[Cell], cells: list[Cell], k: int) -> str:
    """Return the mean difference to `COMPARED` of the same seeds, with its interval, in points.

    At equal steps; where it was not trained for as many, at equal responses.
    """
    there = [cell for cell in cells if (cell.world, cell.recipe) == (group[0].world, COMPARED)]
    equal_steps = [cell for cell in there if cell.steps == group[0].steps]
    equal_responses = [cell for cell in there if cell.numbers["drawn"] == group[0].numbers.get("drawn")]
    others = {cell.seed: cell for cell in equal_steps or equal_responses}
    pairs = [(cell, others[cell.seed]) for cell in group if cell.seed in others]
    if group[0].recipe in (BASE, COMPARED) or not pairs:
        return ""
    row = KS.index(k)
    per_question = np.mean([a.values[row] - b.values[row] for a, b in pairs], axis=0)
    low, high = paired_bounds(per_question[None])
    ends = f"{100 * float(low[0]):+.1f} to {100 * float(high[0]):+.1f}"
    return f"{100 * float(per_question.mean()):+.1f} [{ends}]"


def curve_rows(cells: list[Cell]) -> list[dict[str, Any]]:
    """Return what the chart of pass@k takes: the mean over seeds, with its interval for new questions."""
    most = max((cell.steps for cell in cells if cell.recipe == COMPARED), default=0)
    rows = []
    for group in groups([c for c in cells if c.recipe in DRAWN and c.steps in (0, most)]):
        values = np.mean([cell.values for cell in group], axis=0)
        low, high = new_problems_bounds(values)
        first = group[0]
        rows += [
            {
                "run": f"{first.world}-{first.recipe}",
                "label": first.recipe,
                "benchmark": f"world {first.world}",
                "k": k,
                "value": float(values[row].mean()),
                "value_high": float(values[row].mean()),
                "low": float(low[row]),
                "high": float(high[row]),
                "interval": "new problems",
                "problems": values.shape[1],
                "samples": SAMPLES,
            }
            for row, k in enumerate(KS)
        ]
    return sorted(rows, key=lambda row: (row["benchmark"], DRAWN.index(row["label"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv", type=Path, nargs="?", default=DATA)
    parser.add_argument(
        "--picture", type=Path, help=f"draw pass@k there, such as {PICTURE.relative_to(ROOT)}"
    )
    arguments = parser.parse_args()
    cells = read_cells(arguments.csv)
    print("\n".join(table(cells)))
    if arguments.picture:
        from ui.charts.eval_curves import curve_chart, save_chart

        save_chart(curve_chart(pd.DataFrame(curve_rows(cells))), arguments.picture)
    print(json.dumps({"cells": len(cells), "worlds": sorted({cell.world for cell in cells})}))


if __name__ == "__main__":
    main()
