"""Every part of verl and Ray that tagrpo overrides, calls, reads or patches.

The tests hold this list against the imports and overrides of `trainer_adapter/verl`: a new one needs a line.
"""

from typing import NamedTuple

from trainer_adapter.methods.recipes import Recipe

TESTED_VERSIONS = ("0.9.0", "0.9.1")
"""Of verl: those that this project's own trainings ran with."""


class Hook(NamedTuple):
    """A place that tagrpo leans on."""

    package: str  # verl, ray, ..
    file: str  # below the package's folder
    # `function`, `Class`, `Class.method`, `Class.attribute` or `VALUE`, which has to be there; with
    # parameters in brackets, a function that has to take these and need no others. With a leading backtick,
    # text that the file has to hold.
    text: str

    @property
    def name(self) -> str:
        """Of what it is, without parameters."""
        return self.text.partition("(")[0]

    @property
    def place(self) -> str:
        """Where it is, in words."""
        what = f"{self.text}`" if self.text.startswith("`") else self.name
        return f"{self.package}/{self.file}, {what}"


def _hooks(file: str, *texts: str, package: str = "verl") -> tuple[Hook, ...]:
    return tuple(Hook(package, file, text) for text in texts)


_LOOP = "experimental/agent_loop/agent_loop.py"

TIER_1 = (
    *_hooks("__init__.py", "`VERL_USE_EXTERNAL_MODULES", "`verl.plugins"),
    *_hooks(
        _LOOP,
        "_agent_loop_registry",
        "AgentLoopBase.processor",
        "AgentLoopBase.ct_build_initial_tokens(messages)",
    ),
    *_hooks("trainer/ppo/core_algos.py", "register_adv_est(name_or_enum)"),
    *_hooks(
        "workers/rollout/vllm_rollout/bucketed_weight_transfer.py",
        "BucketedWeightSender.__init__(zmq_handle, bucket_size_mb, use_shm)",
        "BucketedWeightReceiver.__init__(zmq_handle, device, use_shm)",
    ),
    *_hooks(
        "experimental/agent_loop/single_turn_agent_loop.py",
        "SingleTurnAgentLoop",
        "SingleTurnAgentLoop.run(sampling_params, priority)",
    ),
)
"""What every recipe needs: how verl loads the agent loop and the advantage estimator, and what these use."""

RESCUE = _hooks("trainer/ppo/reward.py", "get_custom_reward_fn(config)")
"""What a recipe with sampling=rescue needs in addition: grades before the second half is sampled."""

TIER_2 = (
    *_hooks(
        "trainer/ppo/v1/trainer_base.py",
        "register_trainer(name)",
        "PPOTrainer.__init__(config)",
        "PPOTrainer.on_train_begin()",
        "PPOTrainer.step(metrics, timing_raw)",
        "PPOTrainer._fetch_one_gen_batch()",
        "PPOTrainer._balance_batch(batch, metrics, logging_prefix, keep_minibatch)",
        "PPOTrainer._compute_advantage(batch, metrics)",
        "PPOTrainer._save_checkpoint()",
        "PPOTrainer._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)",
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
        "PPOTrainerSync.on_init_end()",
        "PPOTrainerSync.on_step_end()",
    ),
    *_hooks(
        "trainer/ppo/v1/replay_buffer.py",
        "ReplayBuffer",
        "ReplayBuffer.__init__(trainer_mode, trainer_config, max_off_policy_threshold, "
        "max_off_policy_strategy, sampler_kwargs, poll_interval, refill_fn, filter_groups_metric, "
        "train_batch_size, gen_batch_size, max_inflight_gen_batches)",
        "ReplayBuffer.sample(global_steps, partition_id, batch_size)",
        "ReplayBuffer._dapo_filtered_keys(partition_id)",
        "ReplayBuffer._select_prompt_uids(partition_id, sampleable_keys, batch_size)",
        "ReplayBuffer._dapo_classification_cache",
    ),
    *_hooks("utils/metric/__init__.py", "Metric"),
    *_hooks("workers/utils/padding.py", "no_padding_2_padding(tensor, data)"),
    *_hooks(
        "__init__.py",
        *("kv_batch_get", "kv_batch_put", "kv_clear", "kv_list"),
        package="transfer_queue",
    ),
    *_hooks("actor.py", "`_actor_id", package="ray"),
    *_hooks(
        "interface.py", "`TransferQueueController", "`ray.kill(_TQ_CONTROLLER)", package="transfer_queue"
    ),
    *_hooks("__init__.py", "NonTensorData", "NonTensorStack", "TensorDict", package="tensordict"),
)
"""What tagrpo's trainer needs in addition: the whole batch, in verl's V1 trainer and its TransferQueue."""

IMAGES = (
    *_hooks(
        "utils/dataset/rl_dataset.py",
        "RLHFDataset",
        "RLHFDataset._build_messages(example, key)",
        "RLHFDataset._process_multi_modal_info(messages, image_patch_size, config)",
    ),
    *_hooks("utils/tensordict_utils.py", "maybe_fix_3d_position_ids(data)"),
    *_hooks("utils/tokenizer/tokenizer.py", '`case "Qwen2_5_VLProcessor":'),
)
"""What questions with images need in addition."""

CPU = (
    *_hooks("plugin/platform/__init__.py", "PlatformRegistry", "PlatformBase"),
    *_hooks(
        "workers/rollout/base.py",
        *("_ROLLOUT_REGISTRY", "BaseRollout", "BaseRollout.resume(tags)", "BaseRollout.release()"),
    ),
    *_hooks(
        "workers/rollout/replica.py",
        *("RolloutReplicaRegistry", "RolloutReplica", "TokenOutput", "RolloutReplica.launch_servers()"),
    ),
)
"""What a training without a GPU needs in addition."""

CPU_SPEED = (
    *_hooks(
        _LOOP,
        "AgentLoopBase.__init__(trainer_config, server_manager, tokenizer, processor, dataset_cls, "
        "data_config)",
        "AgentLoopWorker._run_agent_loop(sampling_params, trajectory, agent_name, trace)",
    ),
    *_hooks(
        "trainer/ppo/v1/agent_loop_tq.py",
        "AgentLoopManagerTQ",
        "AgentLoopWorkerTQ",
        "AgentLoopWorkerTQ._agent_loop_postprocess(output, validate)",
    ),
    *_hooks("__init__.py", "get_actor", package="ray"),
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
    """Return the hooks that a recipe needs on a GPU, for questions without images."""
    rescue = RESCUE if recipe.sampling == "rescue" else ()
    return (*TIER_1, *rescue, *(TIER_2 if trainer else ()))
