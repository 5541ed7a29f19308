"""The plug-in of vLLM by which an engine ends with the command that started it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from service.models import engine_ending

ROOT = Path(__file__).parents[2]
ENGINE = "from service.models.engine_ending import end_with_command as e; e(); import time; time.sleep(300)"
COMMAND = f"""
import subprocess, sys
from service.models.engine_ending import name_this_command
name_this_command()
print(subprocess.Popen([sys.executable, "-c", {ENGINE!r}]).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_an_engine_ends_with_a_command_that_is_killed_and_not_before() -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    engine = psutil.Process(int(command.stdout.readline()))
    try:
        until_it_watches(engine)
        assert engine.is_running()
        command.kill()
        command.wait()
        psutil.wait_procs([engine], timeout=30)
        assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    finally:
        if engine.is_running():
            engine.kill()


def until_it_watches(engine: psutil.Process) -> None:
    deadline = time.monotonic() + 60
    while engine.num_threads() < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_engines_and_the_command_itself_watch_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    monkeypatch.setenv(engine_ending._COMMAND, "")
    monkeypatch.delenv(engine_ending._COMMAND)  # and given back afterwards, whatever it becomes
    engine_ending.end_with_command()
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    engine_ending.name_this_command()
    engine_ending.end_with_command()
    assert threading.active_count() == before
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "fork", "what the user chose stays"
