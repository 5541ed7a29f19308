"""Two engines of the real vLLM beside each other, in its build for CPUs, one of which is killed."""

from pathlib import Path

import psutil
import pytest
from sampling_runs import plan_run, stored_texts
from tiny_model import save_tiny_model
from vllm_runs import use_cpu_build

from service.database import Database
from service.models.vllm import VllmSampler

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]


def engines() -> list[psutil.Process]:
    """Return the engine processes on this machine: they name themselves."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if "VLLM::EngineCore" in " ".join(process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_two_engines_draw_what_one_draws_and_a_killed_one_is_replaced(db: Database, tmp_path: Path) -> None:
    use_cpu_build()
    model = str(save_tiny_model(tmp_path, heads=2))
    alone = plan_run(db, 128, name="alone", max_tokens=30)
    sampler = VllmSampler(model, dtype="float32")
    try:
        described = sampler.describe()
        sampler.fill(alone, lambda *_: None)
    finally:
        sampler.close()
    before = {process.pid for process in engines()}
    killed: list[psutil.Process] = []

    def kill(_count: int, _words: str) -> None:
        if not killed:
            killed.append(next(process for process in engines() if process.pid not in before))
            killed[0].kill()

    sampler = VllmSampler(model, dtype="float32", gpus=2)
    try:
        assert sampler.describe() == described
        work = plan_run(db, 128, max_tokens=30)
        filled = sampler.fill(work, kill)
    finally:
        sampler.close()
    assert (filled.answered, filled.failed, filled.stopped) == (48, 0, None)
    assert len(killed) == 1
    assert stored_texts(work) == stored_texts(alone)
    psutil.wait_procs([process for process in engines() if process.pid not in before], timeout=30)
    assert {process.pid for process in engines()} <= before
