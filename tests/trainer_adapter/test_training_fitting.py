import pytest
from training_configs import composed

from trainer_adapter.plans.memory import PADDED, plan_memory
from trainer_adapter.runs.model_sizes import MODELS

ACTOR = "actor_rollout_ref.actor"


USUAL = ("ta_grpo", "gpus=4", "model=Qwen/Qwen3-4B")


def test_the_queue_has_room_for_a_large_step() -> None:
    """verl's own takes 100,000 responses, and fails with more."""
    key = "transfer_queue.backend.SimpleStorage.total_storage_size"
    assert composed(*USUAL).value(key) is None
    assert composed(*USUAL, "data.train_batch_size=2048").value(key) == 4 * 2048 * 32
    assert composed(*USUAL, "data.train_batch_size=2048", f"{key}=70000").value(key) == 70_000


def test_without_flash_attention_pytorchs_is_taken() -> None:
    model = "actor_rollout_ref.model"
    with_it, without = composed(*USUAL), composed(*USUAL, flash_attention=False)
    assert with_it.value(f"{model}.use_remove_padding") is None
    assert without.value(f"{model}.use_remove_padding") is False
    assert without.value(f"{model}.override_config.attn_implementation") == "sdpa"
    # Its micro-batches are padded, so they have fewer tokens, and plans count the padding too.
    tokens = f"{ACTOR}.ppo_max_token_len_per_gpu"
    assert (with_it.value(tokens), without.value(tokens)) == (16384, 4096)
    assert composed(*USUAL, "data.max_response_length=8192", flash_attention=False).value(tokens) == 8704
    assert composed(*USUAL, f"{tokens}=9000", flash_attention=False).value(tokens) == 9000
    logits = [
        next(
            part.gib for part in plan_memory(each, MODELS["Qwen/Qwen3-4B"], 80).parts if part.what == "logits"
        )
        for each in (with_it, without)
    ]
    assert logits[1] == pytest.approx(logits[0])  # 4,096 tokens and three times as many around them
    assert [plan_memory(each, MODELS["Qwen/Qwen3-4B"], 80).packed for each in (with_it, without)] == [
        True,
        False,
    ]
    # A plan for a machine without it can be made on any.
    asked = composed(*USUAL, f"{model}.use_remove_padding=false")
    assert asked.value(tokens) == 4096
    assert not plan_memory(asked, MODELS["Qwen/Qwen3-4B"], 80).packed
    chosen = composed(*USUAL, f"{model}.use_remove_padding=true", flash_attention=False)
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
