"""Recipes on a real model, on GPUs that are lent for a quarter of an hour at a time.

`real_model.md` is the plan: what is compared, by which rule, and what will be said. `prepare` packs weights,
packages and questions into pieces. `run`, on the machine with the GPU, unpacks them, checks the rewrites,
evaluates the model, trains in pairs, evaluates again, and stops before `--seconds` are over. What an earlier
machine finished is skipped, if its rows are packed. `report` prints the tables.

    python -m benchmarks.studies.real_model prepare TRAVEL --checkpoint FILE.gguf --data shared/data \
        --rewrites rewrites.jsonl --wheels wheels    # --set set.tar --rows rows.jsonl of earlier machines
    python -m benchmarks.studies.real_model run TRAVEL PLACE --out OUT --seconds 780
    python -m benchmarks.studies.real_model report OUT/rows.jsonl

`prepare TRAVEL --tiny` packs the sandbox's policy instead: the same way on a CPU, in minutes.

A row of `rows.jsonl` is a problem after a training (step 0: before any): how many of `drawn` responses are
`correct`, and `boxed` by strict grading. Rows of benchmark `training` are steps: how many responses were
rewarded. `responses` is what the training drew until then.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import fcntl
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu_check import REWARD, gpu_name
from benchmarks.harness import DATA, ROOT
from benchmarks.studies.real_model_pack import collect_packages, pack, read_manifest, unpack

RESPONSES = 8
POOL, GSM8K = 256, 500
PILOT_SEED = 901
PILOT_LAST = 5
"""Steps at the end of a pilot's training whose reward counts."""
TRAINING = "training"
REPLICATES = 9
MARGIN_S = 15.0
"""Seconds before the deadline at which everything stops."""
ACTOR = "actor_rollout_ref.actor"


@dataclass(frozen=True)
class Compared:
    """A recipe of the study.

    Attributes:
        recipe: the recipe's name in tagrpo.
        changes: overrides after the name.
        saves: checkpoints per point of evaluation; several where a step draws more than others do.
    """

    recipe: str
    changes: tuple[str, ...] = ()
    saves: int = 1


BASE, BASELINE = "base", "grpo"
ABOUT = ("recipe", "rate", "seed", "step", "responses", "seconds")
RECIPES = {
    BASELINE: Compared("grpo"),
    "ta_rescue": Compared("ta_rescue"),
    "ta_grpo_2": Compared("ta_grpo", ("responses=2",)),
    "grpo_random": Compared("grpo", (f"reward.custom_reward_function.path={REWARD}",)),
    "grpo_ds": Compared("grpo_ds", saves=5),
}


@dataclass(frozen=True)
class Size:
    """How large a study is, and on which machine.

    Attributes:
        points: steps after which to evaluate.
        questions: of a step.
        rates: the pilot's.
        pilot_steps: steps of each of the pilot's trainings.
        samples: responses per problem in an evaluation.
        training: options and overrides of `train run`.
        sampling: options of `eval run`.
        solver: options of `neighbors propose`.
        export: options of `sets export`.
        needs: seconds that a stage takes at least; it does not start with less.
        evaluation_s: seconds kept free for the evaluation after a training.
    """

    model: str
    points: tuple[int, ...]
    questions: int
    rates: tuple[float, ...]
    pilot_steps: int
    samples: int
    training: tuple[str, ...]
    sampling: tuple[str, ...]
    solver: tuple[str, ...]
    export: tuple[str, ...]
    needs: Mapping[str, float]
    evaluation_s: float


_LONGEST = 768
REAL = Size(
    model="Qwen2.5-Coder-0.5B-Instruct (Q4_K_M)",
    points=(20, 40),
    questions=16,
    rates=(1e-6, 3e-6, 1e-5),
    pilot_steps=12,
    samples=8,
    training=(
        *("--gpus", "1"),
        f"data.max_response_length={_LONGEST}",
        f"{ACTOR}.ppo_max_token_len_per_gpu=4096",  # logits of 151,936 words: 2.5 GB
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=4096",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.12",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "reward.num_workers=1",
    ),
    sampling=(
        *("--sampler", "vllm", "--gpu-memory-utilization", "0.15", "--max-model-len", "2048"),
        *("--max-tokens", str(_LONGEST), "--max-concurrency", "128"),
    ),
    solver=(
        *("--solver-sampler", "vllm", "--solver-gpu-memory-utilization", "0.6"),
        *("--solver-max-model-len", "2048", "--solver-max-tokens", str(_LONGEST)),
        *("--max-concurrency", "128", "--samples-per-request", "8"),
    ),
    export=("--max-prompt-tokens", "512"),
    needs={"set": 200, "pilot": 330, "pair": 480},
    evaluation_s=220,
)
_TINY_TOKENS = "40"
TINY = Size(
    model="sandbox",
    points=(1, 2),
    questions=4,
    rates=(1e-4, 3e-4),
    pilot_steps=1,
    samples=8,
    training=(
        "--cpu",
        f"data.max_response_length={_TINY_TOKENS}",
        f"{ACTOR}.ppo_max_token_len_per_gpu=8192",
        "tagrpo_run.poll_interval_s=0.1",
    ),
    sampling=(
        *("--dtype", "float32", "--preset", "plain", "--temperature", "1", "--top-p", "1"),
        *("--max-tokens", _TINY_TOKENS, "--batch-size", "256"),
    ),
    solver=(
        *("--solver-dtype", "float32", "--solver-preset", "plain", "--solver-temperature", "1"),
        *("--solver-top-p", "1", "--solver-max-tokens", _TINY_TOKENS, "--solver-batch-size", "256"),
    ),
    export=("--instruction", "", "--max-prompt-tokens", "64"),
    needs={"set": 10, "pilot": 60, "pair": 60},
    evaluation_s=30,
)

Row = dict[str, Any]


def pairs() -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the seed and the two recipes of each pair, in the order of the plan."""
    others = [name for name in RECIPES if name != BASELINE]
    for replicate in range(1, REPLICATES + 1):
        for place, other in enumerate(others):
            yield 10 * replicate + place, (BASELINE, other)


class StudyError(Exception):
    """A command failed; the message has the end of its log."""


class OutOfTime(Exception):
    """The deadline came; what is finished is kept."""


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
        self.device = gpu_name() or "CPU"

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
        candidates = ("--proposer", "file", "--candidates", str(self.job / "candidates.jsonl"), "--n", "3")
        solver = ("--solver", str(self.policy), *self.size.solver)
        to = ("--format", "verl", "--tokenizer", str(self.policy), "--out", str(self.set))
        for words in (
            ("questions", "import", str(self.job / "pool.jsonl"), "--name", "pool", *db),
            ("neighbors", "propose", "pool", "--name", "gate", *candidates, *solver, *db),
            ("sets", "publish", "pool", "--run", "gate", "--n", "3", *db),
        ):
            self.run({"set": words}, attention=True)
        shown = self.run({"gate": ("runs", "show", "gate", "--json", *db)}, attention=True)
        shutil.copy(shown["gate"], self.out / "gate.json")
        self.run({"set": ("sets", "export", "pool", *to, *self.size.export, *db)}, attention=True)
        shutil.make_archive(str(self.out / "set"), "tar", self.set)

    def pilot(self) -> None:
        """Evaluate the model before any training, while the baseline trains a little at each rate."""
        runs = {f"pilot-{rate:g}": rate for rate in self.size.rates}
        commands = {
            name: self.training(name, BASELINE, rate, PILOT_SEED, pilot=True) for name, rate in runs.items()
        }
        files = [*self.benchmarks, self.job / "pool.jsonl"]
        self.run({**commands, BASE: self.evaluation(BASE, self.policy, files)})
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

        def watch(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
            late = time.monotonic() > self.deadline - self.size.evaluation_s
            for name, process in processes.items():
                prune(self.place / name / "checkpoints")
                done = name in longer and sum(self.drawn(name).values()) >= enough
                if process.poll() is None and (late or done):
                    process.terminate()

        if not all(self.checkpoint(name, self.size.points[-1]) for name in names.values()):
            self.run(commands, watch=watch, stopped=True)
        for point in reversed(self.size.points):
            found = {recipe: self.checkpoint(name, point) for recipe, name in names.items()}
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
        self.run(commands)
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
            *("--hide-log", "--no-import", "--name", name, "--folder", str(self.place / name)),
            *("--db", str(self.place / f"{name}.db"), *size.training, *compared.changes),
            "loss.kl_coef=0",
            f"data.train_batch_size={size.questions}",
            f"{ACTOR}.ppo_mini_batch_size={size.questions // 2}",
            f"{ACTOR}.optim.lr={rate:g}",
            f"{ACTOR}.optim.lr_scheduler_type=constant",
            f"{ACTOR}.optim.lr_warmup_steps_ratio=0",
            f"{ACTOR}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
            "trainer.total_epochs=100",
            f"trainer.total_training_steps={steps}",
            f"trainer.save_freq={save}",
            "trainer.max_actor_ckpt_to_keep=100",
            f"data.seed={seed}",
            f"tagrpo_run.seed={seed}",
        )

    def drawn(self, name: str) -> dict[int, int]:
        """Return the responses that each step of a training drew."""
        return {step: round(data["tagrpo/batch/responses"]) for step, data in self.metrics(name).items()}

    def metrics(self, name: str) -> dict[int, dict[str, float]]:
        from trainer_adapter.record.reading import read_metrics

        return read_metrics(self.place / name / "rollouts")

    def checkpoint(self, name: str, point: int) -> tuple[int, Path] | None:
        """Return the last saved step with at most a point's responses, if the training drew as many."""
        from trainer_adapter.runs.run_folder import RunFolder

        run = RunFolder(self.place / name)
        enough, saved_until = point * self.size.questions * RESPONSES, run.checkpoint() or 0
        total, saved = 0, None
        for step, drawn in sorted(self.drawn(name).items()):
            total += drawn
            model = run.checkpoints / f"global_step_{step}" / "actor" / "huggingface"
            if total <= enough and step <= saved_until and model.exists():
                saved = step, model
        return saved if total >= enough else None

    def training_rows(self, name: str, recipe: str, rate: float, seed: int) -> list[Row]:
        """Return a row per step of a training."""
        rows, responses, seconds = [], 0, 0.0
        for step, data in sorted(self.metrics(name).items()):
            drawn = round(data["tagrpo/batch/responses"])
            responses, seconds = responses + drawn, seconds + data.get("timing_s/step", math.nan)
            about = {"recipe": recipe, "rate": rate, "seed": seed, "step": step, "responses": responses}
            rewarded = round(drawn * data["tagrpo/reward/mean"])
            equal = data.get("tagrpo/zero/group/share")
            counts = {"benchmark": TRAINING, "problem": step, "correct": rewarded, "boxed": rewarded}
            rows.append(
                {
                    **self.about(),
                    **about,
                    **counts,
                    "drawn": drawn,
                    "equal": equal,
                    "seconds": round(seconds, 1),
                }
            )
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
            strict = ("eval", "grade", run, "--answers", "boxed", "--db", self.database(name))
            self.run({f"eval-{name}": strict})
            counts = read_counts(Path(self.database(name)), run)
            rows += [{**self.about(), **about, "benchmark": file.stem, **each} for each in counts]
        return rows

    # Commands

    def run(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        attention: bool = False,
        stopped: bool = False,
        watch: Callable[[Mapping[str, subprocess.Popen[bytes]]], None] | None = None,
    ) -> dict[str, Path]:
        """Run commands of tagrpo at the same time, each with a log; return what each printed.

        Args:
            attention: exit code 3 is no failure.
            stopped: `watch` may stop them.

        Raises:
            StudyError: a command failed.
            OutOfTime: the deadline came; they were stopped.
        """
        logs = self.place / "logs"
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
                    pass_fds=(lock_of(self.place),),
                )
        late = False
        while any(process.poll() is None for process in processes.values()):
            if watch is not None:
                watch(processes)
            if time.monotonic() > self.deadline - MARGIN_S and not late:
                late = True
                for process in processes.values():
                    process.terminate()
            time.sleep(0.5)
        if late:
            raise OutOfTime(f"stopped {', '.join(commands)}")
        allowed = {0} | ({3} if attention else set()) | ({-signal.SIGTERM, 143} if stopped else set())
        for name, process in processes.items():
            if process.returncode not in allowed:
                texts = ((logs / f"{name}{end}").read_text("utf-8", "replace") for end in (".out", ".log"))
                end = "\n".join(line for text in texts for line in text.splitlines()[-15:])
                raise StudyError(f"{name} ended with exit code {process.returncode}:\n{end}")
        return outputs


def read_counts(database: Path, run: str) -> list[Row]:
    """Return the counts of each problem of an evaluation, by both gradings."""
    from evaluator.evals.runs import find_eval_run
    from evaluator.evals.samples import count_samples
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


def best_rate(rows: Sequence[Row]) -> float:
    """Return the pilot's rate with the highest reward over the last steps; `rows` are its trainings'."""
    shares = {}
    for rate in {row["rate"] for row in rows}:
        last = sorted((row for row in rows if row["rate"] == rate), key=lambda row: row["step"])[-PILOT_LAST:]
        shares[rate] = sum(row["correct"] for row in last) / sum(row["drawn"] for row in last)
    return float(max(sorted(shares), key=lambda rate: shares[rate]))


def prune(checkpoints: Path) -> None:
    """Keep of all checkpoints but the last two only what evaluation needs: the others fill the disk."""
    saved = sorted(checkpoints.glob("global_step_*"), key=lambda folder: int(folder.name.split("_")[-1]))
    for folder in saved[:-2]:
        for file in (folder / "actor").glob("*.pt"):
            file.unlink()


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


# Preparing


def prepare(given: argparse.Namespace) -> None:
    """Pack everything that travels; weights and packages that were packed before may be left out."""
    folder = given.travel / "staging"
    shutil.rmtree(folder, ignore_errors=True)
    job = folder / "job"
    (job / "benchmarks").mkdir(parents=True)
    (job / "size.json").write_text(json.dumps({"tiny": given.tiny}), encoding="utf-8")
    if given.rows:
        shutil.copy(given.rows, job / "rows.jsonl")
    if given.set:
        shutil.copy(given.set, job / "set.tar")
    model = folder / "model"
    if given.tiny:
        stage_sandbox(job, model)
    else:
        stage_questions(job, given.data, given.rewrites)
    if given.checkpoint:
        model.mkdir()
        (model / given.checkpoint.name).symlink_to(given.checkpoint.resolve())
    pack(given.travel, "job", job, compress=True)
    if model.exists():
        pack(given.travel, "model", model, compress=False)
    if given.wheels:
        collect_packages(given.wheels, folder / "site")
        pack(given.travel, "site", folder / "site", compress=True)
    shutil.rmtree(folder)
    pieces = sorted(given.travel.iterdir())
    print("\n".join(f"{piece.stat().st_size / 2**20:7.1f} MiB  {piece}" for piece in pieces))
    print(f"run there: python -m {__spec__.name} run {given.travel} PLACE --out OUT --seconds 780")


def stage_questions(job: Path, data: Path, rewrites: Path) -> None:
    """Write the pool of training questions, its rewrites, and the benchmarks.

    Args:
        data: the folder with math_train.jsonl, math500.jsonl and gsm8k_test.jsonl.
        rewrites: JSON Lines with `original_question` and `question`, a line per rewrite.
    """
    texts: dict[str, list[str]] = {}
    for row in read_jsonl(rewrites):
        texts.setdefault(row["original_question"].strip(), []).append(row["question"])
    pool = [
        {"question": row["question"], "answer": row["answer"]}
        for row in read_jsonl(data / "math_train.jsonl")
        if row["level"][-1] in "123" and row["answer"] and row["question"].strip() in texts
    ]
    pool = random.Random(0).sample(pool, min(POOL, len(pool)))
    write_jsonl(job / "pool.jsonl", pool)
    candidates = [{"question": row["question"], "candidates": texts[row["question"].strip()]} for row in pool]
    write_jsonl(job / "candidates.jsonl", candidates)
    gsm8k = random.Random(0).sample(read_jsonl(data / "gsm8k_test.jsonl"), GSM8K)
    for name, rows in (("math500", read_jsonl(data / "math500.jsonl")), ("gsm8k", gsm8k)):
        problems = [{"id": row["id"], "problem": row["question"], "answer": row["answer"]} for row in rows]
        write_jsonl(job / "benchmarks" / f"{name}.jsonl", problems)


def stage_sandbox(job: Path, model: Path) -> None:
    """Write the same from the sandbox's world A, with a quarter of the rewrites broken."""

    def tagrpo(*words: str) -> None:
        command = [sys.executable, "-m", "tagrpo", "sandbox", *words]
        subprocess.run(command, check=True, env=child_environment(), stdout=subprocess.DEVNULL)

    questions = job / "questions"
    tagrpo("policy", str(model))
    tagrpo("questions", str(questions), "--train", "12", "--heldout", "24")
    candidates = ("--out", str(job / "candidates.jsonl"), "--per-question", "3", "--broken", "0.25")
    tagrpo("candidates", str(questions), *candidates, "--truth", str(questions / "truth.jsonl"))
    shutil.move(questions / "train.jsonl", job / "pool.jsonl")
    heldout = read_jsonl(questions / "heldout.jsonl")
    write_jsonl(job / "benchmarks" / "first.jsonl", heldout[::2])
    write_jsonl(job / "benchmarks" / "second.jsonl", heldout[1::2])
    shutil.rmtree(questions)


def read_jsonl(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_jsonl(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_policy(place: Path) -> None:
    """Turn the checkpoint that travelled into `place/policy`; a GGUF file becomes bfloat16."""
    policy, (first, *_) = place / "policy", sorted((place / "model").iterdir())
    if policy.exists():
        return
    if first.suffix != ".gguf":
        policy.symlink_to((place / "model").resolve())
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, file, partial = str(first.parent), first.name, place / "policy.partial"
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.bfloat16)
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(partial)
    partial.rename(policy)


def run(given: argparse.Namespace) -> int:
    """Unpack and go through the study; return the exit code."""
    deadline = time.monotonic() + given.seconds
    unpack(given.travel, given.place)
    site = (given.place / "site").resolve()
    if site.exists() and str(site) not in os.environ.get("PYTHONPATH", ""):
        compileall.compile_dir(site, quiet=2, workers=0)  # else many processes compile the same at once
        os.environ["PYTHONPATH"] = os.pathsep.join((str(site), str(ROOT)))
        words = [*sys.argv[1:], "--seconds", f"{deadline - time.monotonic():.0f}"]
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *words])
    lock_of(given.place)
    make_policy(given.place)
    archive, exported = given.place / "job" / "set.tar", given.place / "set"
    if archive.exists() and not exported.exists():
        shutil.unpack_archive(archive, exported.with_suffix(".partial"))
        exported.with_suffix(".partial").rename(exported)
    tiny = json.loads((given.place / "job" / "size.json").read_text(encoding="utf-8"))["tiny"]
    study = Study(TINY if tiny else REAL, given.place, given.out, deadline)
    try:
        study.carry_out(given.pairs)
    except OutOfTime as stop:
        print(f"out of time: {stop}")
    except StudyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("prepare", help="pack weights, packages and questions into pieces")
    packing.add_argument("travel", type=Path, help="folder for the pieces")
    packing.add_argument("--tiny", action="store_true", help="the sandbox's policy, for a CPU")
    packing.add_argument("--checkpoint", type=Path, help="GGUF file")
    packing.add_argument("--data", type=Path, default=DATA, help="folder with MATH and GSM8K as JSON Lines")
    packing.add_argument("--rewrites", type=Path, help="JSON Lines: original_question, question")
    packing.add_argument("--wheels", type=Path, help="folder of wheels that the machine lacks")
    packing.add_argument("--set", type=Path, help="set.tar of an earlier machine")
    packing.add_argument("--rows", type=Path, help="rows.jsonl of earlier machines")
    packing.set_defaults(work=prepare)
    running = commands.add_parser("run", help="unpack, train and evaluate until the time is over")
    running.add_argument("travel", type=Path, help="folder with the pieces")
    running.add_argument("place", type=Path, help="folder for everything large; run again there to resume")
    running.add_argument("--out", type=Path, required=True, help="folder for the results, under 16 MiB")
    running.add_argument("--seconds", type=float, default=780.0, help="time until it has stopped [780]")
    running.add_argument("--pairs", type=int, help="stop after this many pairs")
    running.set_defaults(work=run)
    reporting = commands.add_parser("report", help="print the tables")
    reporting.add_argument("rows", type=Path)
    reporting.set_defaults(work=report)
    given = parser.parse_args(words)
    if given.work is prepare and not given.tiny:
        if given.rewrites is None:
            parser.error("prepare takes --rewrites, or --tiny")
        if given.checkpoint is None and "model" not in read_manifest(given.travel):
            parser.error("no weights are packed yet: name them with --checkpoint")
    return int(given.work(given) or 0)


def report(given: argparse.Namespace) -> None:
    """Print the tables of `rows.jsonl`."""
    from benchmarks.studies.real_model_report import tables

    print("\n".join(tables(read_jsonl(given.rows))))


if __name__ == "__main__":
    sys.exit(main())
