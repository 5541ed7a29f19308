"""Compose verl's command from all settings, each with its source."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import InputError
from trainer_adapter.config import TrainConfig
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.runs.assignments import (
    BOXED_ONLY,
    TEMPLATE_KEY,
    Override,
    changed_recipe,
    check_overrides,
    read_overrides,
    rewards_by_another,
)
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.runs.model_sizes import known_shape
from trainer_adapter.runs.presets import DEFAULT, PRESETS, Preset
from trainer_adapter.runs.settings import OURS, Setting, bare, gpu_settings
from trainer_adapter.verl.cpu.fork_server import python_of_workers
from trainer_adapter.verl.plugin import REGISTRATION
from trainer_adapter.verl.plugin.overrides import hydra_arguments, keeps_log_probs, recipe_overrides
from trainer_adapter.verl.plugin.settings import PlugInSettings, RunSettings

IMAGE_DATASET = "trainer_adapter.verl.plugin.images.dataset"
CPU_PLUGIN = "trainer_adapter.verl.cpu.registration"
_CPU_FILE = Path(__file__).parents[1] / "verl" / "configs" / "tagrpo" / "cpu.yaml"
_RAY_VARIABLES = "+ray_kwargs.ray_init.runtime_env.env_vars"
PYTHON_KEY = "+ray_kwargs.ray_init.runtime_env.py_executable"


@dataclass(frozen=True)
class Machine:
    """Where verl runs: GPUs of each node, nodes, or the CPU; and a Ray cluster that runs already."""

    gpus: int = 1
    nodes: int = 1
    cpu: bool = False
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.cpu and (self.nodes > 1 or self.gpus > 1):
            raise InputError("--cpu uses one machine and one process. Remove --gpus and --nodes.")
        if self.nodes > 1 and not self.ray_address:
            raise InputError(
                "several nodes need a Ray cluster. Start Ray on every node, then set ray_address=auto on "
                "the head node."
            )

    @property
    def devices(self) -> int:
        """GPUs of all nodes; 1 on the CPU."""
        return self.gpus * self.nodes

    @property
    def name(self) -> str:
        """In words."""
        if self.cpu:
            return "CPU"
        gpus = f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}"
        return gpus if self.nodes == 1 else f"{self.nodes} nodes of {gpus}"


@dataclass(frozen=True)
class Composition:
    """What verl is told.

    Attributes:
        recipe, settings, machine: what was composed.
        values: one setting a key, in the order in which Hydra gets them; user's last.
        user: the user's overrides as written.
        preset: whose settings they are, where neither recipe, machine nor user has others.
    """

    recipe: Recipe
    settings: RunSettings
    machine: Machine
    values: tuple[Setting, ...]
    user: tuple[Override, ...]
    preset: Preset = PRESETS[DEFAULT]

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, `default` where nothing sets it."""
        setting = self.setting(key)
        return default if setting is None else setting.value

    def setting(self, key: str) -> Setting | None:
        """Return what sets a key; None where nothing does."""
        return next((setting for setting in reversed(self.values) if setting.name == key), None)

    @property
    def lora_rank(self) -> int:
        """Rank of the adapter that is trained; 0 where the whole model is."""
        return int(self.value("actor_rollout_ref.model.lora_rank") or 0)

    def rows_of(self, data: TrainingData) -> int:
        """Return how many rows of the training file verl takes."""
        return _taken(data.rows, self.setting(_MOST_ROWS))

    def count_steps(self, rows: int) -> int:
        """Return how many steps rows of the training file make in all epochs; the limit if that is less."""
        batches = _taken(rows, self.setting(_MOST_ROWS)) // int(self.value("data.train_batch_size"))
        steps = batches * int(self.value("trainer.total_epochs"))
        limit = self.value("trainer.total_training_steps")
        return steps if limit is None else min(steps, int(limit))

    def arguments(
        self, folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the arguments of `verl.trainer.main_ppo`.

        Args:
            folder: of the run, for Hydra's files.
            environment: what the workers of a Ray cluster that runs already are to find in theirs, since they
                do not inherit that of verl's own process.
        """
        sources = {each.name: each.source for each in self.values}
        user = [override for override in self.user if sources.get(override.name, "user") == "user"]
        written = {override.name for override in user}
        # Those of cpu.yaml reach verl through the file; what is theirs is listed for the reader only.
        chosen = {
            each.key: each.value
            for each in self.values
            if each.name not in written and not (self.machine.cpu and each.source == "machine")
        }
        if self.machine.ray_address and not self.machine.cpu:
            chosen |= {
                f"{_RAY_VARIABLES}.{name}": value
                for name, value in (environment or {}).items()
                if bare(f"{_RAY_VARIABLES}.{name}") not in written
            }
        first = ["hydra.searchpath=[pkg://trainer_adapter.verl.configs]"]
        if self.machine.cpu:
            first += ["+tagrpo=cpu", *hydra_arguments({PYTHON_KEY: python_of_workers()})]
        first += hydra_arguments({"hydra.run.dir": str(folder / "hydra")}) if folder else []
        return [*first, *hydra_arguments(chosen), *(override.text for override in user)]


def command(
    composition: Composition, folder: Path, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command that trains: stock verl, in this Python; on the CPU by way of its fork server."""
    module = "trainer_adapter.verl.cpu" if composition.machine.cpu else "verl.trainer.main_ppo"
    arguments = composition.arguments(folder, environment)
    return [sys.executable, "-W", "ignore", "-m", module, *arguments]


def external_modules(machine: Machine) -> str:
    """Return what `VERL_USE_EXTERNAL_MODULES` names: a failure to load them is an error."""
    return f"{CPU_PLUGIN},{REGISTRATION}" if machine.cpu else REGISTRATION


def compose_training(
    config: TrainConfig,
    data: TrainingData | None,
    *,
    folder: Path | None = None,
    name: str | None = None,
    resume: bool = False,
    flash_attention: bool = True,
) -> Composition:
    """Return what verl is told for a config; see `compose_run`."""
    preset = PRESETS[config.preset]
    model = config.model
    return compose_run(
        changed_recipe(config.recipe, preset),
        config.machine,
        settings=config.run,
        model=str(Path(model).resolve()) if model and folder and Path(model).is_dir() else model,
        data=data,
        folder=folder,
        name=name,
        resume=resume,
        overrides=read_overrides(config.verl),
        preset=preset,
        flash_attention=flash_attention,
    )


def compose_run(
    recipe: Recipe,
    machine: Machine,
    *,
    settings: PlugInSettings | None = None,
    model: str | None = None,
    data: TrainingData | None = None,
    folder: Path | None = None,
    name: str | None = None,
    resume: bool = False,
    overrides: Sequence[Override] = (),
    preset: Preset = PRESETS[DEFAULT],
    flash_attention: bool = True,
) -> Composition:
    """Return what verl is told for a recipe; parts that are not known yet are left out.

    Later sources win over earlier ones: the preset's and our values, the machine's, the model's, the data's,
    the run's, the recipe's, the user's. What a recipe decides cannot be overridden: another value would make
    another method of the same name.
    """
    chosen = dict(settings or PlugInSettings())
    if chosen["engine_correction"] is None:
        can_correct = chosen["trainer"] == "tagrpo" or keeps_log_probs(recipe)
        chosen["engine_correction"] = "token" if can_correct and not machine.cpu else "none"
    if folder is not None:
        chosen["record"] = str(folder / "rollouts")
    settings = RunSettings(**chosen)
    of_recipe = [Setting(key, value, "recipe") for key, value in recipe_overrides(recipe, settings).items()]
    check_overrides(overrides, recipe, {setting.name for setting in of_recipe})
    values: dict[str, Setting] = {}
    for group in (
        _of_preset(preset, overrides),
        OURS,
        _of_reward(settings, overrides),
        _of_machine(machine, flash_attention),
        _of_model(model, data),
        _of_data(data, overrides),
        _of_run(folder, name, resume),
        of_recipe,
        [Setting(each.key, each.value, "user") for each in overrides],
    ):
        for setting in group:
            values.pop(setting.name, None)
            values[setting.name] = setting
    _size_queue(values, recipe)
    if settings.trainer == "verl":
        _complete_tier_1(values, recipe)
    if not machine.cpu:
        _fit_lengths(values)
    if data is not None:
        _end_with_the_epochs(values, data.rows)
    return Composition(recipe, settings, machine, tuple(values.values()), tuple(overrides), preset)


_TOKENS = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
_PADDED_TOKENS = 4096
"""Of a micro-batch without flash-attn, unless a sequence is longer: the fewer rows, the less padding."""

_STEPS, _EPOCHS = "trainer.total_training_steps", "trainer.total_epochs"
_MOST_ROWS = "data.train_max_samples"


def _taken(rows: int, most: Setting | None) -> int:
    limit = None if most is None else most.value
    return min(rows, limit) if isinstance(limit, int) and limit > 0 else rows


def _of_preset(preset: Preset, overrides: Sequence[Override]) -> list[Setting]:
    """Return the preset's settings; its length gives way to the epochs or steps that the user counts in.

    verl ends at whichever comes first, so that steps take as many epochs as they may need.
    """
    given = {override.name: override.value for override in overrides}
    settings = [each for each in preset.settings if not (_EPOCHS in given and each.name == _STEPS)]
    steps, epochs = given.get(_STEPS), preset.value(_EPOCHS)
    if _EPOCHS not in given and isinstance(steps, int) and steps > epochs:
        settings.append(Setting(_EPOCHS, steps, "ours", f"enough epochs for {steps} steps"))
    return settings


_QUEUE, _QUEUE_ROWS = "transfer_queue.backend.SimpleStorage.total_storage_size", 100_000
"""How many responses verl's queue takes, and its default."""

_STEPS_AT_ONCE = 4
"""A step's responses, again on the prompts that were asked, and two steps' of dynamic sampling under way, of
which the user may want more."""


def _size_queue(values: dict[str, Setting], recipe: Recipe) -> None:
    """Make room for a large step: verl's queue fails where it is full, after responses were drawn."""
    under_way = values.get("algorithm.filter_groups.max_inflight_gen_batches")
    steps = _STEPS_AT_ONCE + (under_way.value - 1 if under_way and isinstance(under_way.value, int) else 0)
    rows = int(steps * values["data.train_batch_size"].value * recipe.rollouts)
    if rows > _QUEUE_ROWS and _QUEUE not in values:
        values[_QUEUE] = Setting(_QUEUE, rows, "ours", "capacity for the responses of a step")


def _complete_tier_1(values: dict[str, Setting], recipe: Recipe) -> None:
    """Set what verl's own trainer needs beyond the recipe's settings."""
    if recipe.loss.aggregation == "seq-mean-token-sum-norm":
        key = "actor_rollout_ref.actor.loss_scale_factor"
        longest = values["data.max_response_length"].value
        values[key] = Setting(key, longest, "recipe", "otherwise verl divides by the longest response")
    if "trainer.use_v1" in values and values["trainer.use_v1"].value is False:
        key = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
        values[key] = Setting(key, None, "ours", "tagrpo's manager for the CPU needs verl's V1 trainer")


def _fit_lengths(values: dict[str, Setting]) -> None:
    """Set what follows from the longest prompt and response on GPUs, where the user says nothing."""
    longest = sum(values[f"data.max_{part}_length"].value for part in ("prompt", "response"))
    if (key := "actor_rollout_ref.rollout.max_model_len") not in values:
        values[key] = Setting(key, longest, "machine", "prompt and response together")
    packed, tokens = values.get("actor_rollout_ref.model.use_remove_padding"), values[_TOKENS]
    if packed is not None and packed.value is False and tokens.source == "machine":
        fewer = min(tokens.value, max(longest, _PADDED_TOKENS))
        reason = "without flash-attn, each row of a micro-batch is padded to the longest row"
        values[_TOKENS] = Setting(_TOKENS, fewer, "machine", reason)


def _end_with_the_epochs(values: dict[str, Setting], rows: int) -> None:
    """Lower a number of steps that the epochs do not reach: verl saves after the last step alone."""
    steps = values[_STEPS].value if _STEPS in values else None
    batches = int(_taken(rows, values.get(_MOST_ROWS)) // values["data.train_batch_size"].value)
    epochs = values[_EPOCHS].value
    if steps is not None and 0 < (reached := int(batches * epochs)) < steps:
        values[_STEPS] = Setting(_STEPS, reached, "data", f"maximum number of steps in {epochs} epochs")


def _of_reward(settings: RunSettings, overrides: Sequence[Override]) -> list[Setting]:
    if rewards_by_another(overrides):
        return []  # which takes what it takes
    reason = "run.answers: unboxed answers in a sentence get no reward"
    boxed = settings.answers == "boxed"
    return [Setting(f"+{BOXED_ONLY}", boxed, "ours", reason if boxed else "run.answers")]


def _of_machine(machine: Machine, flash_attention: bool) -> list[Setting]:
    if machine.cpu:
        return [Setting(key, value, "machine", "configs/tagrpo/cpu.yaml") for key, value in cpu_settings()]
    settings = [
        *gpu_settings(machine.devices),
        Setting("trainer.n_gpus_per_node", machine.gpus, "machine"),
        Setting("trainer.nnodes", machine.nodes, "machine"),
    ]
    if not flash_attention:
        model, reason = "actor_rollout_ref.model", "flash-attn is not installed here; slower"
        settings += [
            Setting(f"{model}.use_remove_padding", False, "machine", reason),
            Setting(f"+{model}.override_config.attn_implementation", "sdpa", "machine", reason),
        ]
    if machine.ray_address:
        key = f"{_RAY_VARIABLES}.VERL_USE_EXTERNAL_MODULES"
        settings += [
            Setting("+ray_kwargs.ray_init.address", machine.ray_address, "machine"),
            Setting(key, external_modules(machine), "machine", "for workers; `train run` sets the others"),
        ]
    return settings


def cpu_settings() -> list[tuple[str, Any]]:
    """Return the keys and values of `configs/tagrpo/cpu.yaml`."""
    import yaml  # type: ignore[import-untyped]

    return list(leaves(yaml.safe_load(_CPU_FILE.read_text(encoding="utf-8"))))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings with their paths, dots between the keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _of_model(model: str | None, data: TrainingData | None) -> list[Setting]:
    settings = [Setting("actor_rollout_ref.model.path", model, "run")] if model else []
    if data is None:
        arguments = template_arguments(model).items()
        settings += [Setting(f"+{TEMPLATE_KEY}.{key}", value, "model") for key, value in arguments]
    return settings


def template_arguments(model: str | None) -> dict[str, Any]:
    """Return the arguments for the chat template of one of the papers' models; none for others."""
    shape = known_shape(model) if model else None
    return {"enable_thinking": False} if shape is not None and shape.norms_qk else {}  # of Qwen 3


def _of_data(data: TrainingData | None, overrides: Sequence[Override]) -> list[Setting]:
    if data is None:
        return []
    validates = data.validation_file is not None or any(
        override.name == "data.val_files" for override in overrides
    )
    settings = [
        Setting("data.train_files", str(data.train_file), "data"),
        Setting(
            "data.val_files",
            str(data.validation_file or data.train_file),
            "data",
            "" if validates else "required by verl, but not used",
        ),
        Setting("data.max_prompt_length", data.max_prompt_tokens, "data", "the export's limit"),
        Setting("trainer.val_before_train", validates, "ours", "" if validates else "no validation file"),
        Setting("trainer.test_freq", 10 if validates else -1, "ours", "steps"),
    ]
    if data.images and not any(override.name == "data.custom_cls.path" for override in overrides):
        reason = "images go to the model's processor unchanged"
        settings += [
            Setting("data.custom_cls.path", f"pkg://{IMAGE_DATASET}", "data", reason),
            Setting("data.custom_cls.name", "ImageDataset", "data", reason),
        ]
    arguments = data.chat_template_kwargs.items()
    return settings + [Setting(f"+{TEMPLATE_KEY}.{key}", value, "data") for key, value in arguments]


def _of_run(folder: Path | None, name: str | None, resume: bool) -> list[Setting]:
    settings = [Setting("trainer.experiment_name", name, "run")] if name else []
    if folder is not None:
        settings += [
            Setting("trainer.default_local_dir", str(folder / "checkpoints"), "run"),
            Setting("trainer.resume_mode", "auto" if resume else "disable", "run"),
            Setting("trainer.logger", ["console", "file"], "run", "metrics are in the run's folder"),
        ]
    return settings
