"""The sandbox's study: recipes trained by verl on the CPU in small worlds, several seeds, held-out pass@k.

`docs/studies/recipes.md` and `sandbox_study_plan.py` say what is compared, at which rates and by which
rule. A training is evaluated after each of its `points` (steps), as its learning rate is
constant. All is done by ordinary `tagrpo` commands, which are kept beside the result; what is finished is not
done again, what was interrupted goes on from its last checkpoint. The neighbors are true ones (other
phrasings of the problem), so nothing is verified here.

    python -m benchmarks.studies.sandbox_study FOLDER rates --worlds A   # then confirm, equal_rate, ...
    python -m benchmarks.studies.sandbox_study FOLDER --summary study.csv  # runs nothing

`--plain` trains and evaluates by `sandbox_plain.py` in place of verl, and keeps that in FOLDER/plain.
`--summary` writes all finished evaluations as CSV; rows of other folders that are there already stay.
`--done FILE.csv` takes those for finished, and rates from it; `--rates FILE.csv` takes rates alone.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import training_overrides
from benchmarks.studies.sandbox_study_plan import ALL, RATES, STAGES, TUNING, Stage
from benchmarks.studies.sandbox_world import SAMPLES, World, evaluate, tagrpo
from evaluator.evals.results import load_result
from evaluator.passk.counts import values_over_k
from sandbox.demo.steps import LONGEST_RESPONSE
from service.database import Database
from service.runs.store import list_runs
from service.writing import write_file
from trainer_adapter.record.files import read_metrics

QUESTIONS = 16
KS = (1, 2, 4, 8, 16, 32)
BASE = "base"


@dataclass(frozen=True, order=True)
class Point:
    """A row of the study: a training after so many steps; of the base, 0 steps at rate 0."""

    world: str
    recipe: str
    rate: float
    seed: int
    steps: int


@dataclass(frozen=True, order=True)
class Cell:
    """One training with its evaluations; `base` is the evaluation of the policy that all start from."""

    world: str
    recipe: str
    rate: float
    seed: int
    points: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.world}-{self.recipe}-{self.rate:g}-s{self.seed}-{self.points[-1]}"

    def rows(self) -> list[Point]:
        return [Point(self.world, self.recipe, self.rate, self.seed, steps) for steps in self.points]


Rows = Mapping[Point, Mapping[str, Any]]


def cells(stage: Stage, worlds: list[str], rows: Rows) -> Iterator[Cell]:
    """Yield the trainings, seed by seed, so that an unfinished study is a comparison too."""
    for world in worlds:
        yield Cell(world, BASE, 0.0, 0, (0,))
    for seed in stage.seeds:
        for world in worlds:
            for recipe in stage.recipes:
                for rate in stage.rates or (best_rate(world, recipe, rows),):
                    yield Cell(world, recipe, rate, seed, stage.points)


def best_rate(world: str, recipe: str, rows: Rows) -> float:
    """Return the rate of the highest mean pass@1 over the tuning seeds of that world.

    What is changed has the rate of the recipe that it changes, a world of another size that of its letter.
    Raises ValueError where a tuning run is missing.
    """
    world, tuned = world[0], ALL[recipe].rate_of or recipe
    steps = STAGES["rates"].points[-1]
    means = {}
    for rate in RATES:
        points = [Point(world, tuned, rate, seed, steps) for seed in TUNING]
        missing = [point for point in points if point not in rows]
        if missing:
            raise ValueError(f"no rate for {tuned} in world {world}: run stage `rates` first ({missing[0]})")
        means[rate] = statistics.fmean(float(rows[point]["pass@1"]) for point in points)
    return max(means, key=lambda rate: means[rate])


Trainer = Callable[[Path, World, Cell], list[dict[str, Any]]]
"""Trains a cell in a folder and evaluates it; returns its rows."""


def run_cell(kept: Path, world: World, cell: Cell, trainer: Trainer) -> None:
    """Train and evaluate, and write the cell's rows at one stroke."""
    place = kept / "cells" / cell.name
    result = place / "result.json"
    if result.exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    rows = trainer(place, world, cell)

    def write(target: Path) -> None:
        target.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    write_file(result, write, overwrite=True)
    shutil.rmtree(place / "run" / "checkpoints", ignore_errors=True)


def train_plainly(place: Path, world: World, cell: Cell) -> list[dict[str, Any]]:
    """Train and evaluate by `sandbox_plain.py`, on one thread."""
    import torch

    from benchmarks.studies.sandbox_plain import train

    torch.set_num_threads(1)
    rows = train(world.folder, cell.recipe, cell.rate, cell.seed, cell.points)
    points = zip(cell.rows(), rows, strict=True)
    return [{**row, **vars(point), **_scores(row["correct"])} for point, row in points]


def train_by_verl(place: Path, world: World, cell: Cell) -> list[dict[str, Any]]:
    """Train by verl and evaluate, by commands of tagrpo."""
    run, log = place / "run", place / "commands.sh"
    first_attempt, started = not log.exists(), time.monotonic()
    if cell.recipe != BASE:
        _train(log, world, cell, run)
    minutes = round((time.monotonic() - started) / 60, 2) if first_attempt else ""
    rows = []
    for point in cell.rows():
        trained = run / "checkpoints" / f"global_step_{point.steps}" / "actor" / "huggingface"
        database = place / f"eval-{point.steps}.db"
        evaluate(log, world, trained if point.steps else world.policy, database)
        training = _training(run, point.steps) if point.steps else {"drawn": 0}
        training = {**training, "minutes": minutes if point.steps == cell.points[-1] else ""}
        rows.append({**vars(point), **training, **_scores(_correct(database))})
    return rows


def _train(log: Path, world: World, cell: Cell, run: Path) -> None:
    compared = ALL[cell.recipe]
    if compared.changes is None:
        raise RuntimeError(f"{cell.recipe} is for the plain loop alone: --plain")
    no_penalty = () if any("kl_coef" in change for change in compared.changes) else ("loss.kl_coef=0",)
    save = min(60, *cell.points)
    tagrpo(
        log,
        *(
            "train",
            "run",
            compared.recipe,
            "--data",
            str(world.export),
            "--model",
            str(world.policy),
            "--cpu",
        ),
        *("--hide-log", "--name", cell.name, f"folder={run}", "--db", str(run.parent / "run.db")),
        *(*compared.changes, *no_penalty, "run.poll_interval_s=0.1"),
        *training_overrides(
            questions=QUESTIONS, rate=cell.rate, seed=cell.seed, steps=cell.points[-1], save=save
        ),
        "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192",
        f"verl.data.max_response_length={LONGEST_RESPONSE}",
    )


def _correct(database: Path) -> list[int]:
    with Database.open(database, read_only=True) as opened, opened.read() as session:
        (run,) = list_runs(session)
        return [int(count) for count in load_result(session, run).counts.correct]


def _scores(correct: Sequence[int]) -> dict[str, Any]:
    """Return pass@k and the right answers among `SAMPLES` to each question."""
    scores = values_over_k(np.full(len(correct), SAMPLES), np.array(correct), KS).mean(1)
    return {
        **{f"pass@{k}": float(score) for k, score in zip(KS, scores, strict=True)},
        "correct": " ".join(map(str, correct)),
    }


def _training(run: Path, last: int) -> dict[str, Any]:
    """Return what the first `last` steps drew, and their share of groups without a gradient."""
    metrics, _ = read_metrics(run / "rollouts")
    steps = [metrics[step] for step in sorted(metrics) if step <= last]
    return {
        "drawn": round(sum(step["tagrpo/batch/responses"] for step in steps)),
        "dead": statistics.fmean(step["tagrpo/zero/group/share"] for step in steps),
    }


def read_results(folder: Path) -> dict[Point, dict[str, Any]]:
    """Return the rows of all finished cells."""
    results = (json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("cells/*/result.json")))
    return {_point(row): row for rows in results for row in rows}


def _point(row: Mapping[str, Any]) -> Point:
    return Point(row["world"], row["recipe"], float(row["rate"]), int(row["seed"]), int(row["steps"]))


def read_summary(path: Path) -> dict[Point, dict[str, Any]]:
    """Return the rows of a summary that was written before; none where there is no such file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {_point(row): row for row in csv.DictReader(file)}


def write_summary(results: Rows, target: Path) -> None:
    """Write one row a point; `correct` holds the right answers of `SAMPLES` to each question, as in the file.

    Rows that are not among `results` stay as they are.
    """
    rows: dict[Point, Mapping[str, Any]] = {**read_summary(target), **results}
    last = [*(f"pass@{k}" for k in KS), "correct"]
    first = list(dict.fromkeys(key for row in rows.values() for key in row if key not in last))

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*first, *last], lineterminator="\n")
            writer.writeheader()
            for point in sorted(rows):
                writer.writerow({key: _short(value) for key, value in rows[point].items()})

    write_file(target, write, overwrite=True)


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where everything is kept; a second run goes on there")
    parser.add_argument("stage", nargs="?", choices=STAGES)
    parser.add_argument("--worlds", help="in place of the stage's")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--done", type=Path, help="a summary whose rows are not made again")
    parser.add_argument("--rates", type=Path, help="a summary to take rates from, and nothing else")
    parser.add_argument("--plain", action="store_true", help="by sandbox_plain.py in place of verl")
    parser.add_argument("--summary", type=Path, help="write the finished rows as CSV, and run nothing")
    given = parser.parse_args()
    if (given.stage is None) == (given.summary is None):
        parser.error("name a stage to run, or say --summary FILE.csv to write what is finished")
    kept, trainer = (given.folder / "plain", train_plainly) if given.plain else (given.folder, train_by_verl)
    failed = [] if given.summary else _run(given, kept, trainer)
    for text in failed:
        print(text, file=sys.stderr)
    rows = read_results(kept)
    if given.summary:
        write_summary(rows, given.summary)
    minutes = round(sum(float(row.get("minutes") or 0) for row in rows.values()), 1)
    print(json.dumps({"rows": len(rows), "minutes": minutes, "failed": len(failed)}))
    return 1 if failed else 0


def _run(given: argparse.Namespace, kept: Path, trainer: Trainer) -> list[str]:
    """Run what is missing of a stage; return what failed."""
    stage = STAGES[given.stage]
    worlds = given.worlds.split(",") if given.worlds else list(stage.worlds)
    done = {**(read_summary(given.done) if given.done else {}), **read_results(kept)}
    tuned = {**(read_summary(given.rates) if given.rates else {}), **done}
    missing = [cell for cell in cells(stage, worlds, tuned) if not done.keys() >= set(cell.rows())]
    folders = {name: World(given.folder, name) for name in worlds}
    for world in folders.values():
        world.prepare()
    with ThreadPoolExecutor(given.jobs) as pool:
        each = [pool.submit(_attempt, kept, folders[cell.world], cell, trainer) for cell in missing]
        return [text for text in (future.result() for future in each) if text]


def _attempt(kept: Path, world: World, cell: Cell, trainer: Trainer) -> str:
    """Run a cell in a process of its own, whose end ends no other cell; return why it failed, or ""."""
    started = time.monotonic()
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            process.submit(run_cell, kept, world, cell, trainer).result()
    except Exception as error:
        return f"{cell.name}: {type(error).__name__}: {error}"
    print(f"{cell.name}: {time.monotonic() - started:.0f} s", flush=True)
    return ""


if __name__ == "__main__":
    sys.exit(main())
