"""Engines side by side on a Ray cluster: the texts of one, lost engines, nodes and drivers, refusals."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sampling_runs import cells_of, plan_run, stored_texts
from tiny_model import save_tiny_model

from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.vllm import VllmSampler
from service.runs.tables import FILLED

pytestmark = pytest.mark.timeout(600)
SUPPORT = Path(__file__).parents[1] / "support"
PACKAGES = [str(SUPPORT / "parallel_vllm"), str(SUPPORT), str(SUPPORT.parents[1])]
DRIVER = """
import sys
from pathlib import Path
from sampling_runs import plan_run
from runs import open_empty
from service.database import Database
from service.models.stopping import deliver_signal, exit_on_sigterm
from service.models.vllm import VllmSampler
from service.runs.leases import release_dead_leases
path, model, address = sys.argv[1:]
with Database.open(Path(path)) as db, exit_on_sigterm():
    sampler = VllmSampler(model, ray_address=address, max_model_len=200)
    sampler.describe()
    work = plan_run(db, 200, max_tokens=20)
    with db.write() as session:
        release_dead_leases(session, work.run_id)
    filled = sampler.fill(work, lambda *_: None)
    sampler.close()
    if filled.stopped == "interrupted":
        deliver_signal()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the engines are told how to misbehave; `import vllm` gives them everywhere."""
    folder = tmp_path_factory.mktemp("told")
    loaded = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "vllm"}
    with pytest.MonkeyPatch.context() as patch:
        for name in loaded:
            patch.delitem(sys.modules, name)
        patch.setenv("TAGRPO_FAKE_VLLM", str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([*PACKAGES, os.environ.get("PYTHONPATH", ""), *sys.path]))
        patch.syspath_prepend(PACKAGES[0])
        yield folder
        for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def ray_cluster(folder: Path) -> Iterator[Any]:
    """A head without GPUs and a node that says it has one."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1, num_gpus=1)
    yield made
    made.shutdown()


@pytest.fixture(autouse=True)
def obedient(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def ignore(_count: int, _words: str) -> None:
    pass


def pids(folder: Path) -> set[str]:
    return set((folder / "drawn").read_text().split())


@pytest.mark.slow
def test_engines_on_nodes_that_come_and_go_draw_what_one_engine_draws(
    db: Database, model: str, ray_cluster: Any, folder: Path
) -> None:
    alone = plan_run(db, 800, name="alone", max_tokens=20)
    VllmSampler(model, max_model_len=200).fill(alone, ignore)
    (folder / "drawn").unlink()
    (folder / "slow").write_text("3")
    added: list[Any] = []
    drawn, lines = 0, []

    def watch(count: int, words: str) -> None:
        nonlocal drawn
        drawn += count
        lines.append(words)
        if not added:
            added.append(ray_cluster.add_node(num_cpus=1, num_gpus=1))
        elif len(added) == 1 and len(pids(folder)) == 2:
            added.append(ray_cluster.remove_node(added[0]))
            (folder / "slow").unlink()

    sampler = VllmSampler(model, ray_address=ray_cluster.address, max_model_len=200)
    described = sampler.describe()
    assert (described["gpu"], described["vllm"], described["tensor_parallel"]) == ("Fake H100", "0.24.0", 1)
    work = plan_run(db, 800, max_tokens=20)
    try:
        filled = sampler.fill(work, watch)
    finally:
        sampler.close()
    assert (filled.answered, filled.failed, filled.stopped) == (300, 0, None)
    assert stored_texts(work) == stored_texts(alone)
    assert drawn == 2400
    assert len(pids(folder)) == 2
    assert len(added) == 2
    assert any(
        re.search(r"requests in flight on 2 engines of [\d,]+, [\d,]+ tokens/s", line) for line in lines
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "hang"])
def test_a_lost_engine_is_replaced_and_what_it_had_in_hand_drawn_again(
    db: Database, model: str, ray_cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("service.models.vllm.parallel.STALL_S", 3.0)
    (folder / fault).touch()
    work = plan_run(db, 8, max_tokens=20)
    sampler = VllmSampler(model, gpus=1, ray_address=ray_cluster.address, max_model_len=200)
    try:
        filled = sampler.fill(work, ignore)
    finally:
        sampler.close()
    assert (filled.answered, filled.failed, filled.stopped) == (3, 0, None)
    assert len(pids(folder)) == 2
    assert all(cell.state == FILLED for cell in cells_of(work))


@pytest.mark.slow
def test_cells_that_end_every_engine_fail_and_the_run_ends(
    db: Database, model: str, ray_cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.models.vllm.parallel.TRIES", 2)
    work = plan_run(db, 8, problems=1, max_tokens=20)
    sampler = VllmSampler(model, ray_address=ray_cluster.address, max_model_len=200)

    def kill(*_: Any) -> None:
        (folder / "kill").touch()

    kill()
    try:
        with pytest.MonkeyPatch.context() as patch:
            from service.models.vllm.parallel import ParallelEngines

            start = ParallelEngines._start
            patch.setattr(ParallelEngines, "_start", lambda self, place: (kill(), start(self, place))[1])
            filled = sampler.fill(work, ignore)
    finally:
        sampler.close()
    assert (filled.answered, filled.failed, filled.failures) == (0, 1, {"engine": 1})


@pytest.mark.slow
def test_a_driver_that_is_killed_or_stopped_leaves_whole_cells_and_no_engine(
    tmp_path: Path, model: str, ray_cluster: Any, folder: Path
) -> None:
    import psutil
    from runs import open_empty

    path = tmp_path / "t.db"
    with open_empty(path) as db:
        work = plan_run(db, 200, max_tokens=20)
        (folder / "slow").write_text("1")
        before = 0
        for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
            (folder / "drawn").write_text("")
            driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(path), model, ray_cluster.address])
            until = time.monotonic() + 240
            while sum(cell.state == FILLED for cell in cells_of(work)) < before + 6:
                assert time.monotonic() < until
                assert driver.poll() is None
                time.sleep(0.2)
            driver.send_signal(number)
            assert driver.wait(timeout=40) == code
            before = sum(cell.state == FILLED for cell in cells_of(work))
            assert 6 <= before < 75
            until = time.monotonic() + 30
            while any(psutil.pid_exists(int(pid)) for pid in pids(folder)):
                assert time.monotonic() < until
                time.sleep(0.2)
        (folder / "slow").unlink()
        (folder / "drawn").write_text("")
        sampler = VllmSampler(model, ray_address=ray_cluster.address, max_model_len=200)
        try:
            filled = sampler.fill(work, ignore)
        finally:
            sampler.close()
        assert (filled.answered, filled.stopped) == (75 - before, None)
        assert len((folder / "drawn").read_text().split()) == 75 - before


@pytest.mark.slow
def test_what_cannot_be_drawn_there_is_refused(
    db: Database, model: str, ray_cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="gpus is 3; give a multiple of the 2"):
        VllmSampler(model, gpus=3, tensor_parallel=2)
    with pytest.raises(PrerequisiteError, match="no Ray cluster can be reached"):
        VllmSampler(model, ray_address="127.0.0.1:1").describe()
    with pytest.raises(InputError, match="--gpus 4: this machine has 2"):
        VllmSampler(model, gpus=4).describe()
    wide = VllmSampler(model, ray_address=ray_cluster.address, tensor_parallel=2)
    try:
        with pytest.raises(PrerequisiteError, match="has more than 1"):
            wide.describe()
    finally:
        wide.close()
    work = plan_run(db, 8, max_tokens=20)
    (folder / "refuses").touch()
    sampler = VllmSampler(model, ray_address=ray_cluster.address, max_model_len=200)
    try:
        sampler.describe()
        with pytest.raises(PrerequisiteError, match=r"does not start with .*: out of memory"):
            sampler.fill(work, ignore)
    finally:
        sampler.close()
    (folder / "refuses").unlink()
    sampler = VllmSampler(model, ray_address=ray_cluster.address, max_model_len=200)
    monkeypatch.setattr(
        "service.models.vllm.sampler.look_at_device",
        lambda *_: {"vllm": "0.24.0", "device": "cuda", "gpu": "Fake A100"},
    )
    try:
        with pytest.raises(InputError, match=r"has Fake H100 with vLLM 0\.24\.0, another Fake A100"):
            sampler.fill(work, ignore)
    finally:
        sampler.close()
    assert not any(cell.lease_owner for cell in cells_of(work))


@pytest.mark.slow
def test_an_engine_that_does_not_start_is_tried_again_where_another_did(
    db: Database, model: str, folder: Path
) -> None:
    work = plan_run(db, 900, max_tokens=20)
    sampler = VllmSampler(model, gpus=2, max_model_len=200)
    try:
        sampler.describe()
        (folder / "refuses once").touch()
        (folder / "slow").write_text("0.2")
        filled = sampler.fill(work, ignore)
    finally:
        sampler.close()
    assert (filled.failed, filled.stopped, (folder / "refuses once").exists()) == (0, None, False)
    assert len(pids(folder)) == 2


@pytest.mark.slow
def test_the_engines_of_one_machine_need_no_cluster(
    db: Database, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = plan_run(db, 64, max_tokens=20)
    sampler = VllmSampler(model, gpus=2, max_model_len=200)
    try:
        sampler.describe()
        filled = sampler.fill(work, ignore)
    finally:
        sampler.close()
    assert (filled.answered, filled.failed, filled.stopped) == (24, 0, None)
