"""The recipes in verl 0.9.1: an agent loop, a trainer and a loss, started through stock `main_ppo`.

Importing this package does nothing; `registration` makes verl know what is here. verl imports that module in
every process through its entry-point group `verl.plugins`, or by `VERL_USE_EXTERNAL_MODULES`.
"""

NAME = "tagrpo"
"""Of the trainer mode, of the agent loop and of the advantage estimator."""

REGISTRATION = "trainer_adapter.verl.plugin.registration"
"""What `VERL_USE_EXTERNAL_MODULES` names where a failure to load shall be an error; verl swallows those of
entry points."""
