"""What the study of a real model does on the machine that trains, stage by stage, until a deadline."""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.harness import ROOT, read_jsonl, training_overrides, write_jsonl
from benchmarks.studies.real_model_plan import (
    ABOUT,
    BASE,
    BASELINE,
    PILOT_SEED,
    RECIPES,
    RESPONSES,
    TRAINING,
    Row,
    Size,
    best_rate,
    pairs,
)

MARGIN_S = 40.0
"""Seconds before the deadline at which everything is stopped: verl takes half a minute to end."""


class StudyError(Exception):
    """A command failed; the message has the end of its log."""


class OutOfTime(Exception):
    """The deadline came; what is finished is kept."""


def run_together(
    place: Path,
    deadline: float,
    commands: Mapping[str, Sequence[str]],
    *,
    allowed: Container[int] = (0,),
    watch: Callable[[Mapping[str, subprocess.Popen[bytes]]], None] | None = None,
) -> dict[str, Path]:
    """Run commands of tagrpo at the same time, each with a log; return what each printed.

    Args:
        place: the folder of the study; logs are in `logs`.
        deadline: on the clock of `time.monotonic`.
        allowed: exit codes that are no failure.

    Raises:
        StudyError: a command failed.
        OutOfTime: the deadline came; they were stopped.
    """
    logs = place / "logs"
    logs.mkdir(exist_ok=True)
    outputs = {name: logs / f"{name}.out" for name in commands}
    processes = {}
    for name, words in commands.items():
        with outputs[name].open("wb") as out, (logs / f"{name}.log").open("ab") as log:
            processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tagrpo", *words],
                stdout=out,
                stderr=log,
                env=child_environment(),
                preexec_fn=end_with_parent,
                pass_fds=(lock_of(place),),
            )
    late = failed = False
    while any(process.poll() is None for process in processes.values()):
        if watch is not None:
            watch(processes)
        if not (failed or late):
            codes = [process.poll() for process in processes.values()]
            failed = any(code is not None and code not in allowed for code in codes)
            late = not failed and time.monotonic() > deadline - MARGIN_S
            for process in processes.values() if failed or late else ():
                process.terminate()
        time.sleep(0.5)
    if late:
        raise OutOfTime(f"stopped {', '.join(commands)}")
    for name, process in processes.items():
        if process.returncode not in allowed:
            texts = ((logs / f"{name}{end}").read_text("utf-8", "replace") for end in (".out", ".log"))
            end = "\n".join(line for text in texts for line in text.splitlines()[-15:])
            raise StudyError(f"{name} ended with exit code {process.returncode}:\n{end}")
    return outputs


def child_environment() -> dict[str, str]:
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {
        "VLLM_USE_FLASHINFER_SAMPLER": "0",  # the packages that travel have no FlashInfer
        "VLLM_NO_USAGE_STATS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_OFFLINE": "1",
    }


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, so that a kill leaves no training behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


_locks: dict[Path, int] = {}


def lock_of(place: Path) -> int:
    """Return the lock of a folder; wait while another `run`, or a command that it left, still works there."""
    if place not in _locks:
        _locks[place] = os.open(place / ".lock", os.O_CREAT | os.O_RDWR)
        fcntl.flock(_locks[place], fcntl.LOCK_EX)
    return _locks[place]


class Study:
    """The stages on the machine that trains; each skips what has its rows."""

    def __init__(self, size: Size, place: Path, out: Path, deadline: float) -> None:
        """Set up; `deadline` is on the clock of `time.monotonic`."""
        self.size, self.place, self.out, self.deadline = size, place, out, deadline
        self.job, self.set = place / "job", place / "set"
        self.policy = place / "policy"
        self.benchmarks = sorted((self.job / "benchmarks").glob("*.jsonl"))
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / "rows.jsonl"
        earlier = self.path if self.path.exists() else self.job / "rows.jsonl"
        self.rows: list[Row] = []
        self.add(read_jsonl(earlier) if earlier.exists() else [])
        self.device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"

    def carry_out(self, most: int | None = None) -> None:
        """Go through the stages until the deadline, or until `most` pairs are done."""
        self.stage("set", self.make_set, done=self.set.exists())
        self.stage("pilot", self.pilot, done=bool(self.found(BASE)))
        for place, (seed, recipes) in enumerate(pairs()):
            if place == most:
                return
            tested = {row["recipe"] for row in self.rows if row["seed"] == seed}
            self.stage("pair", lambda s=seed, r=recipes: self.pair(s, r), done=tested == set(recipes))

    def stage(self, name: str, work: Callable[[], None], *, done: bool) -> None:
        """Do a stage that is not done; raise OutOfTime if too little time is left for it."""
        if done:
            return
        left = self.deadline - time.monotonic()
        if left < self.size.needs[name]:
            raise OutOfTime(f"{name} takes {self.size.needs[name]:.0f} s or more, and {left:.0f} s are left")
        started = time.monotonic()
        work()
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)

    def found(self, recipe: str, seed: int | None = None, benchmark: str | None = None) -> list[Row]:
        """Return the rows of a recipe, of one seed and one benchmark if named."""
        return [
            row
            for row in self.rows
            if row["recipe"] == recipe
            and seed in (None, row["seed"])
            and benchmark in (None, row["benchmark"])
        ]

    def add(self, rows: Sequence[Row]) -> None:
        """Store the rows of a stage at one stroke: a kill leaves all of them or none."""
        self.rows += rows
        partial = self.path.with_suffix(".partial")
        write_jsonl(partial, self.rows)
        partial.replace(self.path)

    # The stages

    def make_set(self) -> None:
        """Check the rewrites by the model's own answers, publish and export the set."""
        db = ("--db", str(self.place / "set.db"))
        candidates = ("proposer=file", f"proposer.candidates={self.job / 'candidates.jsonl'}", "--n", "3")
        solver = ("--solver", str(self.policy), *self.size.solver)
        to = ("--format", "verl", "--tokenizer", str(self.policy), "--out", str(self.set))
        for words in (
            ("questions", "import", str(self.job / "pool.jsonl"), "--name", "pool", *db),
            ("rephrase", "run", "pool", "--name", "gate", *candidates, *solver, *db),
            ("sets", "publish", "pool", "--run", "gate", "--n", "3", *db),
            ("sets", "export", "pool", *to, *self.size.export, *db),
            ("runs", "show", "gate", "--json", *db),
        ):
            printed = run_together(self.place, self.deadline, {"set": words}, allowed=(0, 3))
        shutil.copy(printed["set"], self.out / "gate.json")
        shutil.make_archive(str(self.out / "set"), "tar", self.set)

    def pilot(self) -> None:
        """Evaluate the model before any training, while the baseline trains a little at each rate."""
        runs = {f"pilot-{rate:g}": rate for rate in self.size.rates}
        commands = {
            name: self.training(name, BASELINE, rate, PILOT_SEED, pilot=True) for name, rate in runs.items()
        }
        files = [*self.benchmarks, self.job / "pool.jsonl"]
        run_together(self.place, self.deadline, {**commands, BASE: self.evaluation(BASE, self.policy, files)})
        about = {"recipe": BASE, "rate": 0.0, "seed": 0, "step": 0, "responses": 0, "seconds": 0.0}
        rows = [
            row for name, rate in runs.items() for row in self.training_rows(name, BASELINE, rate, PILOT_SEED)
        ]
        self.add([*rows, *self.graded(BASE, about, files)])
        for name in runs:
            shutil.rmtree(self.place / name / "checkpoints", ignore_errors=True)

    def pair(self, seed: int, recipes: tuple[str, str]) -> None:
        """Train two recipes at the same time and evaluate the last point that both reached."""
        rate = best_rate(self.found(BASELINE, PILOT_SEED, TRAINING))
        names = {recipe: f"{recipe}-{seed}" for recipe in recipes}
        commands = {name: self.training(name, recipe, rate, seed) for recipe, name in names.items()}
        enough = self.size.points[-1] * self.size.questions * RESPONSES
        longer = {name for recipe, name in names.items() if RECIPES[recipe].saves > 1}
        told: set[str] = set()

        def watch(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
            late = time.monotonic() > self.deadline - self.size.evaluation_s
            for name, process in processes.items():
                prune(self.place / name / "checkpoints")
                done = name in longer and sum(self.drawn(name).values()) >= enough
                if (late or done) and name not in told:  # a second signal would cut it short
                    told.add(name)
                    process.terminate()

        last = self.size.points[-1]
        if not all(self.checkpoint(recipe, name, last) for recipe, name in names.items()):
            run_together(self.place, self.deadline, commands, watch=watch, allowed=(0, -signal.SIGTERM, 143))
        for point in reversed(self.size.points):
            found = {recipe: self.checkpoint(recipe, name, point) for recipe, name in names.items()}
            if all(found.values()):
                self.evaluate_pair(seed, rate, names, {r: f for r, f in found.items() if f is not None})
                break
        else:
            raise OutOfTime(f"seed {seed}: both recipes had not reached step {self.size.points[0]}")
        for name in names.values():
            shutil.rmtree(self.place / name / "checkpoints", ignore_errors=True)

    def evaluate_pair(
        self, seed: int, rate: float, names: Mapping[str, str], found: Mapping[str, tuple[int, Path]]
    ) -> None:
        """Evaluate a checkpoint of each recipe of a pair, and store all rows of the pair."""
        commands, rows, abouts = {}, [], {}
        for recipe, (step, model) in found.items():
            name = f"{names[recipe]}-{step}"
            done = self.training_rows(names[recipe], recipe, rate, seed)
            steps = [row for row in done if row["step"] <= step]
            rows += steps
            abouts[name] = {key: steps[-1][key] for key in ABOUT}
            commands[f"eval-{name}"] = self.evaluation(name, model, self.benchmarks)
        run_together(self.place, self.deadline, commands)
        for name, about in abouts.items():
            rows += self.graded(name, about, self.benchmarks)
        self.add(rows)

    # Trainings

    def training(
        self, name: str, recipe: str, rate: float, seed: int, *, pilot: bool = False
    ) -> tuple[str, ...]:
        """Return the command that trains a recipe."""
        size, compared = self.size, RECIPES[recipe]
        steps = size.pilot_steps if pilot else size.points[-1]
        save = size.pilot_steps if pilot else math.ceil(size.points[0] / compared.saves)
        return (
            *("train", "run", compared.recipe, "--data", str(self.set), "--model", str(self.policy)),
            *("--hide-log", "--name", name, f"folder={self.place / name}"),
            *("--db", str(self.place / f"{name}.db"), *size.training, *compared.changes),
            "loss.kl_coef=0",
            *training_overrides(questions=size.questions, rate=rate, seed=seed, steps=steps, save=save),
        )

    def drawn(self, name: str) -> dict[int, int]:
        """Return the responses that each step of a training drew."""
        return {step: round(data["tagrpo/batch/responses"]) for step, data in self.metrics(name).items()}

    def metrics(self, name: str) -> dict[int, dict[str, float]]:
        from trainer_adapter.record.files import read_metrics

        return read_metrics(self.place / name / "rollouts")[0]

    def checkpoint(self, recipe: str, name: str, point: int) -> tuple[int, Path] | None:
        """Return a training's checkpoint of a point, once it drew the point's responses.

        Where a step draws more than others do, it is the last one saved with no more responses.
        """
        from trainer_adapter.runs.run_folder import RunFolder

        run = RunFolder(self.place / name)
        enough, saved_until = point * self.size.questions * RESPONSES, run.checkpoint() or 0
        total, saved = 0, None
        for step, drawn in sorted(self.drawn(name).items()):
            total += drawn
            model = run.checkpoints / f"global_step_{step}" / "actor" / "huggingface"
            fits = total == enough or (total < enough and RECIPES[recipe].saves > 1)
            if fits and step <= saved_until and model.exists():
                saved = step, model
        return saved if total >= enough else None

    def training_rows(self, name: str, recipe: str, rate: float, seed: int) -> list[Row]:
        """Return a row per step of a training; a kill during a step loses its seconds."""
        rows, responses, seconds = [], 0, 0.0
        for step, data in sorted(self.metrics(name).items()):
            drawn = round(data["tagrpo/batch/responses"])
            responses, seconds = responses + drawn, seconds + data.get("timing_s/step", 0.0)
            rewarded = round(drawn * data["tagrpo/reward/mean"])
            row = {"recipe": recipe, "rate": rate, "seed": seed, "step": step, "responses": responses}
            row |= {"benchmark": TRAINING, "problem": step, "correct": rewarded, "boxed": rewarded}
            row |= {
                "drawn": drawn,
                "equal": data.get("tagrpo/zero/group/share"),
                "seconds": round(seconds, 1),
            }
            rows.append({**self.about(), **row})
        return rows

    def about(self) -> Row:
        return {"model": self.size.model, "device": self.device}

    # Evaluations

    def evaluation(self, name: str, model: Path, files: Sequence[Path]) -> tuple[str, ...]:
        """Return the command that draws and grades responses of a checkpoint."""
        drawing = ("--n", str(self.size.samples), *self.size.sampling, "--db", self.database(name))
        return ("eval", "run", *map(str, files), "--name", name, "--model", str(model), *drawing)

    def database(self, name: str) -> str:
        return str(self.place / f"eval-{name}.db")

    def graded(self, name: str, about: Row, files: Sequence[Path]) -> list[Row]:
        """Grade an evaluation strictly too; return a row per problem."""
        rows = []
        for file in files:
            run = f"{name}.{file.stem}"
            strict = ("eval", "score", run, "--answers", "boxed", "--db", self.database(name))
            run_together(self.place, self.deadline, {f"eval-{name}": strict})
            counts = read_counts(Path(self.database(name)), run)
            rows += [{**self.about(), **about, "benchmark": file.stem, **each} for each in counts]
        return rows


def read_counts(database: Path, run: str) -> list[Row]:
    """Return the counts of each problem of an evaluation, by both gradings."""
    from evaluator.evals.counts import count_samples
    from evaluator.evals.runs import find_eval_run
    from evaluator.grading.versions import find_grader, version_taking
    from service.database import Database

    with Database.open(database, read_only=True) as opened, opened.read() as session:
        found = find_eval_run(session, run).id
        lenient, strict = (
            count_samples(session, found, find_grader(session, version_taking(answers)))
            for answers in ("all", "boxed")
        )
    return [
        {
            "problem": each.problem_id,
            "correct": each.correct,
            "boxed": boxed.correct,
            "drawn": each.samples,
            "truncated": each.truncated,
        }
        for each, boxed in zip(lenient, strict, strict=True)
    ]


def prune(checkpoints: Path) -> None:
    """Keep of all checkpoints but the last two only what evaluation needs: the others fill the disk."""
    saved = sorted(checkpoints.glob("global_step_*"), key=lambda folder: int(folder.name.split("_")[-1]))
    for folder in saved[:-2]:
        for file in (folder / "actor").glob("*.pt"):
            file.unlink()
