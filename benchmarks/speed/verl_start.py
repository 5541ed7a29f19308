"""Time and memory of a training of one step on the CPU: workers forked from one process, or on their own.

Both sides are `tagrpo train run ta_grpo --cpu` with the sandbox's policy, 2 questions and 1 step, in
alternation; one side switches the fork server off (`TAGRPO_FORK_SERVER=`), so that each of Ray's workers
imports verl itself, as in verl. Memory is the largest sum of the proportional set sizes (PSS) of all its
processes, and processor time what they had used in all, looked at four times a second.

    python -m benchmarks.speed.verl_start [--rounds 2]

The last line is one JSON object: the medians of each side, and the share that forking leaves.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

TAGRPO = Path(sys.executable).with_name("tagrpo")
SIDES: dict[str, dict[str, str]] = {"own": {"TAGRPO_FORK_SERVER": ""}, "forked": {}}


def prepare(folder: Path) -> None:
    """Make policy, questions and an export."""
    db, given = ("--db", "tagrpo.db"), ("proposer.candidates=candidates.jsonl")
    made = ("--out", "candidates.jsonl", "--truth", "truth.jsonl")
    for words in (
        ("sandbox", "policy", "policy"),
        ("sandbox", "questions", "questions", "--train", "8", "--heldout", "1"),
        ("sandbox", "candidates", "questions", *made, "--per-question", "3", "--broken", "0"),
        ("questions", "import", "questions/train.jsonl", "--name", "study", *db),
        ("rephrase", "run", "study", "--name", "true", "proposer=file", *given, "--n", "3", *db),
        ("sets", "publish", "study", "--run", "true", "--include", "unverified", "--n", "3", *db),
        ("sets", "export", "study@1", "--format", "verl", "--out", "verl", "--tokenizer", "policy", *db),
    ):
        command = [sys.executable, "-m"] if words[0] == "sandbox" else [TAGRPO]
        done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")


def train(folder: Path, name: str, side: dict[str, str]) -> tuple[float, float, float]:
    """Train one step; return seconds, processor seconds and the largest MiB."""
    command = [
        TAGRPO,
        "train",
        "run",
        "ta_grpo",
        "--data",
        "verl",
        "--model",
        "policy",
        "--cpu",
        "--hide-log",
    ]
    command += ["--name", name, f"folder={name}", "--db", "tagrpo.db", "verl.data.train_batch_size=2"]
    command += ["verl.actor_rollout_ref.actor.ppo_mini_batch_size=2", "verl.data.max_response_length=40"]
    command += ["verl.trainer.total_training_steps=1", "run.poll_interval_s=0.1"]
    environment = {**os.environ, **side, "OMP_NUM_THREADS": "1"}
    started, most = time.monotonic(), 0
    used: dict[int, float] = {}
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        looked = psutil.Process(process.pid)
        while process.poll() is None:
            there = [looked, *looked.children(recursive=True)]
            most = max(most, sum(map(pss, there)))
            used |= {each.pid: time_of(each) or used.get(each.pid, 0.0) for each in there}
            time.sleep(0.25)
    if process.returncode:
        raise SystemExit((folder / f"{name}.log").read_text()[-3000:])
    return time.monotonic() - started, sum(used.values()), most / 2**20


def pss(process: psutil.Process) -> int:
    """Return the proportional set size in bytes, 0 for a process that is gone."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def time_of(process: psutil.Process) -> float:
    """Return the processor time in seconds, 0 for a process that is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    runs: dict[str, list[tuple[float, float, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as hidden:
        folder = Path(hidden)
        prepare(folder)
        for number in range(rounds):
            for side, settings in SIDES.items():
                runs[side].append(train(folder, f"{side}-{number}", settings))
                seconds, used, most = runs[side][-1]
                print(f"{side}: {seconds:.1f} s, {used:.1f} of processors, {most:.0f} MiB", file=sys.stderr)
    result: dict[str, object] = {"rounds": rounds}
    for place, figure in enumerate(("seconds", "processor_seconds", "MiB")):
        medians = {side: statistics.median(each[place] for each in of_side) for side, of_side in runs.items()}
        result[figure] = {side: round(value, 1) for side, value in medians.items()}
        result[f"{figure}_share"] = round(medians["forked"] / medians["own"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
