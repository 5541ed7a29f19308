"""The plug-in's parts, without a run; the run itself is in `test_verl_training.py`."""

import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from forks import Forks
from verl_code import result_of, run_code

from service.errors import PrerequisiteError
from trainer_adapter.verl.hooks import DISTRIBUTED, ENGINE, OFFLOAD_LINE, PROCESS_GROUP_LINE

SOURCE = Path(__file__).parents[2] / "trainer_adapter" / "verl" / "cpu" / "workarounds.py"


@pytest.fixture
def workarounds() -> Any:
    """Return the module without its package, which would load verl into the test's own process."""
    spec = importlib.util.spec_from_file_location("workarounds_alone", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fake_verl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workarounds: Any) -> Path:
    """Return the folder of a verl that has the two lines and the tested version."""
    for name, line in ((DISTRIBUTED, PROCESS_GROUP_LINE), (ENGINE, OFFLOAD_LINE)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"    {line}\n")
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", {"verl": found}.get)
    monkeypatch.setattr(metadata, "version", lambda name: "0.9.1")
    return tmp_path


def test_a_changed_source_is_refused(fake_verl: Path, workarounds: Any) -> None:
    (fake_verl / ENGINE).write_text("    offload_policy = None\n")
    with pytest.raises(
        PrerequisiteError, match=r"transformer_impl\.py, `.*pin_memory=True\)`: has no such line"
    ):
        workarounds.check_verl()


def test_a_function_that_someone_already_holds_is_not_replaced(
    workarounds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Any = ModuleType("verl.home")
    holder: Any = ModuleType("verl.holder")
    home.start = holder.start = print
    monkeypatch.setitem(sys.modules, "verl.home", home)
    monkeypatch.setitem(sys.modules, "verl.holder", holder)
    with pytest.raises(PrerequisiteError, match=r"verl\.holder was imported before"):
        workarounds._replace(home, "start", len)
    assert home.start is print
    del holder.start
    workarounds._replace(home, "start", len)
    assert home.start is len


LOADED = """
import json, os
import verl
from trainer_adapter.verl.cpu import workarounds
workarounds.apply()
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
