"""Settings for verl, found by Hydra under `pkg://trainer_adapter.verl.configs`."""
