"""Estimate the memory of a training run by phase, by formula.

In them: P parameters, A those of an adapter (LoRA), n GPUs that the training state is sharded over, T tokens
of a micro-batch, V rows of the vocabulary, h hidden, L layers, i intermediate width, q and k widths of
queries and of keys. verl keeps weights, gradients and optimizer in float32 and computes in bfloat16 (its
defaults), here with gradient checkpointing.
"""

import re
from dataclasses import dataclass
from typing import Literal

from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.model_sizes import ModelShape

GIB = 2**30
OVERHEAD_GIB = 2.0
"""CUDA's context, buffers of communication, vLLM's workspace: a guess."""

PADDED = 4
"""Tokens of a micro-batch with its padding, for each that is none, where flash-attn does not pack rows: an
upper bound for the mixes of lengths that `test_what_plans_count_for_padding_is_enough` has verl pack."""

Phase = Literal["rollout", "update"]


@dataclass(frozen=True)
class Part:
    """A part of the memory of one GPU, in GiB, with the formula it comes from."""

    phase: Phase
    what: str
    gib: float
    formula: str


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of one GPU by phase, of the machine, and of the disk."""

    parts: tuple[Part, ...]  # of both phases
    gpu_gib: float  # what a GPU has
    # of the machine, all ranks together: offloaded state, a reference policy, weights of a sleeping vLLM
    host_gib: float
    checkpoint_gib: float  # on the disk
    cache_tokens: int  # in the key-value cache of each replica of vLLM; 0 if its weights do not fit
    concurrent: float  # responses of full length that it holds at a time
    adapter_parameters: int  # of the adapter that is trained (LoRA); 0 where the whole model is
    packed: bool  # whether flash-attn packs the rows of a micro-batch

    def total(self, phase: Phase) -> float:
        """Return the sum of a phase, GiB."""
        return sum(part.gib for part in self.parts if part.phase == phase)

    @property
    def fits(self) -> bool:
        """Whether both phases fit, and a response of full length fits the cache."""
        return max(self.total("rollout"), self.total("update")) <= self.gpu_gib and self.concurrent >= 1

    @property
    def shortage(self) -> str | None:
        """What does not fit, and what to try; None where all does."""
        rollout, update = "verl.actor_rollout_ref.rollout", "verl.actor_rollout_ref.actor"
        if self.fits:
            return None
        if self.concurrent < 1:
            return (
                "a response of maximum length does not fit into vLLM's share of the GPU. Raise "
                f"{rollout}.gpu_memory_utilization, or {rollout}.tensor_model_parallel_size with several "
                "GPUs"
            )
        if self.total("update") > self.gpu_gib:
            lora = (
                ""
                if self.adapter_parameters
                else ", or an adapter (verl.actor_rollout_ref.model.lora_rank=32)"
            )
            return (
                f"the update needs {self.total('update'):.0f} GiB, but a GPU has {self.gpu_gib:g} GiB. Lower "
                f"{update}.ppo_max_token_len_per_gpu, or use more GPUs{lora}"
            )
        return (
            f"rollouts need {self.total('rollout'):.0f} GiB, but a GPU has {self.gpu_gib:g} GiB. Lower "
            f"{rollout}.gpu_memory_utilization, or set {update}.fsdp_config.param_offload=true and "
            ".optimizer_offload=true"
        )


def plan_memory(composition: Composition, shape: ModelShape, gpu_gib: float) -> MemoryPlan:
    """Return what one of the GPUs has to hold."""
    parameters, n, rank = shape.parameters, composition.config.devices, composition.lora_rank
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    tokens = int(composition.value(f"{actor}.ppo_max_token_len_per_gpu"))
    packed = composition.value("actor_rollout_ref.model.use_remove_padding") is not False
    if not packed:
        tokens *= PADDED
    parallel = int(composition.value(f"{rollout}.tensor_model_parallel_size"))
    share = float(composition.value(f"{rollout}.gpu_memory_utilization"))
    weights_away = bool(composition.value(f"{actor}.fsdp_config.param_offload"))
    optimizer_away = bool(composition.value(f"{actor}.fsdp_config.optimizer_offload"))
    modules = str(composition.value("actor_rollout_ref.model.target_modules"))
    # What is no list, as Hydra writes one, is a pattern, and all layers are an upper bound.
    names = re.findall(r"[\w.]+", modules) if modules.startswith("[") else None
    adapter = shape.adapter_parameters(rank, names)
    held, trained = parameters + adapter, adapter if rank else parameters
    of_held, of_trained = ("(P + A)", "A") if rank else ("P", "P")
    weights, gradients, optimizer = 4 * held / n, 4 * trained / n, 8 * trained / n
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = (shape.parameters - shape.vocabulary * shape.hidden) / shape.layers
    gathered = 2 * (shape.vocabulary * shape.hidden + layer)
    saved = 2 * tokens * shape.hidden * shape.layers
    inside = 2 * tokens * (6 * shape.hidden + 3 * shape.intermediate + queries + 2 * keys)
    logits = 8 * tokens * shape.vocabulary

    engine = share * gpu_gib * GIB
    sizes: list[tuple[Phase, str, float, str]] = [
        ("rollout", "vLLM: weights and cache", engine, "gpu_memory_utilization * GPU"),
        ("update", "weights", weights, f"4 {of_held} / n"),
        ("update", "gradients", gradients, f"4 {of_trained} / n"),
        ("update", "optimizer", optimizer, f"8 {of_trained} / n (Adam)"),
        ("update", "gathered weights", gathered, "2 (V h + P of a layer)"),
        ("update", "saved activations", saved, "2 T h L"),
        ("update", "one layer, recomputed", inside, "2 T (6 h + 3 i + q + 2 k)"),
        ("update", "logits", logits, "8 T V"),
        ("update", "overhead", OVERHEAD_GIB * GIB, "a guess"),
    ]
    if not optimizer_away:
        sizes.insert(1, ("rollout", "optimizer", optimizer, f"8 {of_trained} / n (Adam)"))
    if not weights_away:
        sizes.insert(1, ("rollout", "weights", weights, f"4 {of_held} / n"))
    away: float = 4 * held * weights_away + 8 * trained * optimizer_away
    if composition.recipe.loss.kl_coef > 0 and not rank:
        # verl keeps a reference off the GPU; with an adapter it is the policy without it.
        away += 4 * parameters
    served = parameters
    if rank and composition.value("actor_rollout_ref.model.lora.merge") is not True:
        served = held
        away += 2 * parameters * n / parallel  # of vLLM while it sleeps
    room = engine - 2 * served / parallel - OVERHEAD_GIB * GIB
    cache = max(0, int(room / (shape.kv_bytes_per_token / parallel)))
    longest = sum(int(composition.value(f"data.max_{end}_length")) for end in ("prompt", "response"))
    return MemoryPlan(
        tuple(Part(phase, what, size / GIB, formula) for phase, what, size, formula in sizes),
        gpu_gib,
        away / GIB,
        _checkpoint(composition, parameters, held, trained) / GIB,
        cache,
        cache / longest,
        adapter,
        packed,
    )


def _checkpoint(composition: Composition, parameters: int, held: int, trained: int) -> int:
    key = "actor_rollout_ref.actor.checkpoint"
    saved = set(re.findall(r"\w+", str(composition.value(f"{key}.save_contents", "model,optimizer,extra"))))
    of_adapter_alone = composition.value(f"{key}.save_lora_only") is True
    return (
        4 * (trained if of_adapter_alone else held) * ("model" in saved)
        + 8 * trained * ("optimizer" in saved)
        + 4 * parameters * ("hf_model" in saved)
    )
