"""How verl comes to know the plug-in: late, in order, and not at all with another verl."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from service.errors import PrerequisiteError
from trainer_adapter.verl.hooks import TIER_2
from trainer_adapter.verl.plugin import REGISTRATION, checks


def run_code(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in `folder`, with verl on the CPU."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    variables = {"VERL_USE_EXTERNAL_MODULES": "trainer_adapter.verl.cpu.registration", **environment}
    call, env = [sys.executable, "-c", code], {**inherited, **variables}
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_another_platform_next_to_the_plug_in_is_refused(tmp_path):
    code = "import trainer_adapter.verl.cpu.registration"
    loaded = run_code(code, tmp_path, VERL_PLATFORM="nvidia")
    assert loaded.returncode != 0
    assert "VERL_PLATFORM is nvidia" in loaded.stderr


@pytest.mark.slow
def test_verl_learns_of_the_plugin_only_where_it_needs_it(tmp_path):
    code = """
import sys
import verl
held = "verl.trainer.ppo.v1.trainer_base", "verl.experimental.agent_loop.agent_loop"
print([name in sys.modules for name in held])
from verl.trainer.ppo.v1 import get_trainer_cls
print(get_trainer_cls("tagrpo").__name__)
from verl.experimental.agent_loop import agent_loop
print(agent_loop._agent_loop_registry["tagrpo"]["_target_"].rsplit(".", 1)[1])
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
print("tagrpo" in ADV_ESTIMATOR_REGISTRY)
"""
    installed = tmp_path / "as_installed-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: as-installed\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[verl.plugins]\nas_installed = {REGISTRATION}\n")
    done = run_code(code, tmp_path, VERL_USE_EXTERNAL_PLUGINS="as_installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == ["[False, False]", "NeighborTrainer", "NeighborAgentLoop", "True"]


def test_an_untested_verl_with_every_hook_is_taken_and_named_and_another_refused(monkeypatch, tmp_path):
    assert checks.untested_version() is None
    monkeypatch.setattr(metadata, "version", lambda name: "0.9.7")
    checks.check_version(TIER_2)
    assert "verl 0.9.7 is not among the tested versions (0.9.0, 0.9.1)" in str(checks.untested_version())
    monkeypatch.setattr(metadata, "version", lambda name: "0.10.0")
    (tmp_path / "trainer").mkdir()
    monkeypatch.setattr(checks, "installed_folders", lambda: {"verl": tmp_path})
    with pytest.raises(
        PrerequisiteError,
        match=r"verl 0\.10\.0 is installed, which is untested and differs .* `tagrpo doctor --training`",
    ):
        checks.check_version(TIER_2)

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(PrerequisiteError, match=r"training needs verl .*Install the extra"):
        checks.check_version(TIER_2)


ASKS = """
import sys
import ray
from trainer_adapter.verl.transfer import check_queue

check_queue()
ray.init(address=sys.argv[1], log_to_driver=False)
check_queue()


@ray.remote(num_cpus=0)
class Queue:
    pass


queue = Queue.options(name="TransferQueueController", namespace="transfer_queue").remote()
ray.get(queue.__ray_ready__.remote())
check_queue()
print("has a queue", flush=True)
sys.stdin.read()
"""


CONNECTS = """
import sys
import ray
import transfer_queue
import transfer_queue.interface as queues
from service.errors import PrerequisiteError
from trainer_adapter.verl.transfer import check_connection

check_connection()
ray.init(address=sys.argv[1], log_to_driver=False)
queues._TQ_CONTROLLER = ray.get_actor("TransferQueueController", namespace="transfer_queue")
try:
    check_connection()
except PrerequisiteError as error:
    print(error)
transfer_queue.close()  # as verl does at its end
queue = ray.get_actor("TransferQueueController", namespace="transfer_queue")
ray.get(queue.__ray_ready__.remote(), timeout=60)
"""


@pytest.mark.slow
def test_a_second_training_on_a_ray_cluster_is_refused():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        command = [sys.executable, "-c", ASKS, made.address]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as first:
            assert first.stdout.readline() == "has a queue\n"
            second = subprocess.run(command, input="", capture_output=True, text=True, check=False)
            assert second.returncode == 1
            assert "another training run uses this Ray cluster" in second.stderr
            # It had looked before the first one had its queue, and is connected to it.
            late = subprocess.run(
                [sys.executable, "-c", CONNECTS, made.address], capture_output=True, text=True, check=False
            )
            assert late.stdout.startswith("another training run uses this Ray cluster"), late.stderr
            assert late.returncode == 0, late.stderr
            first.communicate("")
        third = subprocess.run(command, input="", capture_output=True, text=True, check=False)
        assert (third.returncode, third.stdout) == (0, "has a queue\n")
    finally:
        made.shutdown()
