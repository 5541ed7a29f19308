"""Values for verl that no recipe sets, each with its source; values from papers are in `presets`."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from trainer_adapter.verl.plugin import REWARD

OfPaper: TypeAlias = Literal["Table 2", "v1 runs", "AG 4.1", "AG C.2", "AG code", "CW Table 5", "CW code"]
Source: TypeAlias = Literal["recipe", OfPaper, "ours", "model", "machine", "data", "run", "user"]

SOURCES: dict[Source, str] = {
    "recipe": "the recipe's axes; a different value makes a different recipe",
    "Table 2": "arXiv 2601.22478 v5, Table 2",
    "v1 runs": "the public training runs of arXiv 2601.22478 v1",
    "AG 4.1": "arXiv 2602.05548, Section 4.1",
    "AG C.2": "arXiv 2602.05548, Appendix C.2",
    "AG code": "the public scripts of arXiv 2602.05548, consistent with the paper",
    "CW Table 5": "arXiv 2605.11538, Table 5",
    "CW code": "the public recipes of arXiv 2605.11538; the paper does not state it",
    "ours": "tagrpo's choice; the paper does not state it",
    "model": "the model's chat template, as in the paper's configurations",
    "machine": "tagrpo's estimate for the machine; not tested on GPUs",
    "data": "the exported neighbor set",
    "run": "files and folders of this run",
    "user": "given on the command line",
}

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True)
class VerlSetting:
    """One value for verl."""

    key: str  # Hydra's key, with a leading `+` where verl's own configuration lacks it
    value: Any  # a plain value
    source: Source  # where it comes from, a key of `SOURCES`
    reason: str = ""  # why, where the source alone does not say it

    @property
    def name(self) -> str:
        """The key without Hydra's marks."""
        return bare(self.key)


def bare(key: str) -> str:
    """Return a Hydra key without its leading `+`, `++` or `~`."""
    return key.lstrip("+~")


OURS: tuple[VerlSetting, ...] = (
    VerlSetting("data.seed", 42, "ours", "otherwise the order of the questions differs between runs"),
    VerlSetting("data.truncation", "error", "ours", "the export excluded long prompts; none is truncated"),
    VerlSetting("reward.custom_reward_function.path", REWARD, "ours", "the shared grader"),
    VerlSetting("reward.custom_reward_function.name", "compute_score", "ours"),
    VerlSetting(
        f"{_ROLLOUT}.val_kwargs.do_sample", True, "ours", "validation samples as the evaluation does"
    ),
    VerlSetting(f"{_ROLLOUT}.val_kwargs.temperature", 0.6, "ours", "temperature of the public evaluation"),
    VerlSetting(f"{_ROLLOUT}.val_kwargs.top_p", 0.95, "ours", "top-p of the public evaluation"),
    VerlSetting(f"{_ROLLOUT}.val_kwargs.n", 4, "ours"),
    VerlSetting("trainer.project_name", "tagrpo", "ours"),
    VerlSetting("trainer.save_freq", 10, "ours", "steps; `tagrpo resume` resumes from the last one"),
    VerlSetting("trainer.max_actor_ckpt_to_keep", 2, "ours", "a checkpoint has 12 bytes per parameter"),
)


def gpu_settings(gpus: int) -> tuple[VerlSetting, ...]:
    """Return the settings of so many GPUs; the CPU's are `configs/tagrpo/cpu.yaml`."""
    alone, fsdp = gpus == 1, f"{_ACTOR}.fsdp_config"
    tokens, reason = 8192 if alone else 16384, "tokens of a micro-batch"
    offload = "16 bytes per parameter leave no memory for vLLM" if alone else "sharded weights stay"
    return (
        VerlSetting(f"{_ROLLOUT}.name", "vllm", "v1 runs"),
        VerlSetting(
            f"{_ROLLOUT}.tensor_model_parallel_size",
            1,
            "machine",
            "models up to 4B fit one GPU; verl's default is 2",
        ),
        VerlSetting(f"{_ACTOR}.strategy", "fsdp2", "machine", "the engine of tagrpo's CPU tests"),
        VerlSetting(f"{_ACTOR}.use_dynamic_bsz", True, "machine", "micro-batches by tokens, not by rows"),
        VerlSetting(f"{_ACTOR}.ppo_max_token_len_per_gpu", tokens, "machine", reason),
        VerlSetting(f"{_ROLLOUT}.gpu_memory_utilization", 0.6, "machine"),
        VerlSetting(f"{fsdp}.param_offload", alone, "machine", offload),
        VerlSetting(f"{fsdp}.optimizer_offload", alone, "machine", "as above"),
    )
