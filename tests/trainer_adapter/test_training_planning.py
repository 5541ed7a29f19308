"""Sizes, memory, responses and hours, each against numbers worked out by hand or by transformers."""

import json
from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from training_configs import assign

from service.errors import InputError, PrerequisiteError
from trainer_adapter.methods.recipes import RECIPES, Recipe
from trainer_adapter.plans.compute import Speed, dead_share, plan_compute, uncounted, warnings
from trainer_adapter.plans.memory import GIB, plan_memory
from trainer_adapter.runs.composing import Composition, Machine, compose_run
from trainer_adapter.runs.model_sizes import MODELS, ModelShape, find_shape, known_model, read_shape

# parameters 10*4 + 2*(2*16 + 2*8 + 3*32 + 8) + 4 = 348, 16 bytes of cache a token
SMALL = ModelShape(10, 4, 2, 2, 1, 2, 8)
ACTOR = "actor_rollout_ref.actor"


def composed(recipe: str, machine: Machine, *changes: str) -> Composition:
    assigned = assign(RECIPES[recipe], changes)
    return compose_run(
        assigned.recipe, machine, settings=assigned.settings, model="m", overrides=assigned.overrides
    )


def test_parameters_by_hand() -> None:
    attention = 2 * 4 * 4 + 2 * 4 * 2
    layer = attention + 3 * 4 * 8 + 2 * 4
    assert SMALL.parameters == 10 * 4 + 2 * layer + 4 == 348
    assert SMALL.kv_bytes_per_token == 2 * 2 * 2 * 2 * 1 == 16


@pytest.mark.parametrize(
    ("model", "parameters", "cache"),
    [
        ("Qwen3-1.7B", 1_720_574_976, 114_688),
        ("Qwen3-4B", 4_022_468_096, 147_456),
        ("Llama-3.2-1B", 1_235_814_400, 32_768),
        ("Llama-3.2-3B", 3_212_749_824, 114_688),
        ("Qwen2.5-Math-7B", 7_615_616_512, 57_344),
        ("Qwen2.5-Math-7B-Instruct", 7_615_616_512, 57_344),
        ("DeepSeek-R1-Distill-Qwen-1.5B", 1_777_088_000, 28_672),
        ("DeepSeek-R1-Distill-Qwen-7B", 7_615_616_512, 57_344),
    ],
)
def test_sizes_of_the_papers_models(model: str, parameters: int, cache: int) -> None:
    shape = MODELS[model].shape
    assert shape.parameters == parameters
    assert shape.kv_bytes_per_token == cache
    assert known_model(MODELS[model].repositories[0]) is MODELS[model]
    assert find_shape(model) is shape


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral"])
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_agree_with_transformers(family: str, tied: bool) -> None:
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


def test_a_folders_size_is_read_and_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
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


def test_without_the_hub_a_folder_with_the_config_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    with pytest.raises(PrerequisiteError, match=r"a folder with config\.json"):
        find_shape("Nobody/Model-7B")


def test_work_of_the_papers_training() -> None:
    """7,498 questions in batches of 256 are 29 steps an epoch; (N+1)G = 32 responses a question."""
    plans = plan_compute(
        composed("ta_grpo", Machine(4)), MODELS["Qwen3-4B"].shape, 7498, Speed(2500.0, 150.0, 900.0)
    )
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
    plain = composed("ta_grpo", Machine(4), "run.engine_correction=none")
    [uncorrected, *_] = plan_compute(plain, MODELS["Qwen3-4B"].shape, 7498, Speed(2500.0, 150.0, 900.0))
    assert first.training_hours == pytest.approx((uncorrected.training_hours or 0) * 13.5 / 12)
    assert first.hours == pytest.approx(first.generation_hours + first.training_hours)


def test_recipes_are_compared_at_equal_responses() -> None:
    compared = [RECIPES[name] for name in ("grpo", "ta_rescue", "dapo")]
    composition = composed("ta_grpo", Machine(4))
    plans = plan_compute(composition, SMALL, 7498, Speed(), compare=compared, responses=1_000_000)
    assert [plan.method for plan in plans] == ["ta_grpo", "grpo", "ta_rescue", "dapo"]
    assert [plan.responses_per_question for plan in plans] == [32, 8, 8, 8]
    assert [plan.steps for plan in plans] == [122, 488, 488, 488]
    assert [plan.updates for plan in plans] == [2 * plan.steps for plan in plans]
    assert [plan.epochs for plan in plans] == [4.17, 16.66, 16.66, 16.66]
    with pytest.raises(
        InputError, match="1,000 responses do not fill one step of ta_grpo, which draws 8,192"
    ):
        plan_compute(composition, SMALL, 7498, Speed(), responses=1000)


@pytest.mark.parametrize("name", ["ta_rescue", "ta_grpo_tapered"])
def test_what_draws_as_much_as_grpo_stands_beside_grpo_once(name: str) -> None:
    plans = plan_compute(composed(name, Machine(4)), SMALL, 7498, Speed())
    assert [plan.method for plan in plans] == [name, "grpo, equal epochs and responses"]
    assert [plan.responses_per_question for plan in plans] == [8, 8]


@pytest.mark.parametrize(
    ("texts", "responses"), [(["neighbors=2", "responses=3"], 3), (["responses=5"], 5), (["responses=2"], 8)]
)
def test_what_is_said_to_draw_as_much_does(texts: list[str], responses: int) -> None:
    plans = plan_compute(composed("ta_grpo", Machine(4), *texts), SMALL, 7498, Speed())
    equal = [plan for plan in plans if "equal responses" in plan.method or "and responses" in plan.method]
    assert {plan.responses for plan in equal} == {plans[0].responses}
    assert plans[1].responses_per_question == responses


def test_passes_over_a_batch_are_updates_and_take_time() -> None:
    speed = Speed(training_tflops=1.0)
    once, thrice = (
        plan_compute(composed("grpo", Machine(1), *texts), SMALL, 512, speed)[0]
        for texts in ([], [f"{ACTOR}.ppo_epochs=3"])
    )
    assert thrice.updates == 3 * once.updates
    assert thrice.training_hours == pytest.approx((once.training_hours or 0) * (4 + 3 * 8) / (4 + 8))


def test_updates_that_do_not_divide_a_batch_are_refused_as_a_training_refuses_them() -> None:
    with pytest.raises(InputError, match=r"a batch of \d+ questions is not a multiple of 300"):
        plan_compute(composed("grpo", Machine(1), f"{ACTOR}.ppo_mini_batch_size=300"), SMALL, 512, Speed())


def test_a_rescue_asks_neighbors_for_half_at_most() -> None:
    speed = Speed(training_tflops=1.0)
    rescue, tapered = (
        plan_compute(composed(name, Machine(1)), SMALL, 512, speed)[0].training_hours or 0
        for name in ("ta_rescue", "ta_grpo_tapered")
    )
    assert rescue / tapered == pytest.approx((12 + 2 / 2) / (12 + 2 * 3 / 4))


def test_the_forecast_knows_the_groups_of_every_recipe() -> None:
    from evaluator.signal.forecast import Forecast
    from evaluator.signal.rate_model import RateModel
    from evaluator.signal.rates import Mixture, Shift, beta_cells

    mixture, shift = Mixture("free", beta_cells(0.4, 0.5)), Shift(0.0, 1.0, 0.1)
    forecast = Forecast(RateModel(mixture, shift), ((mixture, shift),) * 2, 1.0, 100, (8, 8))
    dead = {name: dead_share(forecast, recipe) for name, recipe in RECIPES.items()}
    assert dead["ta_grpo"] < dead["ta_grpo_tapered"] < dead["ta_rescue"] < dead["grpo"] < 1
    assert dead["grpo_matched"] < dead["grpo"] == dead["cw_grpo"]
    assert dead["ta_grpo_star"] == pytest.approx(dead["grpo"], abs=0.05)


def test_unknown_speed_is_no_time() -> None:
    [plan] = plan_compute(composed("grpo", Machine(1)), SMALL, 512, Speed())
    assert (plan.generation_hours, plan.training_hours, plan.hours) == (None, None, None)
    assert plan.at_most
    assert plan.tokens == plan.responses * 3072 == 2 * 2 * 256 * 8 * 3072
    with pytest.raises(InputError, match="100 questions do not fill a batch of 256"):
        plan_compute(composed("grpo", Machine(1)), SMALL, 100, Speed())


def test_a_limit_of_steps_counts() -> None:
    plans = plan_compute(
        composed("ta_grpo", Machine(1), "trainer.total_training_steps=10"), SMALL, 7498, Speed()
    )
    assert [plan.steps for plan in plans] == [10, 10, 40, 10]
    assert plans[0].responses == 10 * 256 * 32


def test_without_kl_no_reference_policy_is_asked() -> None:
    fast = Speed(training_tflops=1.0, mean_tokens=100.0)
    [with_kl] = plan_compute(composed("grpo", Machine(1)), SMALL, 512, fast)
    [without] = plan_compute(composed("grpo", Machine(1), "loss.kl_coef=0"), SMALL, 512, fast)
    assert with_kl.training_hours is not None
    assert without.training_hours == pytest.approx(with_kl.training_hours * 10 / 12)


def test_the_forecast_stands_with_each_method_and_warns() -> None:
    composition = composed("ta_grpo", Machine(1))
    shares = {"ta_grpo": 0.6, 8: 0.9, 32: 0.8}

    def share(recipe: Recipe) -> float:
        return shares.get(recipe.name) or shares[recipe.responses]

    plans = plan_compute(composition, SMALL, 512, Speed(), share)
    assert [plan.no_gradient for plan in plans] == [0.6, 0.9, 0.9, 0.8]
    [warning] = warnings(composition, plans[0])
    assert warning.startswith("60% of the groups will have equal rewards and no gradient")
    shares["ta_grpo"] = 0.2
    assert warnings(composition, plan_compute(composition, SMALL, 512, Speed(), share)[0]) == []
    assert warnings(composition, plan_compute(composition, SMALL, 512, Speed())[0]) == []


def test_dynamic_sampling_draws_more_and_may_run_dry() -> None:
    composition = composed("grpo_ds", Machine(1), "run.max_gen_batches=5")
    [plan] = plan_compute(composition, SMALL, 512, Speed(), lambda _: 0.75)
    assert plan.drawn == plan.responses * 4
    [warning] = warnings(composition, plan)
    assert warning == "dynamic sampling will draw 4.0 batches per kept batch at first"
    [plan] = plan_compute(composition, SMALL, 512, Speed(), lambda _: 0.9)
    assert warnings(composition, plan)[0].endswith(
        "it stops at 5 (run.max_gen_batches), so a step would have only about 50% of its groups"
    )
    [plan] = plan_compute(composition, SMALL, 512, Speed(), lambda _: 1.0)
    assert plan.drawn == plan.responses * 5
    # At equal responses those that are dropped count, where a pilot foresees them; else it is said.
    plain = composed("grpo", Machine(1))
    kept, more = plan_compute(plain, SMALL, 512, Speed(), lambda _: 0.5, compare=[RECIPES["grpo_ds"]])
    assert (kept.responses, more.responses, more.drawn) == (8192, 4096, 8192)
    speed = Speed(tokens_per_second=1000.0)
    hours = plan_compute(plain, SMALL, 512, speed, lambda _: 0.5, compare=[RECIPES["grpo_ds"]])
    assert hours[0].generation_hours == hours[1].generation_hours
    plans = plan_compute(plain, SMALL, 512, Speed(), compare=[RECIPES["grpo_ds"]])
    [note] = uncounted(plans)
    assert note.startswith("grpo_ds draws more responses than the 8,192 that it keeps. Pass --pilot")
    assert "draw inf batches" in warnings(composition, plan)[0]


def test_replayed_groups_are_not_drawn_and_cost_a_pass() -> None:
    speed = Speed(training_tflops=100.0)
    composition = composed("grpo_replay", Machine(1))
    [plain] = plan_compute(composed("grpo", Machine(1)), SMALL, 512, speed, lambda _: 0.6)
    [plan] = plan_compute(composition, SMALL, 512, speed, lambda _: 0.6)
    assert (plan.drawn, plan.responses) == (None, plain.responses)
    assert plan.training_hours is not None
    assert plain.training_hours is not None
    assert plan.training_hours == pytest.approx(plain.training_hours * (12 + 2 * 0.6) / 12)
    assert warnings(composition, plan) == ["mixed groups of 5 steps replace the 60% without a gradient"]
    [plan] = plan_compute(composition, SMALL, 512, speed, lambda _: 0.9)
    assert warnings(composition, plan)[0].endswith("; these are only 50% of a step")


def test_memory_by_hand() -> None:
    parameters = SMALL.parameters
    memory = plan_memory(composed("ta_grpo", Machine(4)), SMALL, 80.0)
    sizes = {(part.phase, part.what): part.gib * GIB for part in memory.parts}
    tokens = 16384
    assert sizes["update", "weights"] == pytest.approx(4 * parameters / 4)
    assert sizes["update", "gradients"] == pytest.approx(4 * parameters / 4)
    assert sizes["update", "optimizer"] == pytest.approx(8 * parameters / 4)
    assert sizes["update", "saved activations"] == pytest.approx(2 * tokens * 4 * 2)
    assert sizes["update", "one layer again"] == pytest.approx(2 * tokens * (24 + 24 + 4 + 4))
    assert sizes["update", "logits"] == pytest.approx(8 * tokens * 10)
    assert sizes["update", "gathered weights"] == pytest.approx(2 * (40 + (348 - 40) / 2))
    assert sizes["rollout", "vLLM: weights and cache"] == pytest.approx(0.6 * 80 * GIB)
    assert memory.host_gib == pytest.approx(4 * parameters / GIB), "the reference policy"
    assert memory.checkpoint_gib == pytest.approx(12 * parameters / GIB)
    room = 0.6 * 80 * GIB - 2 * parameters - 2 * GIB
    assert memory.cache_tokens == int(room / 16)
    assert memory.concurrent == memory.cache_tokens / 3584
    assert memory.fits


def test_one_gpu_offloads_and_a_recipe_without_kl_holds_no_reference() -> None:
    one = plan_memory(composed("ta_grpo", Machine(1)), SMALL, 80.0)
    assert [part.what for part in one.parts if part.phase == "rollout"] == ["vLLM: weights and cache"]
    assert one.host_gib == pytest.approx(16 * SMALL.parameters / GIB)
    assert plan_memory(composed("dapo", Machine(4)), SMALL, 80.0).host_gib == 0
    whole = f"{ACTOR}.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
    saved = plan_memory(composed("dapo", Machine(4), whole), SMALL, 80.0)
    assert saved.checkpoint_gib == pytest.approx(16 * SMALL.parameters / GIB)


LORA = "actor_rollout_ref.model.lora_rank=2"


def test_memory_of_an_adapter_by_hand() -> None:
    """A block's seven layers have in and out 8, 6, 6, 8, 12, 12 and 12; there are two, of rank 2: 256."""
    held, adapter = SMALL.parameters + 256, 256
    memory = plan_memory(composed("ta_grpo", Machine(4), LORA), SMALL, 80.0)
    sizes = {(part.phase, part.what): part.gib * GIB for part in memory.parts}
    assert sizes["update", "weights"] == sizes["rollout", "weights"] == pytest.approx(4 * held / 4)
    assert sizes["update", "gradients"] == pytest.approx(4 * adapter / 4)
    assert sizes["update", "optimizer"] == sizes["rollout", "optimizer"] == pytest.approx(8 * adapter / 4)
    assert memory.host_gib == pytest.approx(2 * SMALL.parameters * 4 / GIB), "four engines that sleep"
    merged = composed("ta_grpo", Machine(4), LORA, "actor_rollout_ref.model.lora.merge=true")
    assert plan_memory(merged, SMALL, 80.0).host_gib == 0, "the reference is the policy without its adapter"
    assert memory.checkpoint_gib == pytest.approx((4 * held + 8 * adapter) / GIB)
    away = plan_memory(composed("ta_grpo", Machine(1), LORA), SMALL, 80.0)
    assert away.host_gib == pytest.approx((4 * held + 8 * adapter + 2 * SMALL.parameters) / GIB)
    queries = 'actor_rollout_ref.model.target_modules=["q_proj"]'
    narrow = plan_memory(composed("ta_grpo", Machine(4), LORA, queries), SMALL, 80.0)
    assert narrow.checkpoint_gib == pytest.approx((4 * SMALL.parameters + 12 * 2 * 2 * 8) / GIB)


def test_a_checkpoint_holds_what_is_saved() -> None:
    key, adapter = f"{ACTOR}.checkpoint", 256
    alone = composed("ta_grpo", Machine(4), LORA, f"+{key}.save_lora_only=true")
    assert plan_memory(alone, SMALL, 80.0).checkpoint_gib == pytest.approx(12 * adapter / GIB)
    whole = composed("ta_grpo", Machine(4), f"+{key}.save_lora_only=true")
    assert plan_memory(whole, SMALL, 80.0).checkpoint_gib == pytest.approx(12 * SMALL.parameters / GIB)
    weights = composed("ta_grpo", Machine(4), f"{key}.save_contents=[hf_model]")
    assert plan_memory(weights, SMALL, 80.0).checkpoint_gib == pytest.approx(4 * SMALL.parameters / GIB)


def test_an_adapters_size_agrees_with_peft() -> None:
    import peft
    import transformers

    config = transformers.Qwen3Config(
        vocab_size=10,
        hidden_size=4,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=2,
        intermediate_size=8,
    )
    for modules in ("all-linear", ["o_proj", "k_proj", "up_proj"]):
        model = transformers.AutoModelForCausalLM.from_config(config)
        with_adapter = peft.get_peft_model(
            model, peft.LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=modules)
        )
        ours = SMALL.adapter_parameters(3, None if isinstance(modules, str) else modules)
        assert ours == with_adapter.get_nb_trainable_parameters()[0]


def test_an_adapter_saves_the_gradients_of_the_weights() -> None:
    """Of 12 P a token and 1.5 P for neighbors' own prompts, 2 P."""
    shape, speed = MODELS["Qwen3-4B"].shape, Speed(2500.0, 150.0, 900.0)
    whole, lora = (
        plan_compute(composed("ta_grpo", Machine(4), *changes), shape, 7498, speed)[0].training_hours or 0
        for changes in ((), (LORA,))
    )
    assert lora == pytest.approx(whole * 11.5 / 13.5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_the_ready_configurations_fit_80_gib(model: str, gpus: int) -> None:
    memory = plan_memory(composed("ta_grpo", Machine(gpus)), MODELS[model].shape, 80.0)
    assert memory.fits is not ("-7B" in model and gpus < 4)
    assert memory.concurrent > 50


def test_what_does_not_fit_is_seen() -> None:
    shape = MODELS["Qwen3-4B"].shape
    assert not plan_memory(composed("ta_grpo", Machine(1)), shape, 40.0).fits
    crowded = composed("ta_grpo", Machine(4), "actor_rollout_ref.rollout.gpu_memory_utilization=0.1")
    memory = plan_memory(crowded, shape, 80.0)
    assert memory.cache_tokens == 0
    assert not memory.fits
