"""`tagrpo train run` with verl itself: a set, the command in a process of its own, and what a run leaves."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from command_line import Done, run_here
from rollout_shards import read_rollouts
from runs import Proposed, add_run

from rephraser.sets.publish import publish
from service.database import Database
from trainer_adapter.record.rollout import RolloutRecord

RESPONSES = 12
"""Of a step: two questions with six each."""

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "tagrpo")


def publish_sums(place: Path, answer: int) -> None:
    """Publish the set `sums@1`: six sums of one result, with two neighbors each."""
    pairs = [(a, answer - a) for a in range(6)]
    asked = [
        (f"What is {a}+{b}?", str(answer), [Proposed(f"Add {a} to {b}."), Proposed(f"Sum up {a} and {b}.")])
        for a, b in pairs
    ]
    with Database.open(place / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "sums", run="source")


def words(name: str, model: str, steps: int, *more: str) -> tuple[str, ...]:
    """Return the command that trains `steps` steps and saves every second one."""
    batch, rollout = "verl.data.train_batch_size=2", "verl.actor_rollout_ref.rollout"
    actor, trainer = "verl.actor_rollout_ref.actor", "verl.trainer"
    return (
        *("train", "run", "ta_grpo", "--set", "sums", "validation_share=0.3", "--model", model),
        *("--cpu", "--name", name, "--hide-log", "--json", "neighbors=2", "responses=2"),
        *("verl.data.max_prompt_length=192", "verl.data.max_response_length=2", batch),
        *(f"{actor}.ppo_mini_batch_size=2", f"{actor}.optim.lr=1e-3"),
        *(f"{rollout}.val_kwargs.n=1", f"{rollout}.dtype=float64"),
        *(f"{trainer}.total_training_steps={steps}", f"{trainer}.total_epochs={steps}"),
        *(f"{trainer}.save_freq=2", f"{trainer}.test_freq={steps}", f"{trainer}.val_before_train=false"),
        *("run.poll_interval_s=0.1", "run.record_tokens=true"),
        "verl.+reward.custom_reward_function.reward_kwargs.time_limit_s=1",
        *more,
    )


def start(place: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command line in `place`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "RAY_"))}
    inherited |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    # Of 15 by default, which starves a run on a machine that does more.
    inherited["RAY_worker_niceness"] = "0"
    call, pipe, variables = [*_COMMAND, *arguments], subprocess.PIPE, {**inherited, **environment}
    return subprocess.Popen(call, cwd=place, env=variables, stdout=pipe, stderr=pipe, text=True)


def run(place: Path, *arguments: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end; it is asked to stop at the limit."""
    process = start(place, *arguments)
    try:
        out, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, errors = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


def run_beside(place: Path, *arguments: str) -> Done:
    """Run a command in `place` that trains nothing: in this process, whose imports are paid already."""
    with contextlib.chdir(place):
        return run_here(*arguments)


def wait_until(process: subprocess.Popen[str], reached: Callable[[], bool], limit_s: float) -> None:
    """Wait until a run has come so far; it fails where the run ends before."""
    deadline = time.monotonic() + limit_s
    while not reached():
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < deadline, "the run did not come so far"
        else:
            raise AssertionError(f"the run ended before:\n{process.communicate()[1][-4000:]}")


def started_by(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return all that a process has started, Ray's among them."""
    return psutil.Process(process.pid).children(recursive=True)


def recorded(folder: Path) -> dict[tuple[int, str, int], RolloutRecord]:
    """Return the rollouts of a run by step, question and session."""
    found = list(read_rollouts(folder / "rollouts"))
    by_place = {(each.step, each.question_id, each.session): each for each in found}
    assert len(by_place) == len(found)
    return by_place


def metrics(folder: Path) -> dict[int, Mapping[str, float]]:
    """Return verl's metrics by step, of all starts of a run; those of the last start count."""
    paths = sorted((folder / "metrics").glob("*.jsonl"), key=lambda path: int(path.stem))
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return {each["step"]: each["data"] for each in lines}
