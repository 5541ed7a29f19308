"""The sandbox's study: recipes trained by real verl in small worlds, several seeds, held-out pass@k.

A cell is one training (world, recipe, seed, steps) and its evaluation. Each cell is done by ordinary `tagrpo`
commands, which are kept beside its result; a finished cell is not done again, one that was interrupted goes
on from its last checkpoint. `--jobs 2` works on two at a time. `--summary FILE.csv` writes all finished cells
as CSV, and beside it as FILE.sh the commands that they ran, without running anything; cells that stand there
already, from another folder, stay. `--done FILE.csv` takes those for finished. The neighbors are true ones
(other phrasings of the same problem), so nothing is verified here.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluator.evals.results import load_result
from evaluator.passk.curves import curve
from sandbox.demo.steps import LONGEST_PROMPT, LONGEST_RESPONSE
from sandbox.policy import SHIPPED
from service.database import Database
from service.runs.store import list_runs
from service.writing import write_file
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.record.reading import read_metrics

THREE_SEEDS = (
    "grpo",
    "grpo_ds",
    "grpo_matched",
    "ta_grpo",
    "ta_grpo_v1",
    "ta_grpo_star",
    "ta_grpo_corrected",
    "ta_a_grae",
)
ONE_SEED = ("a_grae", "cw_grpo", "w_reinforce", "dr_grpo", "ta_cw_grpo")
STEPS, QUESTIONS, MINI_BATCH, LEARNING_RATE = 60, 16, 8, 1e-4
KS = (1, 2, 4, 8, 16, 32)
SAMPLES = 64
BASE = "base"


@dataclass(frozen=True, order=True)
class Cell:
    """One training and its evaluation; `base` is the evaluation of the policy that all start from."""

    world: str
    recipe: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.world}-{self.recipe}-s{self.seed}-{self.steps}"


def cells(worlds: list[str], recipes: list[str] | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells, seed by seed, so that an unfinished study is a comparison too.

    `grpo` draws a quarter of the responses of the others: beside equal steps it is trained for four times
    as many steps, to equal responses.
    """
    for world in worlds:
        yield Cell(world, BASE, 0, 0)
    for seed in range(1, seeds + 1):
        for world in worlds:
            for recipe in recipes or (*THREE_SEEDS, *(ONE_SEED if seed == 1 else ())):
                yield Cell(world, recipe, seed, STEPS)
                if recipe == "grpo":
                    yield Cell(world, recipe, seed, STEPS * RECIPES["grpo_matched"].responses // 8)


class World:
    """A world's folder: questions, policy, neighbor set, export for verl."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / f"world-{name}", name
        self.policy, self.export = self.folder / "policy", self.folder / "verl"
        self.heldout = self.folder / "questions" / "heldout.jsonl"

    def prepare(self) -> None:
        """Make what is missing, by commands that are kept in `commands.sh`."""
        folder, db = self.folder, ("--db", str(self.folder / "tagrpo.db"))
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "commands.sh"
        questions, candidates = folder / "questions", folder / "candidates.jsonl"
        if not self.policy.exists():
            if self.name in SHIPPED:
                tagrpo(log, "sandbox", "policy", str(self.policy), "--world", self.name)
            else:
                tagrpo(log, "sandbox", "pretrain", str(self.policy), "--world", self.name, "--threads", "1")
        if not questions.exists():
            tagrpo(log, "sandbox", "questions", str(questions), "--world", self.name)
        if not candidates.exists():
            truth = ("--truth", str(folder / "truth.jsonl"))
            options = ("--per-question", "3", "--broken", "0", *truth)
            tagrpo(log, "sandbox", "candidates", str(questions), "--out", str(candidates), *options)
        if not self.export.exists():
            tagrpo(log, "questions", "import", str(questions / "train.jsonl"), "--name", "study", *db)
            proposing = ("--proposer", "file", "--candidates", str(candidates), "--n", "3", *db)
            tagrpo(log, "neighbors", "propose", "study", "--name", "true", *proposing)
            tagrpo(
                log, "sets", "publish", "study", "--run", "true", "--include", "unverified", "--n", "3", *db
            )
            limits = ("--instruction", "", "--max-prompt-tokens", str(LONGEST_PROMPT))
            to = ("--format", "verl", "--tokenizer", str(self.policy), *limits, *db)
            tagrpo(log, "sets", "export", "study@1", "--out", str(self.export), *to)


def tagrpo(log: Path, *arguments: str) -> None:
    """Run a command of tagrpo, keep it in the log, and raise where it fails."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"tagrpo {shlex.join(arguments)}\n")
    command = [sys.executable, "-c", "from ui.cli.app import main; main()", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.with_suffix(".log").open("a", encoding="utf-8") as output:
        found = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
    if found.returncode:
        raise RuntimeError(f"exit code {found.returncode}, see {output.name}: tagrpo {shlex.join(arguments)}")


def run_cell(folder: Path, cell: Cell) -> None:
    """Train and evaluate, and write the cell's result at one stroke."""
    place = folder / "cells" / cell.name
    result = place / "result.json"
    if result.exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    world, run = World(folder, cell.world), place / "run"
    log, model = place / "commands.sh", world.policy
    first_attempt, started = not log.exists(), time.monotonic()
    if cell.recipe != BASE:
        _train(log, world, cell, run)
        model = run / "checkpoints" / f"global_step_{cell.steps}" / "actor" / "huggingface"
    database = place / "eval.db"
    _evaluate(log, world, model, database)
    found = {
        **asdict(cell),
        **_scores(database),
        **(_training(run) if cell.recipe != BASE else {"drawn": 0}),
        "minutes": round((time.monotonic() - started) / 60, 2) if first_attempt else None,
    }

    def write(target: Path) -> None:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    if cell.recipe != BASE:
        if (place / "model").exists():
            shutil.rmtree(place / "model")
        shutil.copytree(model, place / "model")
    write_file(result, write, overwrite=True)
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def _train(log: Path, world: World, cell: Cell, run: Path) -> None:
    actor = "actor_rollout_ref.actor"
    epochs = -(-cell.steps * QUESTIONS // 256) * 8  # dynamic sampling draws more questions than it trains on
    tagrpo(
        log,
        *("train", "run", cell.recipe, "--data", str(world.export), "--model", str(world.policy), "--cpu"),
        *("--hide-log", "--name", cell.name, "--folder", str(run), "--db", str(run.parent / "run.db")),
        f"data.train_batch_size={QUESTIONS}",
        f"{actor}.ppo_mini_batch_size={MINI_BATCH}",
        f"{actor}.optim.lr={LEARNING_RATE:g}",
        f"{actor}.optim.lr_scheduler_type=constant",
        f"{actor}.optim.lr_warmup_steps_ratio=0",
        f"{actor}.ppo_max_token_len_per_gpu=8192",
        f"data.max_response_length={LONGEST_RESPONSE}",
        f"trainer.total_epochs={epochs}",
        f"trainer.total_training_steps={cell.steps}",
        "trainer.save_freq=20",
        f"{actor}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        f"data.seed={cell.seed}",
        f"tagrpo_run.seed={cell.seed}",
        "tagrpo_run.poll_interval_s=0.1",
    )


def _evaluate(log: Path, world: World, model: Path, database: Path) -> None:
    tagrpo(
        log,
        *("eval", "run", str(world.heldout), "--name", "study", "--model", str(model), "--dtype", "float32"),
        *("--n", str(SAMPLES), "--preset", "plain", "--temperature", "1.0", "--top-p", "1.0"),
        *("--max-tokens", str(LONGEST_RESPONSE), "--samples-per-request", "32", "--batch-size", "256"),
        *("--db", str(database)),
    )


def _scores(database: Path) -> dict[str, Any]:
    with Database.open(database, read_only=True) as opened, opened.read() as session:
        (run,) = list_runs(session)
        counts = load_result(session, run).counts
    points = curve(counts, KS).points
    return {
        "pass": {point.k: point.value for point in points},
        "low": {point.k: point.new_problems.low for point in points},
        "high": {point.k: point.new_problems.high for point in points},
        "correct": [int(c) for c in counts.correct],
        "problems": list(counts.problem_ids),
    }


def _training(run: Path) -> dict[str, Any]:
    metrics = read_metrics(run / "rollouts")
    steps = [metrics[step] for step in sorted(metrics)]

    def mean(name: str) -> float | None:
        values = [step[name] for step in steps if name in step]
        return sum(values) / len(values) if values else None

    def drawn(step: dict[str, float]) -> float:
        trained = step["tagrpo/batch/responses"]
        asked = step.get("tagrpo/filter/questions_drawn")
        return trained if asked is None else asked * trained / step["tagrpo/batch/questions"]

    first, last = steps[:5], steps[-5:]
    return {
        "drawn": round(sum(drawn(step) for step in steps)),
        "trained_on": round(sum(step["tagrpo/batch/responses"] for step in steps)),
        "zero_group": mean("tagrpo/zero/group/share"),
        "zero_original": mean("tagrpo/zero/original/share"),
        "zero_joint": mean("tagrpo/zero/joint/share"),
        "entropy_first": sum(step["tagrpo/entropy/mean"] for step in first) / len(first),
        "entropy_last": sum(step["tagrpo/entropy/mean"] for step in last) / len(last),
        "ess_neighbors": mean("tagrpo/anchor/ess/neighbors"),
        "log_ratio_neighbors": mean("tagrpo/anchor/log_ratio/neighbors"),
        "clip_fraction": mean("actor/pg_clipfrac"),
        "grad_norm_most": max(step["actor/grad_norm"] for step in steps),
        "seconds_a_step": mean("timing_s/step"),
    }


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of all finished cells."""
    return [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("cells/*/result.json"))
    ]


NOT_NUMBERS = ("pass", "low", "high", "correct", "problems")


def read_summary(path: Path) -> dict[Cell, dict[str, str]]:
    """Return the rows of a summary that was written before; none where there is no such file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            Cell(row["world"], row["recipe"], int(row["seed"]), int(row["steps"])): row
            for row in csv.DictReader(file)
        }


def write_summary(results: list[dict[str, Any]], target: Path) -> None:
    """Write one row a cell; `correct` holds the right answers of `SAMPLES` to each question, as in the file.

    Rows of cells that are not among `results` stay as they are.
    """
    rows: dict[Cell, dict[str, Any]] = {**read_summary(target)}
    for each in results:
        rows[Cell(each["world"], each["recipe"], each["seed"], each["steps"])] = {
            **{
                key: _short(value)
                for key, value in each.items()
                if key not in NOT_NUMBERS and value is not None
            },
            **{f"pass@{k}": _short(each["pass"][str(k)]) for k in KS},
            "correct": " ".join(map(str, each["correct"])),
        }
    last = [*(f"pass@{k}" for k in KS), "correct"]
    numbers = dict.fromkeys(key for row in rows.values() for key in row if key not in last)

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*numbers, *last], lineterminator="\n")
            writer.writeheader()
            ordered = sorted(rows, key=lambda cell: (cell.world, cell.recipe, cell.steps, cell.seed))
            writer.writerows(rows[cell] for cell in ordered)

    write_file(target, write, overwrite=True)


_PLACE = re.compile(r"\S*/(?=(?:world-[A-Z]|cells)/)")
"""Where a study's folder lay, before what is in it; one that was moved has had several places."""


def write_commands(folder: Path, target: Path) -> None:
    """Write what the worlds and the finished cells ran, with the study's folder as `$STUDY`; others stay."""
    first = "STUDY=study\nexport OMP_NUM_THREADS=1"
    before = target.read_text(encoding="utf-8").rstrip("\n").split("\n\n# ")[1:] if target.exists() else []
    parts = {part.partition("\n")[0]: part for part in before}
    worlds = folder.glob("world-*/commands.sh")
    cells = (path.with_name("commands.sh") for path in folder.glob("cells/*/result.json"))
    for path in (*worlds, *cells):
        commands = dict.fromkeys(path.read_text(encoding="utf-8").splitlines())  # resumed: the same again
        name = path.parent.name
        parts[name] = "\n".join([name, *(_PLACE.sub("$STUDY/", line) for line in commands)])
    ordered = sorted(parts, key=lambda name: (not name.startswith("world-"), name))
    target.write_text("\n\n# ".join([first, *(parts[name] for name in ordered)]) + "\n", encoding="utf-8")


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where everything is kept; a second run goes on there")
    parser.add_argument("--worlds", default="A,C")
    parser.add_argument("--recipes", help="in place of the study's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--done", type=Path, help="a summary whose cells are not done again")
    parser.add_argument("--summary", type=Path, help="write the finished cells as CSV, and run nothing")
    arguments = parser.parse_args()
    if arguments.summary is None:
        worlds = arguments.worlds.split(",")
        for name in worlds:
            World(arguments.folder, name).prepare()
        recipes = arguments.recipes.split(",") if arguments.recipes else None
        done = read_summary(arguments.done) if arguments.done else {}
        wanted = [cell for cell in cells(worlds, recipes, arguments.seeds) if cell not in done]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            failed = [
                text for text in pool.map(lambda cell: _attempt(arguments.folder, cell), wanted) if text
            ]
        for text in failed:
            print(text, file=sys.stderr)
    else:
        failed = []
    results = read_results(arguments.folder)
    if arguments.summary is not None and results:
        write_summary(results, arguments.summary)
        write_commands(arguments.folder, arguments.summary.with_suffix(".sh"))
    minutes = round(sum(cell["minutes"] or 0 for cell in results), 1)
    print(json.dumps({"cells": len(results), "minutes": minutes, "failed": len(failed)}))
    return 1 if failed else 0


def _attempt(folder: Path, cell: Cell) -> str:
    started = time.monotonic()
    try:
        run_cell(folder, cell)
    except (RuntimeError, OSError) as error:
        return f"{cell.name}: {error}"
    print(f"{cell.name}: {time.monotonic() - started:.0f} s", flush=True)
    return ""


if __name__ == "__main__":
    sys.exit(main())
