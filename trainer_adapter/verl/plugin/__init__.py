"""The recipes in verl 0.9.1: an agent loop, a trainer and a loss, started through stock `main_ppo`.

Importing this package does nothing; `registration` registers its parts with verl. verl imports that module in
every process through its entry-point group `verl.plugins`, or by `VERL_USE_EXTERNAL_MODULES`.
"""

NAME = "tagrpo"
"""Name of the trainer mode, the agent loop and the advantage estimator."""

ABOUT_FIELD = "tagrpo"
"""Field that the agent loop adds to a response's `extra_fields`."""

REGISTRATION = "trainer_adapter.verl.plugin.registration"
"""Value of `VERL_USE_EXTERNAL_MODULES` that turns a failure to load into an error; verl swallows failures of
entry points.
"""

REWARD = "pkg://trainer_adapter.verl.reward"
"""tagrpo's reward function, as verl's config names its module."""
