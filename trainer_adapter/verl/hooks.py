"""Every part of verl and Ray that tagrpo overrides, calls, reads or patches.

The tests hold this list against the imports and overrides of `trainer_adapter/verl`: a new one needs a line.
"""

from dataclasses import dataclass
from typing import Literal

from trainer_adapter.methods.recipes import Recipe

TESTED_VERSIONS = ("0.9.0", "0.9.1")
"""Of verl: those that this project's own trainings ran with."""


@dataclass(frozen=True)
class Hook:
    """A place that tagrpo leans on.

    Attributes:
        package: verl, ray, ...
        file: below the package's folder.
        name: `function`, `Class`, `Class.method`, `Class.attribute`, `VALUE`; with use `line`, text
            of the file.
        use: overrides: its parameters have to be exactly these; calls: it has to take these, and need no
            others; reads: it has to be there; line: the file has to hold this text.
        parameters: without self; `*` and `**` stand before those that take the rest.
    """

    package: str
    file: str
    name: str
    use: Literal["overrides", "calls", "reads", "line"] = "reads"
    parameters: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, in words."""
        what = f"`{self.name}`" if self.use == "line" else self.name
        return f"{self.package}/{self.file}, {what}"


def _hooks(file: str, *texts: str, package: str = "verl") -> tuple[Hook, ...]:
    """Return hooks of a file: `Name` is read, `=Name(a, b)` overridden, `Name(a, b)` called.

    A text that begins with a backtick has to be in the file.
    """
    return tuple(_hook(package, file, text) for text in texts)


def _hook(package: str, file: str, text: str) -> Hook:
    if text.startswith("`"):
        return Hook(package, file, text[1:], "line")
    if "(" not in text:
        return Hook(package, file, text)
    name, _, rest = text.removesuffix(")").partition("(")
    use: Literal["overrides", "calls"] = "overrides" if name.startswith("=") else "calls"
    return Hook(package, file, name.removeprefix("="), use, tuple(rest.split(", ")) if rest else ())


_DISTRIBUTED = "utils/distributed.py"
_PROCESS_GROUP = '`backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"'
_ENGINE = "workers/engine/fsdp/transformer_impl.py"
_OFFLOAD = "`offload_policy = CPUOffloadPolicy(pin_memory=True)"
_LOOP = "experimental/agent_loop/agent_loop.py"
_BASE = "trainer/ppo/v1/trainer_base.py"
_REPLAY = "trainer/ppo/v1/replay_buffer.py"
_TQ_LOOP = "trainer/ppo/v1/agent_loop_tq.py"
_CORE = "trainer/ppo/core_algos.py"

TIER_1 = (
    *_hooks("__init__.py", "`VERL_USE_EXTERNAL_MODULES", "`verl.plugins"),
    *_hooks(
        _LOOP,
        "_agent_loop_registry",
        "AgentLoopOutput",
        "AgentLoopBase.rollout_config",
        "AgentLoopBase.processor",
        "AgentLoopBase.ct_build_initial_tokens(messages)",
    ),
    *_hooks(_CORE, "register_adv_est(name_or_enum)"),
    *_hooks(
        "workers/rollout/vllm_rollout/bucketed_weight_transfer.py",
        "=BucketedWeightSender.__init__(zmq_handle, bucket_size_mb, use_shm)",
        "=BucketedWeightReceiver.__init__(zmq_handle, device, use_shm)",
    ),
    *_hooks(
        "experimental/agent_loop/single_turn_agent_loop.py",
        "SingleTurnAgentLoop",
        "=SingleTurnAgentLoop.run(sampling_params, priority, **kwargs)",
    ),
)
"""What every recipe needs: how verl loads the agent loop and the advantage estimator, and what these use."""

RESCUE = (
    *_hooks("__init__.py", "DataProto"),
    *_hooks(
        "experimental/reward_loop/reward_loop.py",
        "RewardLoopWorker.compute_score(data)",
        "RewardLoopWorker.compute_score_batch(data)",
        '`f"reward_loop_worker_{',
    ),
    *_hooks("__init__.py", "get_actor", package="ray"),
    *_hooks("__init__.py", "TensorDict", package="tensordict"),
)
"""What a recipe with sampling=rescue needs in addition: grades before the second half is sampled."""

TIER_2 = (
    *_hooks(
        _BASE,
        "register_trainer(name)",
        "=PPOTrainer.__init__(config)",
        "=PPOTrainer.fit(agent_loop_manager)",
        "=PPOTrainer.on_train_begin()",
        "PPOTrainer.checkpoint_manager",
        "=PPOTrainer._fetch_one_gen_batch()",
        "=PPOTrainer._balance_batch(batch, metrics, logging_prefix, keep_minibatch)",
        "=PPOTrainer._compute_advantage(batch, metrics)",
        "=PPOTrainer._save_checkpoint()",
        "=PPOTrainer._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)",
        "PPOTrainer.global_steps",
        "PPOTrainer.tokenizer",
        "PPOTrainer.processor",
        "PPOTrainer.actor_rollout_wg",
        "`self.actor_rollout_wg.compute_log_prob(batch)",
        "`_dispatch_info[role]",
        "`.set_loss_fn(",
    ),
    *_hooks(
        "trainer/ppo/v1/trainer_sync.py",
        "PPOTrainerSync",
        "=PPOTrainerSync.on_init_end()",
        "`self.checkpoint_manager.update_weights(self.global_steps)",
    ),
    *_hooks(
        _REPLAY,
        "ReplayBuffer",
        "=ReplayBuffer.__init__(trainer_mode, trainer_config, max_off_policy_threshold, "
        "max_off_policy_strategy, sampler_kwargs, poll_interval, refill_fn, filter_groups_metric, "
        "train_batch_size, gen_batch_size, max_inflight_gen_batches, sync_refill_failed_groups)",
        "=ReplayBuffer.sample(global_steps, partition_id, batch_size)",
        "=ReplayBuffer._dapo_filtered_keys(partition_id)",
        "=ReplayBuffer._sampleable_terminal_keys(partition_id, eviction_reasons)",
        "=ReplayBuffer._select_prompt_uids(partition_id, sampleable_keys, batch_size)",
        "ReplayBuffer.pending_keys",
        "ReplayBuffer.running_keys",
        "ReplayBuffer.prompt_global_steps",
        "ReplayBuffer._dapo_classification_cache",
    ),
    *_hooks("utils/metric/__init__.py", "Metric"),
    *_hooks("workers/utils/padding.py", "no_padding_2_padding(tensor, data)"),
    *_hooks(
        "__init__.py",
        "kv_batch_get",
        "kv_batch_put",
        "kv_clear",
        "async_kv_put",
        "async_kv_batch_put",
        package="transfer_queue",
    ),
    *_hooks("actor.py", "`_actor_id", package="ray"),
    *_hooks(
        "interface.py", "`TransferQueueController", "`ray.kill(_TQ_CONTROLLER)", package="transfer_queue"
    ),
    *_hooks("__init__.py", "NonTensorData", "NonTensorStack", package="tensordict"),
)
"""What tagrpo's trainer needs in addition: the whole batch, in verl's V1 trainer and its TransferQueue."""

IMAGES = (
    *_hooks(
        "utils/dataset/rl_dataset.py",
        "RLHFDataset",
        "=RLHFDataset._build_messages(example, key)",
        "=RLHFDataset._process_multi_modal_info(messages, image_patch_size, config)",
    ),
    *_hooks("workers/engine/base.py", "`maybe_fix_3d_position_ids(data)"),
    *_hooks("workers/engine_workers.py", "`maybe_fix_3d_position_ids("),
    *_hooks("utils/tokenizer/tokenizer.py", '`case "Qwen2_5_VLProcessor":'),
)
"""What questions with images need in addition."""

CPU = (
    *_hooks(_DISTRIBUTED, _PROCESS_GROUP, "=initialize_global_process_group_ray(timeout_second, backend)"),
    *_hooks("utils/fsdp_utils.py", "CPUOffloadPolicy"),
    *_hooks("plugin/platform/__init__.py", "PlatformRegistry", "PlatformBase"),
    *_hooks(
        "workers/rollout/base.py",
        "_ROLLOUT_REGISTRY",
        "BaseRollout",
        "=BaseRollout.resume(tags)",
        "=BaseRollout.release()",
    ),
    *_hooks(
        "workers/rollout/replica.py",
        "RolloutReplicaRegistry",
        "RolloutReplica",
        "TokenOutput",
        "=RolloutReplica.launch_servers()",
    ),
    *_hooks(_ENGINE, _OFFLOAD),
)
"""What a training without a GPU needs in addition."""

CPU_SPEED = (
    *_hooks(_LOOP, "DictConfigWrap", "ToolListWrap"),
    *_hooks(
        _TQ_LOOP,
        "AgentLoopManagerTQ",
        "AgentLoopWorkerTQ",
        "=AgentLoopWorkerTQ._run_prompt(prompt, sampling_params, trajectory, trace)",
    ),
    *_hooks("actor.py", "`__ray_metadata__", "`__ray_actor_class__", package="ray"),
    *_hooks("_private/runtime_env/py_executable.py", "`py_executable", package="ray"),
)
"""What makes it faster, and can be switched off (docs/train.md)."""

HOOKS: tuple[Hook, ...] = (*TIER_1, *RESCUE, *TIER_2, *IMAGES, *CPU, *CPU_SPEED)
"""All of them."""


GROUPS = {
    "tier 1": TIER_1,
    "tier 2": TIER_2,
    "rescue sampling": RESCUE,
    "images": IMAGES,
    "training without a GPU": CPU,
    "faster CPU training": CPU_SPEED,
}
"""Hooks by what needs them."""


def hooks_of(recipe: Recipe, *, trainer: bool = True) -> tuple[Hook, ...]:
    """Return the hooks that a recipe needs on a GPU, for questions without images.

    Args:
        trainer: whether it is trained with tagrpo's trainer, not with verl's own.
    """
    rescue = RESCUE if recipe.sampling == "rescue" else ()
    return (*TIER_1, *rescue, *(TIER_2 if trainer else ()))
