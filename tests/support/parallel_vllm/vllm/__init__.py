"""vLLM of other processes: the module of `fake_vllm`, told by files how to misbehave.

In the folder `TAGRPO_FAKE_VLLM`: `kill` ends the process at its next step, `hang` never ends that step, both
once; `slow` holds seconds for each step; `refuses` ends every start, `refuses once` the first; `gpu` names
another device in what starts from then on; `drawn` gets a line for each request.
"""

import os
import signal
import sys
import time
from pathlib import Path

from fake_vllm import Behaviour, modules

_FOLDER = Path(os.environ["TAGRPO_FAKE_VLLM"])


def _before_step(_step: int) -> None:
    if (_FOLDER / "slow").exists():
        time.sleep(float((_FOLDER / "slow").read_text()))
    if (_FOLDER / "hang").exists():
        (_FOLDER / "hang").unlink()
        time.sleep(1000)
    try:
        (_FOLDER / "kill").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _before_request(_number: int) -> None:
    with (_FOLDER / "drawn").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")


_behaviour = Behaviour(before_step=_before_step, before_request=_before_request)
if (_FOLDER / "refuses").exists():
    _behaviour.fails_to_start = "out of memory"
try:
    (_FOLDER / "refuses once").unlink()
    _behaviour.fails_to_start = "an address in use"
except FileNotFoundError:
    pass
_modules = modules(_behaviour)
if (_FOLDER / "gpu").exists():
    name = (_FOLDER / "gpu").read_text()
    _modules["vllm.platforms"].current_platform.get_device_name = lambda *_: name  # type: ignore[attr-defined]
sys.modules.update(_modules)
