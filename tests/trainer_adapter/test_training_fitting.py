import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from training_configs import assign

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.plans.memory import PADDED, plan_memory
from trainer_adapter.runs import checking
from trainer_adapter.runs.composing import Composition, Machine, compose_run
from trainer_adapter.runs.model_sizes import MODELS
from trainer_adapter.verl.fitting import GIB, check_ranks, memory_note

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
pytestmark = pytest.mark.usefixtures("quick_hydra")


def composed(
    *texts: str, recipe: str = "ta_grpo", machine: Machine | None = None, **more: Any
) -> Composition:
    assigned = assign(RECIPES[recipe], texts)
    given: dict[str, Any] = {"model": "Qwen/Qwen3-4B", "overrides": assigned.overrides} | more
    return compose_run(assigned.recipe, machine or Machine(4), **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "low"),
    [
        (["data.max_response_length=16384"], f"{ACTOR}.ppo_max_token_len_per_gpu is 16384"),
        ([f"{ACTOR}.ppo_max_token_len_per_gpu=3000"], "ppo_max_token_len_per_gpu is 3000"),
        (
            [f"{ROLLOUT}.log_prob_max_token_len_per_gpu=3000"],
            "rollout.log_prob_max_token_len_per_gpu is 3000",
        ),
        (["actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=3000"], "ref.log_prob_max_token_len_per_gpu"),
        ([f"{ROLLOUT}.max_model_len=2048"], "rollout.max_model_len is 2048"),
    ],
)
def test_sequences_that_do_not_fit_are_refused_before_anything_is_drawn(
    tmp_path: Path, texts: list[str], low: str
) -> None:
    with pytest.raises(InputError, match=r"prompt and response may have 512 \+ \d+ = \d+ tokens") as refused:
        checking.check_configuration(composed(*texts), tmp_path)
    assert low in str(refused.value)


def test_ranks_share_a_long_sequence_and_no_reference_needs_no_room(tmp_path: Path) -> None:
    half = [
        f"{ACTOR}.ppo_max_token_len_per_gpu=2000",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=9",
    ]
    shared = composed(*half, f"{ACTOR}.ulysses_sequence_parallel_size=2", recipe="dr_grpo")
    assert checking.check_configuration(shared, tmp_path) == []


@pytest.mark.slow
def test_a_model_says_how_long_a_sequence_may_be(tmp_path: Path) -> None:
    about = {"max_position_embeddings": 2048, "model_type": "qwen2"}
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"max_position_embeddings of the model is 2048\. Give 3584 or more"):
        checking.check_configuration(composed(model=str(tmp_path)), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(about | {"rope_scaling": {"factor": 4}}))
    assert checking.check_configuration(composed(model=str(tmp_path)), tmp_path) == []


def test_what_a_penalty_or_a_known_model_has_no_room_for_is_refused(tmp_path: Path) -> None:
    settings = assign(RECIPES["dapo"], ["run.overlong_buffer=4096"]).settings
    with pytest.raises(InputError, match=r"run\.overlong_buffer is 4096 of the 3072 tokens"):
        checking.check_configuration(composed(recipe="dapo", settings=settings), tmp_path)
    longer = composed("data.max_response_length=4096", model="Qwen/Qwen2.5-Math-7B-Instruct")
    with pytest.raises(InputError, match="max_position_embeddings of the model is 4096"):
        checking.check_configuration(longer, tmp_path)


def test_a_gpu_that_is_too_small_is_named_with_the_way_out() -> None:
    one = composed(machine=Machine(1))
    assert memory_note(one, 80 * GIB) is None
    assert "by the estimate of `tagrpo train plan`, the update needs" in str(memory_note(one, 24 * GIB))
    assert memory_note(composed(model="no name of a model"), 16 * GIB) is None


def test_the_queue_has_room_for_a_large_step() -> None:
    """verl's own takes 100,000 responses, and fails with more."""
    key = "transfer_queue.backend.SimpleStorage.total_storage_size"
    assert composed().value(key) is None
    assert composed("data.train_batch_size=2048").value(key) == 4 * 2048 * 32
    assert composed("data.train_batch_size=2048", f"{key}=70000").value(key) == 70_000


def test_without_flash_attention_pytorchs_is_taken() -> None:
    model = "actor_rollout_ref.model"
    with_it, without = composed(), composed(flash_attention=False)
    assert with_it.value(f"{model}.use_remove_padding") is None
    assert without.value(f"{model}.use_remove_padding") is False
    assert without.value(f"{model}.override_config.attn_implementation") == "sdpa"
    # Its micro-batches are padded, so they have fewer tokens, and plans count the padding too.
    tokens = f"{ACTOR}.ppo_max_token_len_per_gpu"
    assert (with_it.value(tokens), without.value(tokens)) == (16384, 4096)
    assert composed("data.max_response_length=8192", flash_attention=False).value(tokens) == 8704
    assert composed(f"{tokens}=9000", flash_attention=False).value(tokens) == 9000
    logits = [
        next(
            part.gib
            for part in plan_memory(each, MODELS["Qwen3-4B"].shape, 80).parts
            if part.what == "logits"
        )
        for each in (with_it, without)
    ]
    assert logits[1] == pytest.approx(logits[0])  # 4,096 tokens and three times as many around them
    assert [plan_memory(each, MODELS["Qwen3-4B"].shape, 80).packed for each in (with_it, without)] == [
        True,
        False,
    ]
    # A plan for a machine without it can be made on any.
    asked = composed(f"{model}.use_remove_padding=false")
    assert asked.value(tokens) == 4096
    assert not plan_memory(asked, MODELS["Qwen3-4B"].shape, 80).packed
    chosen = composed(f"{model}.use_remove_padding=true", flash_attention=False)
    assert chosen.value(f"{model}.use_remove_padding") is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_mean", "spread", "longest"),
    [(6.5, 0.6, 25), (6.0, 0.8, 5), (7.2, 0.5, 60), (5.5, 0.3, 2), (5.5, 0.8, 2), (5.0, 0.5, 10)],
)
def test_what_plans_count_for_padding_is_enough(log_mean: float, spread: float, longest: int) -> None:
    """512 sequences of lengths around exp(`log_mean`), of which `longest` were cut off at 3,072."""
    import torch
    from tensordict import TensorDict
    from verl.utils.seqlen_balancing import rearrange_micro_batches

    torch.manual_seed(0)
    lengths = (torch.exp(torch.randn(512) * spread + log_mean)).clamp(60, 3072).long()
    lengths[:longest] = 3072
    lengths += 120  # the prompt
    rows = torch.nested.nested_tensor([torch.zeros(int(n)) for n in lengths], layout=torch.jagged)
    tokens = 4096
    _, places = rearrange_micro_batches(TensorDict({"input_ids": rows}, batch_size=512), tokens)
    padded = max(len(place) * int(lengths[place].max()) for place in places) / tokens
    assert 1 < padded <= PADDED


def test_gpus_that_cannot_share_an_update_evenly_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"128 questions with 32 responses each, which 6 GPUs .* multiple of 3 that",
    ):
        checking.check_configuration(composed(machine=Machine(6)), tmp_path)


@pytest.mark.parametrize(
    ("nodes", "parallel", "message"),
    [
        (1, {}, None),
        (
            2,
            {},
            r"8 questions with 5 responses each, which 16 GPUs cannot share .* multiple of 16",
        ),
        (2, {"actor": {"ulysses_sequence_parallel_size": 2}}, None),
        (2, {"actor": {"fsdp_config": {"ulysses_sequence_parallel_size": 2}}}, None),
        (1, {"rollout": {"tensor_model_parallel_size": 3}}, "3 GPUs make an engine, but 8 GPUs"),
        (
            1,
            {"rollout": {"tensor_model_parallel_size": 4, "data_parallel_size": 4}},
            "16 GPUs make an engine",
        ),
        (1, {"actor": {"ulysses_sequence_parallel_size": 3}}, "3 GPUs share a sequence"),
        (1, {"actor": {"fsdp_config": {"ulysses_sequence_parallel_size": 3}}}, "3 GPUs share a sequence"),
    ],
)
def test_what_ranks_there_are_follows_from_gpus_and_what_they_share(
    nodes: int, parallel: dict[str, dict[str, Any]], message: str | None
) -> None:
    model = {
        "actor": {"ppo_mini_batch_size": 8, "ulysses_sequence_parallel_size": 1, "fsdp_config": {}},
        "rollout": {"n": 5, "tensor_model_parallel_size": 1},
    }
    together = {part: {**model[part], **parallel.get(part, {})} for part in model}
    config = {"trainer": {"nnodes": nodes, "n_gpus_per_node": 8}, "actor_rollout_ref": together}
    with contextlib.nullcontext() if message is None else pytest.raises(InputError, match=message):
        check_ranks(config)
