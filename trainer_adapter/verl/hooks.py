"""Every part of verl 0.9.1 and Ray that tagrpo overrides, calls, reads or patches.

The tests hold this list against the imports and overrides of `trainer_adapter/verl`: a new one needs a line.
"""

from dataclasses import dataclass
from typing import Literal

from trainer_adapter.verl.image_prompts import PROCESSORS

TESTED_VERSIONS = ("0.9.1",)
"""Of verl: those that this project's own trainings ran with."""


@dataclass(frozen=True)
class Hook:
    """A place that tagrpo leans on.

    Attributes:
        package: verl, ray, ...
        file: below the package's folder.
        name: `function`, `Class`, `Class.method`, `Class.attribute`, `VALUE`; with use `line`, text
            of the file.
        used_in: who leans on it, below `trainer_adapter/verl`.
        use: overrides: its parameters have to be exactly these; calls: it has to take these, and need no
            others; reads: it has to be there; line: the file has to hold this text.
        parameters: without self; `*` and `**` stand before those that take the rest.
    """

    package: str
    file: str
    name: str
    used_in: str
    use: Literal["overrides", "calls", "reads", "line"] = "reads"
    parameters: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, in words."""
        what = f"`{self.name}`" if self.use == "line" else self.name
        return f"{self.package}/{self.file}, {what}"


def _verl(file: str, used_in: str, *hooks: str) -> tuple[Hook, ...]:
    """Return the hooks of a file: `Name` is read, `=Name(a, b)` overridden, `Name(a, b)` called."""
    return tuple(_hook("verl", file, used_in, text) for text in hooks)


def _hook(package: str, file: str, used_in: str, text: str) -> Hook:
    if "(" not in text:
        return Hook(package, file, text, used_in)
    name, _, rest = text.removesuffix(")").partition("(")
    use: Literal["overrides", "calls"] = "overrides" if name.startswith("=") else "calls"
    return Hook(package, file, name.removeprefix("="), used_in, use, tuple(rest.split(", ")) if rest else ())


def _line(file: str, used_in: str, text: str) -> tuple[Hook, ...]:
    return (Hook("verl", file, text, used_in, "line"),)


DISTRIBUTED = "utils/distributed.py"
PROCESS_GROUP_LINE = 'backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"'
ENGINE = "workers/engine/fsdp/transformer_impl.py"
OFFLOAD_LINE = "offload_policy = CPUOffloadPolicy(pin_memory=True)"
_LOOP = "experimental/agent_loop/agent_loop.py"
_BASE = "trainer/ppo/v1/trainer_base.py"
_REPLAY = "trainer/ppo/v1/replay_buffer.py"
_TQ_LOOP = "trainer/ppo/v1/agent_loop_tq.py"
_CORE = "trainer/ppo/core_algos.py"
_TENSORDICTS = "utils/tensordict_utils.py"

PLUGIN: tuple[Hook, ...] = (
    *_line("__init__.py", "plugin/registration.py", "VERL_USE_EXTERNAL_MODULES"),
    *_line("__init__.py", "plugin/registration.py", "verl.plugins"),
    *_line(_BASE, "plugin/registration.py", "TRAINER_REGISTRY"),
    *_line(_LOOP, "plugin/registration.py", "_agent_loop_registry"),
    *_verl(_LOOP, "plugin/registration.py", "_agent_loop_registry"),
    *_verl(_CORE, "plugin/registration.py", "register_adv_est(name_or_enum)"),
    *_verl(_BASE, "plugin/registration.py", "register_trainer(name)"),
    *_verl(
        "workers/rollout/vllm_rollout/bucketed_weight_transfer.py",
        "plugin/registration.py",
        "=BucketedWeightSender.__init__(zmq_handle, bucket_size_mb, use_shm)",
        "=BucketedWeightReceiver.__init__(zmq_handle, device, use_shm)",
    ),
    *_verl("trainer/ppo/v1/trainer_sync.py", "plugin/trainer.py", "PPOTrainerSync"),
    *_verl(
        _BASE,
        "plugin/trainer.py",
        "=PPOTrainer.__init__(config)",
        "=PPOTrainer.fit(agent_loop_manager)",
        "=PPOTrainer._init_dataloader()",
        "=PPOTrainer._build_replay_buffer()",
        "=PPOTrainer.on_train_begin()",
        "PPOTrainer.checkpoint_manager",
        "PPOTrainer.timing_raw",
        "=PPOTrainer._fetch_one_gen_batch()",
        "=PPOTrainer._balance_batch(batch, metrics, logging_prefix, keep_minibatch)",
        "=PPOTrainer._compute_old_log_prob(batch, metrics)",
        "=PPOTrainer._compute_ref_log_prob(batch, metrics)",
        "=PPOTrainer._compute_advantage(batch, metrics)",
        "=PPOTrainer._update_actor(batch, metrics)",
        "=PPOTrainer._load_checkpoint()",
        "=PPOTrainer._save_checkpoint()",
        "=PPOTrainer._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)",
        "PPOTrainer._add_prompts_to_generate(num_prompts)",
        "PPOTrainer._resolve_filter_groups_metric()",
        "PPOTrainer.global_steps",
        "PPOTrainer.train_dataset",
        "PPOTrainer.tokenizer",
        "PPOTrainer.processor",
        "PPOTrainer.use_teacher_policy",
        "PPOTrainer.actor_rollout_wg",
    ),
    *_verl("trainer/ppo/v1/trainer_sync.py", "plugin/trainer.py", "=PPOTrainerSync.on_init_end()"),
    *_line(
        "trainer/ppo/v1/trainer_sync.py",
        "plugin/trainer.py",
        "self.checkpoint_manager.update_weights(self.global_steps)",
    ),
    *_verl(
        "utils/seqlen_balancing.py",
        "plugin/steps/updates.py",
        "calculate_workload(seqlen_list)",
        "get_seqlen_balanced_partitions(seqlen_list, k_partitions, equal_size)",
        "log_seqlen_unbalance(seqlen_list, partitions, prefix)",
    ),
    *_verl("utils/profiler/performance.py", "plugin/trainer.py", "marked_timer"),
    *_verl("workers/utils/padding.py", "plugin/trainer.py", "response_to_nested(tensor, response_mask)"),
    *_verl(
        "trainer/ppo/rollout_corr_helper.py",
        "plugin/importance.py",
        "compute_rollout_correction_weights(log_ratio, response_mask, rollout_is, rollout_is_threshold)",
    ),
    *_verl(
        "workers/utils/padding.py",
        "plugin/importance.py",
        "response_from_nested(tensor, response_mask)",
    ),
    *_verl(_TENSORDICTS, "transfer.py", "list_of_dict_to_tensordict"),
    *_line(_BASE, "plugin/importance.py", "self.actor_rollout_wg.compute_log_prob(batch)"),
    *_line(_BASE, "plugin/trainer.py", "_dispatch_info[role]"),
    *_line(_BASE, "plugin/trainer.py", ".set_loss_fn("),
    *_line(_BASE, "plugin/trainer.py", "actor.optim.total_training_steps = "),
    *_line(ENGINE, "plugin/trainer.py", "zero_indexed_step=zero_indexed_step"),
    *_verl(
        _TENSORDICTS,
        "plugin/trainer.py",
        "assign_non_tensor_stack(tensor_dict, key, val)",
    ),
    *_verl(
        _REPLAY,
        "plugin/steps/dynamic.py",
        "ReplayBuffer",
        "=ReplayBuffer.__init__(trainer_mode, trainer_config, max_off_policy_threshold, "
        "max_off_policy_strategy, sampler_kwargs, poll_interval, refill_fn, filter_groups_metric, "
        "train_batch_size, gen_batch_size, max_inflight_gen_batches, sync_refill_failed_groups)",
        "=ReplayBuffer.sample(global_steps, partition_id, batch_size)",
        "=ReplayBuffer._evict_terminal_groups(global_steps, partition_id, eviction_reasons)",
        "=ReplayBuffer._dapo_filtered_keys(partition_id)",
        "=ReplayBuffer._sampleable_terminal_keys(partition_id, eviction_reasons)",
        "=ReplayBuffer._select_prompt_uids(partition_id, sampleable_keys, batch_size)",
        "ReplayBuffer.pending_keys",
        "ReplayBuffer.running_keys",
        "ReplayBuffer.finished_keys",
        "ReplayBuffer.failure_keys",
        "ReplayBuffer.filter_groups_metric",
        "ReplayBuffer._dapo_classification_cache",
    ),
    *_verl(_LOOP, "plugin/agent_loop.py", "AgentLoopOutput", "AgentLoopBase.rollout_config"),
    *_verl(
        "experimental/agent_loop/single_turn_agent_loop.py",
        "plugin/agent_loop.py",
        "SingleTurnAgentLoop",
        "=SingleTurnAgentLoop.run(sampling_params, priority, **kwargs)",
    ),
    *_verl(_LOOP, "plugin/agent_loop.py", "AgentLoopBase.ct_build_initial_tokens(messages)"),
    *_verl(
        _LOOP,
        "plugin/agent_loop.py",
        "AgentLoopBase.processor",
    ),
    *_verl(_LOOP, "plugin/sessions.py", "AgentLoopOutput"),
    *_verl(
        "utils/dataset/rl_dataset.py",
        "plugin/images/dataset.py",
        "RLHFDataset",
        "=RLHFDataset._build_messages(example, key)",
        "=RLHFDataset._process_multi_modal_info(messages, image_patch_size, config)",
    ),
    *_verl(_TENSORDICTS, "plugin/images/positions.py", "nested_tensor_from_tensor_list(tensors, ragged_idx)"),
    *_line("workers/engine/base.py", "plugin/registration.py", "maybe_fix_3d_position_ids(data)"),
    *_line("workers/engine_workers.py", "plugin/registration.py", "maybe_fix_3d_position_ids("),
    *(
        hook
        for name in PROCESSORS
        for hook in _line("utils/tokenizer/tokenizer.py", "image_prompts.py", f'case "{name}":')
    ),
    *_verl(_LOOP, "plugin/grading.py", "AgentLoopOutput"),
    *_verl("__init__.py", "plugin/grading.py", "DataProto"),
    *_verl(
        "experimental/reward_loop/reward_loop.py",
        "plugin/grading.py",
        "RewardLoopWorker.compute_score(data)",
        "RewardLoopWorker.compute_score_batch(data)",
    ),
    *_line("experimental/reward_loop/reward_loop.py", "plugin/grading.py", 'f"reward_loop_worker_{'),
    *_verl("utils/metric/__init__.py", "plugin/loss.py", "AggregationType", "Metric"),
    *_verl("workers/utils/padding.py", "plugin/loss.py", "no_padding_2_padding(tensor, data)"),
)
"""What a training on any machine needs."""

CPU: tuple[Hook, ...] = (
    *_line(DISTRIBUTED, "cpu/workarounds.py", PROCESS_GROUP_LINE),
    *_line(ENGINE, "cpu/workarounds.py", OFFLOAD_LINE),
    *_verl(
        DISTRIBUTED,
        "cpu/workarounds.py",
        "=initialize_global_process_group_ray(timeout_second, backend)",
    ),
    *_verl("utils/fsdp_utils.py", "cpu/workarounds.py", "CPUOffloadPolicy"),
    *_verl("plugin/platform/__init__.py", "cpu/registration.py", "PlatformRegistry"),
    *_verl("plugin/platform/__init__.py", "cpu/platform.py", "PlatformBase"),
    *_verl("workers/rollout/base.py", "cpu/registration.py", "_ROLLOUT_REGISTRY"),
    *_verl("workers/rollout/replica.py", "cpu/registration.py", "RolloutReplicaRegistry"),
    *_verl(
        "workers/rollout/base.py",
        "cpu/rollout.py",
        "BaseRollout",
        "=BaseRollout.__init__(config, model_config, device_mesh, *args, **kwargs)",
        "=BaseRollout.resume(tags)",
        "=BaseRollout.release()",
    ),
    *_verl(
        "workers/rollout/replica.py",
        "cpu/rollout.py",
        "RolloutReplica",
        "TokenOutput",
        "=RolloutReplica.launch_servers()",
    ),
    *_verl(_TENSORDICTS, "cpu/engine.py", "get_non_tensor_data(data, key, default)"),
    *_verl("utils/model.py", "cpu/engine.py", "extract_multi_modal_inputs"),
    *_verl("workers/engine/base.py", "cpu/engine.py", "EngineRegistry"),
    *_verl(
        ENGINE,
        "cpu/engine.py",
        "FSDPEngineWithLMHead",
        "=FSDPEngineWithLMHead.forward_step(micro_batch, loss_function, forward_only)",
    ),
    *_verl("workers/engine/utils.py", "cpu/engine.py", "detach_tree"),
    *_verl(
        _LOOP,
        "cpu/grouped_agent_loop.py",
        "AgentLoopOutput",
        "DictConfigWrap",
        "ToolListWrap",
        "_agent_loop_registry",
    ),
    *_verl(
        _TQ_LOOP,
        "cpu/grouped_agent_loop.py",
        "AgentLoopManagerTQ",
        "AgentLoopWorkerTQ",
        "apply_greedy_sampling_params",
        "=AgentLoopWorkerTQ._run_prompt(prompt, sampling_params, trajectory, trace)",
    ),
    *_verl(
        "workers/rollout/llm_server.py",
        "cpu/grouped_agent_loop.py",
        "LLMServerClient",
        "LLMServerClient._load_balancer",
        "LLMServerClient._acquire_server(request_id)",
        "LLMServerClient._release_server(server_id, request_id)",
    ),
    Hook("ray", "actor.py", "__ray_metadata__", "cpu/grouped_agent_loop.py", "line"),
    Hook("ray", "actor.py", "__ray_actor_class__", "cpu/grouped_agent_loop.py", "line"),
    Hook("ray", "_private/runtime_env/py_executable.py", "py_executable", "cpu/fork_server.py", "line"),
)
"""What a training without a GPU needs beside."""

OTHERS: tuple[Hook, ...] = (
    *(
        _hook("transfer_queue", "__init__.py", "transfer.py", name)
        for name in ("kv_batch_get", "kv_batch_put", "kv_clear", "async_kv_put", "async_kv_batch_put")
    ),
    _hook("ray", "__init__.py", "plugin/grading.py", "get_actor"),
    _hook("ray", "__init__.py", "transfer.py", "get_actor"),
    Hook("ray", "actor.py", "_actor_id", "transfer.py", "line"),
    Hook("transfer_queue", "interface.py", "TransferQueueController", "transfer.py", "line"),
    Hook("transfer_queue", "interface.py", "ray.kill(_TQ_CONTROLLER)", "transfer.py", "line"),
    _hook("tensordict", "__init__.py", "plugin/grading.py", "TensorDict"),
    _hook("tensordict", "__init__.py", "plugin/trainer.py", "TensorDict"),
    _hook("tensordict", "__init__.py", "cpu/grouped_agent_loop.py", "NonTensorData"),
)

HOOKS: tuple[Hook, ...] = (*PLUGIN, *CPU, *OTHERS)
"""All of them."""
