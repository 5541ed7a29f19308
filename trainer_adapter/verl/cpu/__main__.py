"""verl's `main_ppo` on the CPU, with Ray's workers as forks of a copy of this process (`forks`).

    VERL_USE_EXTERNAL_MODULES=trainer_adapter.verl.cpu.registration python -m trainer_adapter.verl.cpu \\
        'hydra.searchpath=[pkg://trainer_adapter.verl.configs]' +tagrpo=cpu ...
"""

import runpy

from trainer_adapter.verl.cpu import forks

if __name__ == "__main__":
    forks.start()
    runpy.run_module("verl.trainer.main_ppo", run_name="__main__", alter_sys=True)
