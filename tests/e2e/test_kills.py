"""A run that is killed anywhere, again and again, ends in the state of an undisturbed one."""

import random
import signal
import subprocess
import time
from pathlib import Path

from command_line import run_here
from world_runs import (
    CONCURRENCY,
    PREMISES,
    check_loss,
    command,
    filled_cells,
    final_state,
    import_world,
    propose_arguments,
    run_undisturbed,
    stats,
    world_server,
)

QUESTIONS = 16
KILLS = 5


def test_a_run_killed_again_and_again_ends_as_if_undisturbed(tmp_path: Path) -> None:
    undisturbed, _ = run_undisturbed(tmp_path, QUESTIONS)
    db = tmp_path / "killed.db"
    import_world(db, QUESTIONS)
    chance = random.Random(20)
    lost: list[int] = []
    with world_server("--model", "test-model", "--latency", "0.03") as url:
        arguments = propose_arguments(db, url, *PREMISES, "--max-concurrency", str(CONCURRENCY))
        for _ in range(KILLS):
            process = subprocess.Popen(
                command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            seen_before = stats(url)["requests"]
            more = chance.randrange(1, 40)
            while stats(url)["requests"] < seen_before + more and process.poll() is None:
                time.sleep(chance.random() * 0.02)  # the kill falls anywhere between two requests
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            lost.append(stats(url)["paid"] - filled_cells(db) - sum(lost))
        done = run_here(*arguments)
        assert done.code == 0, done.err
        seen = stats(url)
    check_loss(undisturbed, final_state(db), lost, seen)
