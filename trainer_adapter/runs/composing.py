"""Compose verl's command from all settings, each with its source."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import InputError
from trainer_adapter.config import TrainConfig
from trainer_adapter.methods.recipes import Recipe
from trainer_adapter.runs.assignments import (
    BOXED_ONLY,
    REWARD_PATH,
    TEMPLATE_KEY,
    Override,
    changed_recipe,
    check_overrides,
    read_overrides,
)
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.runs.model_sizes import known_shape
from trainer_adapter.runs.presets import PRESETS, TrainPreset
from trainer_adapter.runs.settings import OURS, VerlSetting, bare, gpu_settings
from trainer_adapter.verl.cpu.forks import python_of_workers
from trainer_adapter.verl.plugin import REGISTRATION
from trainer_adapter.verl.plugin.overrides import (
    hydra_arguments,
    keeps_log_probs,
    leaves,
    recipe_overrides,
)
from trainer_adapter.verl.plugin.settings import RunSettings

IMAGE_DATASET = "trainer_adapter.verl.plugin.images.dataset"
CPU_PLUGIN = "trainer_adapter.verl.cpu.registration"
_CPU_FILE = Path(__file__).parents[1] / "verl" / "configs" / "tagrpo" / "cpu.yaml"
_RAY_VARIABLES = "+ray_kwargs.ray_init.runtime_env.env_vars"
PYTHON_KEY = "+ray_kwargs.ray_init.runtime_env.py_executable"
_STEPS, _EPOCHS = "trainer.total_training_steps", "trainer.total_epochs"
_MOST_ROWS = "data.train_max_samples"


@dataclass(frozen=True)
class Composition:
    """The settings that verl gets for a config.

    `values` has one setting per key, in the order in which Hydra gets them.
    """

    config: TrainConfig
    recipe: Recipe
    settings: RunSettings
    values: tuple[VerlSetting, ...]

    @property
    def preset(self) -> TrainPreset:
        """The preset, whose settings apply unless recipe, machine or user have others."""
        return PRESETS[self.config.preset]

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, `default` if nothing sets it."""
        setting = self.setting(key)
        return default if setting is None else setting.value

    def setting(self, key: str) -> VerlSetting | None:
        """Return what sets a key, if anything does."""
        return next((setting for setting in self.values if setting.name == key), None)

    @property
    def lora_rank(self) -> int:
        """Rank of the trained adapter; 0 if the whole model is trained."""
        return int(self.value("actor_rollout_ref.model.lora_rank") or 0)

    def rows_of(self, data: TrainingData) -> int:
        """Return how many rows of the training file verl takes."""
        return _taken(data.rows, self.value(_MOST_ROWS))

    def count_steps(self, rows: int) -> int:
        """Return how many steps rows of the training file make in all epochs; the limit if that is less."""
        batches = _taken(rows, self.value(_MOST_ROWS)) // int(self.value("data.train_batch_size"))
        steps = batches * int(self.value(_EPOCHS))
        limit = self.value(_STEPS)
        return steps if limit is None else min(steps, int(limit))

    def arguments(
        self, folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the arguments of `verl.trainer.main_ppo`.

        Args:
            folder: of the run, for Hydra's files.
            environment: variables for the workers of a running Ray cluster, which do not inherit those of
                verl's own process.
        """
        first: dict[str, Any] = {"hydra.run.dir": str(folder / "hydra")} if folder else {}
        if self.config.cpu:
            first[PYTHON_KEY] = python_of_workers()
        users = [each.text for each in self.values if isinstance(each, Override)]
        # Those of cpu.yaml reach verl through the file.
        ours = {
            each.key: each.value
            for each in self.values
            if not isinstance(each, Override) and not (self.config.cpu and each.source == "machine")
        }
        if self.config.ray_address and not self.config.cpu:
            variables = {f"{_RAY_VARIABLES}.{name}": text for name, text in (environment or {}).items()}
            given = {each.name for each in self.values if isinstance(each, Override)}
            ours |= {key: text for key, text in variables.items() if bare(key) not in given}
        return [
            "hydra.searchpath=[pkg://trainer_adapter.verl.configs]",
            *(["+tagrpo=cpu"] if self.config.cpu else []),
            *hydra_arguments(first | ours),
            *users,
        ]


def command(
    composition: Composition, folder: Path, environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command that trains: stock verl in this Python, on the CPU through its fork server."""
    module = "trainer_adapter.verl.cpu" if composition.config.cpu else "verl.trainer.main_ppo"
    arguments = composition.arguments(folder, environment)
    return [sys.executable, "-W", "ignore", "-m", module, *arguments]


def external_modules(cpu: bool) -> str:
    """Return the value of `VERL_USE_EXTERNAL_MODULES`; verl stops if it cannot load them."""
    return f"{CPU_PLUGIN},{REGISTRATION}" if cpu else REGISTRATION


def compose_training(
    config: TrainConfig,
    data: TrainingData | None,
    *,
    folder: Path | None = None,
    name: str | None = None,
    resume: bool = False,
    flash_attention: bool = True,
) -> Composition:
    """Return the settings that verl gets; without data, folder or name, those for them are left out.

    Later sources take precedence: the preset's and our values, the machine's, the model's, the data's, the
    run's, the recipe's, the user's. What a recipe decides cannot be overridden: another value would make
    another method of the same name.
    """
    if config.nodes > 1 and not config.ray_address:
        raise InputError(
            "several nodes need a Ray cluster. Start Ray on every node, then set ray_address=auto on the "
            "head node."
        )
    recipe, overrides = changed_recipe(config), read_overrides(config.verl)
    chosen = dict(config.run)
    if chosen["engine_correction"] is None:
        can_correct = chosen["trainer"] == "tagrpo" or keeps_log_probs(recipe)
        chosen["engine_correction"] = "token" if can_correct and not config.cpu else "none"
    if folder is not None:
        chosen["record"] = str(folder / "rollouts")
    settings = RunSettings(**chosen)
    of_recipe = [
        VerlSetting(key, value, "recipe") for key, value in recipe_overrides(recipe, settings).items()
    ]
    check_overrides(overrides, recipe, {setting.name for setting in of_recipe})
    model = config.model
    if model and folder and Path(model).is_dir():
        model = str(Path(model).resolve())
    given = {override.name: override.value for override in overrides}
    values: dict[str, VerlSetting] = {}
    for group in (
        _of_preset(PRESETS[config.preset], given),
        OURS,
        _of_reward(settings, given),
        _of_machine(config, flash_attention),
        _of_model(model, data),
        _of_data(data, given),
        _of_run(folder, name, resume),
        of_recipe,
        overrides,
    ):
        for setting in group:
            values.pop(setting.name, None)  # the user's stay in their order
            values[setting.name] = setting
    derived = list(_derived(values, config, recipe, None if data is None else data.rows))
    values |= {setting.name: setting for setting in derived}
    return Composition(config, recipe, settings, tuple(values.values()))


def _taken(rows: int, most: Any) -> int:
    return min(rows, most) if isinstance(most, int) and most > 0 else rows


def _of_preset(preset: TrainPreset, given: Mapping[str, Any]) -> Iterator[VerlSetting]:
    """Yield the preset's settings; its length gives way to the epochs or steps that the user counts in.

    verl ends at whichever comes first, so that steps take as many epochs as they may need.
    """
    yield from (each for each in preset.settings if not (_EPOCHS in given and each.name == _STEPS))
    steps = given.get(_STEPS)
    if _EPOCHS not in given and isinstance(steps, int) and steps > preset.value(_EPOCHS):
        yield VerlSetting(_EPOCHS, steps, "ours", f"enough epochs for {steps} steps")


def _of_reward(settings: RunSettings, given: Mapping[str, Any]) -> Iterator[VerlSetting]:
    if REWARD_PATH not in given:  # another function takes its own arguments
        boxed = settings.answers == "boxed"
        reason = "run.answers: unboxed answers in a sentence get no reward" if boxed else "run.answers"
        yield VerlSetting(f"+{BOXED_ONLY}", boxed, "ours", reason)


def _of_machine(config: TrainConfig, flash_attention: bool) -> Iterator[VerlSetting]:
    if config.cpu:
        import yaml  # type: ignore[import-untyped]

        settings = yaml.safe_load(_CPU_FILE.read_text(encoding="utf-8"))
        yield from (
            VerlSetting(key, value, "machine", "configs/tagrpo/cpu.yaml") for key, value in leaves(settings)
        )
        return
    yield from gpu_settings(config.devices)
    yield VerlSetting("trainer.n_gpus_per_node", config.gpus, "machine")
    yield VerlSetting("trainer.nnodes", config.nodes, "machine")
    if not flash_attention:
        model, reason = "actor_rollout_ref.model", "flash-attn is not installed here; slower"
        yield VerlSetting(f"{model}.use_remove_padding", False, "machine", reason)
        yield VerlSetting(f"+{model}.override_config.attn_implementation", "sdpa", "machine", reason)
    if config.ray_address:
        key = f"{_RAY_VARIABLES}.VERL_USE_EXTERNAL_MODULES"
        reason = "for workers; `train run` sets the others"
        yield VerlSetting("+ray_kwargs.ray_init.address", config.ray_address, "machine")
        yield VerlSetting(key, external_modules(cpu=False), "machine", reason)


def _of_model(model: str | None, data: TrainingData | None) -> Iterator[VerlSetting]:
    if model:
        yield VerlSetting("actor_rollout_ref.model.path", model, "run")
    arguments = template_arguments(model) if data is None else data.template.chat_template_kwargs
    for key, value in arguments.items():
        yield VerlSetting(f"+{TEMPLATE_KEY}.{key}", value, "model" if data is None else "data")


def template_arguments(model: str | None) -> dict[str, Any]:
    """Return the arguments for the chat template of one of the papers' models; none for others."""
    shape = known_shape(model) if model else None
    return {"enable_thinking": False} if shape is not None and shape.norms_qk else {}  # of Qwen 3


def _of_data(data: TrainingData | None, given: Mapping[str, Any]) -> Iterator[VerlSetting]:
    if data is None:
        return
    validates = data.validation_file is not None or "data.val_files" in given
    validation, unused = str(data.validation_file or data.train_file), "required by verl, but not used"
    yield VerlSetting("data.train_files", str(data.train_file), "data")
    yield VerlSetting("data.val_files", validation, "data", "" if validates else unused)
    yield VerlSetting("data.max_prompt_length", data.template.max_prompt_tokens, "data", "the export's limit")
    yield VerlSetting(
        "trainer.val_before_train", validates, "ours", "" if validates else "no validation file"
    )
    yield VerlSetting("trainer.test_freq", 10 if validates else -1, "ours", "steps")
    if data.images and "data.custom_cls.path" not in given:
        reason = "images go to the model's processor unchanged"
        yield VerlSetting("data.custom_cls.path", f"pkg://{IMAGE_DATASET}", "data", reason)
        yield VerlSetting("data.custom_cls.name", "ImageDataset", "data", reason)


def _of_run(folder: Path | None, name: str | None, resume: bool) -> Iterator[VerlSetting]:
    if name:
        yield VerlSetting("trainer.experiment_name", name, "run")
    if folder is not None:
        yield VerlSetting("trainer.default_local_dir", str(folder / "checkpoints"), "run")
        yield VerlSetting("trainer.resume_mode", "auto" if resume else "disable", "run")
        yield VerlSetting("trainer.logger", ["console", "file"], "run", "metrics are in the run's folder")


_TOKENS = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
_PADDED_TOKENS = 4096
"""Of a micro-batch without flash-attn, unless a sequence is longer: the fewer rows, the less padding."""

_QUEUE, _QUEUE_ROWS = "transfer_queue.backend.SimpleStorage.total_storage_size", 100_000
"""Capacity of verl's queue in responses, and its default. Training fails if it is full."""

_STEPS_AT_ONCE = 4
"""A step's responses, again on the prompts that were asked, and two steps' of dynamic sampling under way, of
which the user may want more."""


def _derived(
    values: Mapping[str, VerlSetting], config: TrainConfig, recipe: Recipe, rows: int | None
) -> Iterator[VerlSetting]:
    """Yield the settings that follow from others."""

    def value(key: str, default: Any = None) -> Any:
        return values[key].value if key in values else default

    batch = value("data.train_batch_size")
    under_way = value("algorithm.filter_groups.max_inflight_gen_batches")
    steps_held = _STEPS_AT_ONCE + (under_way - 1 if isinstance(under_way, int) and under_way else 0)
    queued = int(steps_held * batch * recipe.rollouts)
    if queued > _QUEUE_ROWS and _QUEUE not in values:
        yield VerlSetting(_QUEUE, queued, "ours", "capacity for the responses of a step")
    prompt, response = value("data.max_prompt_length"), value("data.max_response_length")
    if config.run.trainer == "verl":
        if recipe.loss.aggregation == "seq-mean-token-sum-norm":
            key, reason = "loss_scale_factor", "otherwise verl divides by the longest response"
            yield VerlSetting(f"actor_rollout_ref.actor.{key}", response, "recipe", reason)
        if value("trainer.use_v1") is False:
            key = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
            yield VerlSetting(key, None, "ours", "tagrpo's manager for the CPU needs verl's V1 trainer")
    if not config.cpu:
        longest = prompt + response
        if (key := "actor_rollout_ref.rollout.max_model_len") not in values:
            yield VerlSetting(key, longest, "machine", "prompt and response together")
        packed = value("actor_rollout_ref.model.use_remove_padding")
        if packed is False and values[_TOKENS].source == "machine":
            fewer = min(value(_TOKENS), max(longest, _PADDED_TOKENS))
            reason = "without flash-attn, each row of a micro-batch is padded to the longest row"
            yield VerlSetting(_TOKENS, fewer, "machine", reason)
    if rows is not None and value(_STEPS) is not None:
        # verl saves after the last step alone, so that a number that the epochs do not reach is lowered.
        reached = int(int(_taken(rows, value(_MOST_ROWS)) // batch) * value(_EPOCHS))
        if 0 < reached < value(_STEPS):
            reason = f"maximum number of steps in {value(_EPOCHS)} epochs"
            yield VerlSetting(_STEPS, reached, "data", reason)
