"""The plug-in's parts, without a run; the run itself is in `test_verl_training.py`."""

from pathlib import Path

import pytest
from forks import Forks
from verl_code import result_of, run_code

LOADED = """
import json, os
import verl
import torch, torch.distributed as dist
from verl.plugin.platform import get_platform
from verl.utils import device, distributed, fsdp_utils
from verl.utils.memory_utils import aggressive_empty_cache
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
store = "file://" + os.path.abspath("store")
os.environ["DIST_INIT_METHOD"] = store
distributed.initialize_global_process_group_ray()
summed = torch.ones(2)
dist.all_reduce(summed)
aggressive_empty_cache()
module = device.get_torch_device()
free, total = module.mem_get_info()
try:
    module.no_such_thing
except AttributeError:
    unknown = "refused"
print("RESULT " + json.dumps({
    "platform": type(get_platform()).__name__,
    "device": str(device.get_device_id()),
    "backend": dist.get_backend(),
    "summed": summed.tolist(),
    "pinned": fsdp_utils.CPUOffloadPolicy(pin_memory=True).pin_memory,
    "rollout": get_rollout_class("transformers").__name__,
    "replica": get_rollout_replica_class("transformers").__name__,
    "memory": 10**8 < module.memory_allocated() < 10**10 and module.max_memory_allocated() > 10**8,
    "free": 0 < free < total,
    "unknown": unknown,
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_verl_finds_platform_rollout_and_workarounds(verl_forks: Forks, tmp_path: Path) -> None:
    assert result_of(verl_forks, LOADED, tmp_path) == {
        "platform": "CpuPlatform",
        "device": "cpu",
        "backend": "cpu:gloo",
        "summed": [1.0, 1.0],
        "pinned": False,
        "rollout": "TransformersRollout",
        "replica": "TransformersReplica",
        "memory": True,
        "free": True,
        "unknown": "refused",
    }


@pytest.mark.slow
def test_another_platform_beside_the_plug_in_is_refused(verl_forks: Forks, tmp_path: Path) -> None:
    code = "import trainer_adapter.verl.cpu.registration"
    loaded = run_code(verl_forks, code, tmp_path, VERL_PLATFORM="nvidia")
    assert loaded.returncode != 0
    assert "VERL_PLATFORM is nvidia" in loaded.stderr
