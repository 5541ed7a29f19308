"""Sizes, memory, responses and hours, each against numbers worked out by hand or by transformers."""

import json

import pytest
from training_configs import composed as composed_on

from service.errors import InputError
from trainer_adapter.config import PlanAssumptions
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.plans.memory import GIB, plan_memory
from trainer_adapter.plans.planning import dead_share, plan_compute, uncounted, warnings
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.model_sizes import MODELS, ModelShape, find_shape, read_shape

# parameters 10*4 + 2*(2*16 + 2*8 + 3*32 + 8) + 4 = 348, 16 bytes of cache a token
SMALL = ModelShape(10, 4, 2, 2, 1, 2, 8)
SPEED = PlanAssumptions(tokens_per_second=2500.0, training_tflops=150.0, mean_tokens=900.0)


def composed(recipe: str, gpus: int, *changes: str) -> Composition:
    return composed_on(recipe, f"gpus={gpus}", "model=m", *changes)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral"])
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_agree_with_transformers(family, tied):
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        intermediate_size=24,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert read_shape(config.to_dict(), "here").parameters == model.num_parameters()


def test_a_folders_size_is_read_and_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"config\.json: No such file"):
        find_shape(str(tmp_path))
    file = tmp_path / "config.json"
    file.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        find_shape(str(tmp_path))
    file.write_text(json.dumps({"model_type": "mixtral"}))
    with pytest.raises(InputError, match=r"model_type is 'mixtral'\. Supported: llama"):
        find_shape(str(tmp_path))
    sizes = {"hidden_size": 4, "num_attention_heads": 2, "vocab_size": 10, "num_hidden_layers": 2}
    file.write_text(json.dumps({"model_type": "llama", **sizes}))
    with pytest.raises(InputError, match="a model size is missing"):
        find_shape(str(tmp_path))
    file.write_text(json.dumps({"model_type": "llama", **sizes, "intermediate_size": 8}))
    assert find_shape(str(tmp_path)).kv_heads == 2


def test_work_of_the_papers_training():
    """7,498 questions in batches of 256 are 29 steps an epoch; (N+1)G = 32 responses a question."""
    plans = plan_compute(composed("ta_grpo", 4), MODELS["Qwen/Qwen3-4B"], 7498, SPEED)
    assert [plan.method for plan in plans] == [
        "ta_grpo",
        "grpo, equal epochs",
        "grpo, equal responses",
        "grpo_matched, equal epochs and responses",
    ]
    assert [plan.steps for plan in plans] == [58, 58, 232, 58]
    assert [plan.epochs for plan in plans] == [2, 2, 8, 2]
    responses = 58 * 256 * 32
    assert [plan.responses for plan in plans] == [responses, responses // 4, responses, responses]
    first = plans[0]
    assert first.tokens == responses * 900
    assert not first.at_most
    assert first.generation_hours == pytest.approx(responses * 900 / (2500 * 4) / 3600)
    # 2P old log-probs, 2P reference, 8P update with gradient checkpointing; of 3 in 4 responses, those to
    # neighbors, 2P for their own prompts
    a_token = (12 + 2 * 3 / 4) * 4_022_468_096
    assert first.training_hours == pytest.approx(responses * 900 * a_token / (150e12 * 4) / 3600)
    plain = composed("ta_grpo", 4, "run.engine_correction=none")
    [uncorrected, *_] = plan_compute(plain, MODELS["Qwen/Qwen3-4B"], 7498, SPEED)
    assert first.training_hours == pytest.approx((uncorrected.training_hours or 0) * 13.5 / 12)
    assert first.hours == pytest.approx(first.generation_hours + first.training_hours)


def test_the_forecast_knows_the_groups_of_every_recipe():
    import numpy as np

    from evaluator.signal.groups import GroupCounts
    from evaluator.signal.rates import RateModel, Shift, beta_cells
    from evaluator.signal.shapes import Forecast

    model = RateModel("free", beta_cells(0.4, 0.5), shift=Shift(0.0, 1.0, 0.1))
    one = np.ones((1, 1), np.int64)
    forecast = Forecast(model, (model, model), 1.0, GroupCounts(one[0], one, one, one))
    dead = {name: dead_share(forecast, recipe) for name, recipe in RECIPES.items()}
    assert dead["ta_grpo"] < dead["ta_grpo_tapered"] < dead["ta_rescue"] < dead["grpo"] < 1
    assert dead["grpo_matched"] < dead["grpo"] == dead["cw_grpo"]
    assert dead["ta_grpo_star"] == pytest.approx(dead["grpo"], abs=0.05)


def test_dynamic_sampling_draws_more_and_may_run_dry():
    composition = composed("grpo_ds", 1, "run.max_gen_batches=5")
    [plan] = plan_compute(composition, SMALL, 512, PlanAssumptions(), lambda _: 0.75)
    assert plan.drawn == plan.responses * 4
    [warning] = warnings(composition, plan)
    assert warning == "at first, dynamic sampling will sample 4.0 times as many groups as it keeps"
    [plan] = plan_compute(composition, SMALL, 512, PlanAssumptions(), lambda _: 0.9)
    assert warnings(composition, plan)[0].endswith(
        "it stops after 5 batches (run.max_gen_batches), so a step would have only about 50% of its groups"
    )
    [plan] = plan_compute(composition, SMALL, 512, PlanAssumptions(), lambda _: 1.0)
    assert plan.drawn == plan.responses * 5
    # At equal responses those that are dropped count, where a pilot foresees them; else it is said.
    plain = composed("grpo", 1)
    kept, more = plan_compute(
        plain, SMALL, 512, PlanAssumptions(), lambda _: 0.5, compare=[RECIPES["grpo_ds"]]
    )
    assert (kept.responses, more.responses, more.drawn) == (8192, 4096, 8192)
    speed = PlanAssumptions(tokens_per_second=1000.0)
    hours = plan_compute(plain, SMALL, 512, speed, lambda _: 0.5, compare=[RECIPES["grpo_ds"]])
    assert hours[0].generation_hours == hours[1].generation_hours
    plans = plan_compute(plain, SMALL, 512, PlanAssumptions(), compare=[RECIPES["grpo_ds"]])
    [note] = uncounted(plans)
    assert note.startswith("grpo_ds samples more responses than the 8,192 that it keeps. Pass --pilot")
    assert "sample inf times as many groups" in warnings(composition, plan)[0]


def test_replayed_groups_are_not_drawn_and_cost_a_pass():
    speed = PlanAssumptions(training_tflops=100.0)
    replay = composed("grpo_replay", 1)
    [plain] = plan_compute(composed("grpo", 1), SMALL, 512, speed, lambda _: 0.6)
    [plan] = plan_compute(replay, SMALL, 512, speed, lambda _: 0.6)
    assert (plan.drawn, plan.responses) == (None, plain.responses)
    assert plan.training_hours == pytest.approx(plain.training_hours * (12 + 2 * 0.6) / 12)
    assert warnings(replay, plan) == ["mixed groups of the last 5 steps replace the 60% without a gradient"]
    [plan] = plan_compute(replay, SMALL, 512, speed, lambda _: 0.9)
    assert warnings(replay, plan)[0].endswith("; they are only 50% of a step")


def test_memory_by_hand():
    parameters = SMALL.parameters
    memory = plan_memory(composed("ta_grpo", 4), SMALL, 80.0)
    sizes = {(part.phase, part.what): part.gib * GIB for part in memory.parts}
    tokens = 16384
    assert sizes["update", "weights"] == pytest.approx(4 * parameters / 4)
    assert sizes["update", "gradients"] == pytest.approx(4 * parameters / 4)
    assert sizes["update", "optimizer"] == pytest.approx(8 * parameters / 4)
    assert sizes["update", "saved activations"] == pytest.approx(2 * tokens * 4 * 2)
    assert sizes["update", "one layer, recomputed"] == pytest.approx(2 * tokens * (24 + 24 + 4 + 4))
    assert sizes["update", "logits"] == pytest.approx(8 * tokens * 10)
    assert sizes["update", "gathered weights"] == pytest.approx(2 * (40 + (348 - 40) / 2))
    assert sizes["rollout", "vLLM: weights and cache"] == pytest.approx(0.6 * 80 * GIB)
    assert memory.host_gib == pytest.approx(4 * parameters / GIB), "the reference policy"
    assert memory.checkpoint_gib == pytest.approx(12 * parameters / GIB)
    room = 0.6 * 80 * GIB - 2 * parameters - 2 * GIB
    assert memory.cache_tokens == int(room / 16)
    assert memory.concurrent == memory.cache_tokens / 3584
    assert memory.fits


LORA = "actor_rollout_ref.model.lora_rank=2"


def test_memory_of_an_adapter_by_hand():
    """A block's seven layers have in and out 8, 6, 6, 8, 12, 12 and 12; there are two, of rank 2: 256."""
    held, adapter = SMALL.parameters + 256, 256
    memory = plan_memory(composed("ta_grpo", 4, LORA), SMALL, 80.0)
    sizes = {(part.phase, part.what): part.gib * GIB for part in memory.parts}
    assert sizes["update", "weights"] == sizes["rollout", "weights"] == pytest.approx(4 * held / 4)
    assert sizes["update", "gradients"] == pytest.approx(4 * adapter / 4)
    assert sizes["update", "optimizer"] == sizes["rollout", "optimizer"] == pytest.approx(8 * adapter / 4)
    assert memory.host_gib == pytest.approx(2 * SMALL.parameters * 4 / GIB), "four engines that sleep"
    merged = composed("ta_grpo", 4, LORA, "actor_rollout_ref.model.lora.merge=true")
    assert plan_memory(merged, SMALL, 80.0).host_gib == 0, "the reference is the policy without its adapter"
    assert memory.checkpoint_gib == pytest.approx((4 * held + 8 * adapter) / GIB)
    away = plan_memory(composed("ta_grpo", 1, LORA), SMALL, 80.0)
    assert away.host_gib == pytest.approx((4 * held + 8 * adapter + 2 * SMALL.parameters) / GIB)
    queries = 'actor_rollout_ref.model.target_modules=["q_proj"]'
    narrow = plan_memory(composed("ta_grpo", 4, LORA, queries), SMALL, 80.0)
    assert narrow.checkpoint_gib == pytest.approx((4 * SMALL.parameters + 12 * 2 * 2 * 8) / GIB)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_the_ready_configurations_fit_80_gib(model, gpus):
    memory = plan_memory(composed("ta_grpo", gpus), MODELS[model], 80.0)
    assert memory.fits is not ("-7B" in model and gpus < 4)
    assert memory.concurrent > 50
