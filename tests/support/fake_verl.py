"""A stand-in for `verl.trainer.main_ppo`, for tests of what starts and stops it."""

import os
from pathlib import Path

import pytest
import quick_hydra

_MAIN = """
import json, os, signal, sys, zipfile

arguments = dict(text.split("=", 1) for text in sys.argv[1:])
print(f"(TaskRunnerV1 pid=7) told {len(arguments)} things", flush=True)
how = os.environ.get("FAKE_VERL", "train")
steps = int(arguments.get("trainer.total_training_steps", 2))
folder = arguments["trainer.default_local_dir"]
os.makedirs(folder, exist_ok=True)
tracker = os.path.join(folder, "latest_checkpointed_iteration.txt")
begin = 0
if arguments["trainer.resume_mode"] == "auto" and os.path.exists(tracker):
    begin = int(open(tracker).read())
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if record := os.environ.get("FAKE_VERL_RECORD"):
    sys.path.append(record)
    from pathlib import Path
    from rollout_shards import make_step
    from trainer_adapter.record import RolloutWriter
    from trainer_adapter.record.reading import read_run

    rollouts = Path(folder).parent / "rollouts"
    about = read_run(rollouts)
    with RolloutWriter(rollouts, about.name, spec=about.spec, versions=about.versions) as writer:
        for step in range(begin + 1, steps + 1):
            writer.write(step, make_step(step))
for step in range(begin + 1, steps + 1):
    print(f"(TaskRunnerV1 pid=7) step:{step} - actor/pg_loss:0.5 - training/global_step:{step}", flush=True)
    with open(os.environ["VERL_FILE_LOGGER_PATH"], "ab") as file:
        file.write(json.dumps({"step": step, "data": {"actor/pg_loss": 0.5}}).encode() + b"\\n")
    if metrics := os.environ.get("FAKE_VERL_METRICS"):
        with open(os.path.join(os.path.dirname(folder), "rollouts", "metrics.jsonl"), "a") as file:
            file.write(f'{{"step": {step}, "metrics": {metrics}}}\\n')
    saved = os.path.join(folder, f"global_step_{step}")
    os.makedirs(os.path.join(saved, "actor"), exist_ok=True)
    of_rank = [f"actor/{what}_world_size_1_rank_0.pt" for what in ("model", "optim", "extra_state")]
    for part in (*of_rank, "data.pt"):
        with zipfile.ZipFile(os.path.join(saved, part), "w") as file:
            file.writestr("data.pkl", b"state")
    open(tracker, "w").write(str(step))
    if how == "fail":
        print("Traceback (most recent call last):", file=sys.stderr)
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if how in ("hang", "stubborn"):
        print("hanging", flush=True)
        while True:
            signal.pause()
"""


def put_in_place(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Write a package `verl` into `folder`, which goes first on the PYTHONPATH of children.

    It trains `trainer.total_training_steps` steps from the last checkpoint on and saves each. FAKE_VERL makes
    it `fail` in its first step, `hang` there, or be `stubborn` (hang and ignore SIGTERM);
    FAKE_VERL_METRICS is JSON that it records at each step; with FAKE_VERL_RECORD, this folder, it records
    rollouts.
    """
    quick_hydra.install()
    package = folder / "verl" / "trainer"
    package.mkdir(parents=True)
    (folder / "verl" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "main_ppo.py").write_text(_MAIN)
    for name in ("FAKE_VERL", "TAGRPO_DB", "VERL_USE_EXTERNAL_MODULES", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAGRPO_FORK_SERVER", "")  # it needs none of what real workers import
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
