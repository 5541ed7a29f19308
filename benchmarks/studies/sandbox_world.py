"""A world of the sandbox in a folder, made and evaluated by `tagrpo` commands that are kept beside it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from sandbox.demo.steps import LONGEST_PROMPT, LONGEST_RESPONSE
from sandbox.policy import SHIPPED

SAMPLES = 64


class World:
    """A world's folder: questions, policy, neighbor set, export for verl."""

    def __init__(self, folder: Path, name: str) -> None:
        """Name a world by its letter, and by the number of training questions where it is not 256: `A640`."""
        self.letter, self.train = name[0], name[1:]
        self.folder = folder / f"world-{name}"
        self.policy, self.export = self.folder / "policy", self.folder / "verl"
        self.heldout = self.folder / "questions" / "heldout.jsonl"

    def prepare(self) -> None:
        """Make what is missing, by commands that are kept in `commands.sh`."""
        folder, db = self.folder, ("--db", str(self.folder / "tagrpo.db"))
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "commands.sh"
        questions, candidates = folder / "questions", folder / "candidates.jsonl"
        if not self.policy.exists():
            if self.letter in SHIPPED:
                sandbox(log, "policy", str(self.policy), "--world", self.letter)
            else:
                sandbox(log, "pretrain", str(self.policy), "--world", self.letter, "--threads", "1")
        if not questions.exists():
            size = ("--train", self.train) if self.train else ()
            sandbox(log, "questions", str(questions), "--world", self.letter, *size)
        if not candidates.exists():
            truth = ("--truth", str(folder / "truth.jsonl"))
            options = ("--per-question", "3", "--broken", "0", *truth)
            sandbox(log, "candidates", str(questions), "--out", str(candidates), *options)
        if not self.export.exists():
            tagrpo(log, "questions", "import", str(questions / "train.jsonl"), "--name", "study", *db)
            proposing = ("proposer=file", f"proposer.candidates={candidates}", "--n", "3", *db)
            tagrpo(log, "rephrase", "run", "study", "--name", "true", *proposing)
            tagrpo(
                log, "sets", "publish", "study", "--run", "true", "--include", "unverified", "--n", "3", *db
            )
            limits = ("--instruction", "", "--max-prompt-tokens", str(LONGEST_PROMPT))
            to = ("--format", "verl", "--tokenizer", str(self.policy), *limits, *db)
            tagrpo(log, "sets", "export", "study@1", "--out", str(self.export), *to)


def tagrpo(log: Path, *arguments: str) -> None:
    _run(log, "tagrpo", *arguments)


def sandbox(log: Path, *arguments: str) -> None:
    _run(log, "sandbox", *arguments)


def _run(log: Path, module: str, *arguments: str) -> None:
    """Run a Python module on one thread, keep its command in the log, and raise if it fails."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{shlex.join(('python', '-m', module, *arguments))}\n")
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.with_suffix(".log").open("a", encoding="utf-8") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}, see {output.name}: {shlex.join(command)}")


def evaluate(log: Path, world: World, model: Path, database: Path) -> None:
    """Draw and grade `SAMPLES` responses of a model to each held-out question."""
    tagrpo(
        log,
        *("eval", "run", str(world.heldout), "--name", "study", "--model", str(model), "dtype=float32"),
        *("--n", str(SAMPLES), "--preset", "plain", "temperature=1.0", "top_p=1.0"),
        *(f"max_tokens={LONGEST_RESPONSE}", "samples_per_request=32", "batch_size=256"),
        *("--db", str(database)),
    )
