"""What a run tells verl: values with their sources, changes by the user, and verl's own check of it all."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from training_configs import composed

from service.errors import InputError
from service.runs.store import changed_settings
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.plans.memory import PADDED, plan_memory
from trainer_adapter.runs.checking import check_fit, compose_with_hydra
from trainer_adapter.runs.composing import command
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.runs.launching import shell_command
from trainer_adapter.runs.model_sizes import MODELS
from trainer_adapter.runs.resuming import make_spec
from trainer_adapter.verl.plugin.settings import recipe_of, settings_of
from trainer_adapter.verl.prompts import PromptTemplate

ACTOR = "actor_rollout_ref.actor"
pytestmark = pytest.mark.usefixtures("quick_hydra")


def some_data(**changes: Any) -> TrainingData:
    values: dict[str, Any] = {
        "folder": Path("/sets/math"),
        "set_ref": "math@1",
        "content_hash": "c" * 64,
        "layout": "grouped",
        "questions": 7498,
        "neighbors_per_question": {3: 7498},
        "validation_questions": 0,
        "longest_prompt": 500,
        "template": PromptTemplate(
            tokenizer="Qwen/Qwen3-4B", chat_template_kwargs={"enable_thinking": False}
        ),
        "sha256": {"train.parquet": "a" * 64},
    }
    return TrainingData(**(values | changes))


@pytest.mark.slow
def test_verl_itself_finds_nothing_wrong(capsys):
    import verl
    from hydra import compose, initialize_config_dir
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    for recipe, model, machine in (
        ("ta_grpo", "Qwen/Qwen3-4B", ["gpus=4"]),
        ("dapo", "meta-llama/Llama-3.2-1B-Instruct", []),
        ("ta_grpo_corrected", "Qwen/Qwen3-1.7B", ["gpus=8", "nodes=2", "ray_address=auto"]),
        ("ta_grpo", "tiny", ["cpu=true"]),
    ):
        composition = composed(recipe, f"model={model}", *machine, data=some_data())
        with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
            config = compose("ppo_trainer", overrides=composition.arguments())
        validate_config(config, need_reference_policy(config), need_critic(config))
    assert capsys.readouterr().out.count("All configuration checks passed") == 4


@pytest.mark.slow
@pytest.mark.parametrize(("model", "gpus"), [("Qwen/Qwen3-4B", 1), ("meta-llama/Llama-3.2-3B", 4)])
def test_the_ready_configurations_have_the_papers_settings(model, gpus):
    composition = composed("ta_grpo", f"gpus={gpus}", f"model={model}", folder=Path("/runs/x"), name="x")
    config = compose_with_hydra(composition, Path("/runs/x"))
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    # arXiv 2601.22478 v5, Table 2
    assert config["data"]["max_prompt_length"] == 512
    assert config["data"]["max_response_length"] == 3072
    assert config["data"]["train_batch_size"] == 256
    assert actor["ppo_mini_batch_size"] == 128
    assert actor["optim"]["lr"] == 1e-6
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"]) == (0.2, 0.2)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["kl_loss_type"]) == (True, 0.001, "low_var_kl")
    assert (rollout["temperature"], rollout["n"]) == (1.0, 32)
    assert config["trainer"]["total_epochs"] == 2
    # its public v1 runs
    assert (actor["optim"]["lr_scheduler_type"], actor["optim"]["lr_warmup_steps_ratio"]) == ("cosine", 0.1)
    assert rollout["name"] == "vllm"
    assert config["trainer"]["n_gpus_per_node"] == gpus
    assert actor["fsdp_config"]["optimizer_offload"] is (gpus == 1)
    assert rollout["max_model_len"] == 3584
    thinking = {"enable_thinking": False} if "Qwen3" in model else {}
    assert config["data"]["apply_chat_template_kwargs"] == thinking
    assert recipe_of(config) == RECIPES["ta_grpo"]
    assert settings_of(config).record == "/runs/x/rollouts"


def test_boxed_answers_alone_are_rewarded_unless_asked_otherwise():
    key = "reward.custom_reward_function.reward_kwargs.boxed_only"

    boxed, everything = composed("grpo"), composed("grpo", "run.answers=all")
    assert f"+{key}=true" in boxed.arguments()
    assert f"+{key}=false" in everything.arguments()
    changed = changed_settings(make_spec(boxed, some_data()), make_spec(everything, some_data()))
    assert "plug_in.answers ('boxed' stored, 'all' given)" in changed
    mine = "reward.custom_reward_function.path=mine.py"
    assert composed("grpo", mine).value(key, "not told") == "not told"  # it may take no such argument
    assert composed("grpo", mine, f"+{key}=false").value(key) is False
    with pytest.raises(InputError, match=r"set run\.answers=all or =boxed"):
        composed("grpo", f"+{key}=false")


def test_several_nodes_tell_ray_of_the_plug_in():
    composition = composed("ta_grpo", "gpus=8", "nodes=2", "ray_address=auto")
    assert composition.value("ray_kwargs.ray_init.address") == "auto"
    key = "ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES"
    assert composition.value(key) == "trainer_adapter.verl.plugin.registration"
    assert composition.value("trainer.nnodes") == 2
    with pytest.raises(InputError, match="need a Ray cluster"):
        composed("ta_grpo", "gpus=8", "nodes=2")
    with pytest.raises(InputError, match="--cpu uses one machine"):
        composed("ta_grpo", "gpus=2", "cpu=true")


def test_a_users_value_comes_last_and_is_handed_on_as_written():
    composition = composed("grpo", "trainer.save_freq=5", f"+{ACTOR}.mine={{a:[1,2]}}", "~data.seed")
    arguments = composition.arguments()
    assert arguments[-3:] == ["trainer.save_freq=5", f"+{ACTOR}.mine={{a:[1,2]}}", "~data.seed"]
    assert sum(text.startswith("trainer.save_freq=") for text in arguments) == 1
    assert not any(text.startswith("data.seed") for text in arguments)
    assert composition.value("trainer.save_freq") == 5
    assert next(each for each in composition.values if each.name == "trainer.save_freq").source == "user"


def test_the_command_survives_a_shell(tmp_path):
    texts = ['title=it\'s $HOME "mine"', "model=a b"]
    words = command(composed("ta_grpo", *texts), tmp_path)
    assert words[1:5] == ["-W", "ignore", "-m", "verl.trainer.main_ppo"]
    on_cpu = command(composed("ta_grpo", *texts, "cpu=true"), tmp_path)
    assert on_cpu[1:5] == ["-W", "ignore", "-m", "trainer_adapter.verl.cpu"]
    shown = shell_command(words, {"NAME": "x y"})
    assert shlex.split(shown.replace("\\\n", " ")) == ["NAME=x y", *words]
    script = tmp_path / "command.sh"
    echoing = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words[5:]]
    script.write_text(shell_command(echoing, {}))
    ran = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == words[5:]


def test_without_a_validation_file_nothing_is_validated():
    without = composed("grpo", data=some_data())
    assert without.value("trainer.test_freq") == -1
    assert without.value("trainer.val_before_train") is False
    assert without.value("data.val_files") == "/sets/math/train.parquet"
    held_back = composed("grpo", data=some_data(validation_questions=40))
    assert held_back.value("trainer.test_freq") == 10
    assert held_back.value("data.val_files") == "/sets/math/validation.parquet"
    own = composed("grpo", "data.val_files=/aime.parquet", data=some_data())
    assert own.value("trainer.test_freq") == 10


@pytest.mark.parametrize(
    ("changes", "texts", "message"),
    [
        ({"layout": "flat"}, [], "flat, but recipe ta_grpo samples the neighbors"),
        ({"neighbors_per_question": {0: 7498}}, [], "no question of math@1 has a neighbor"),
        ({}, ["data.train_max_samples=100"], "a batch has 256 questions, but the training file has only 100"),
        ({}, [f"{ACTOR}.ppo_mini_batch_size=100"], "a batch of 256 questions is not a multiple of 100"),
        ({}, ["trainer.test_freq=5"], "no validation file, .* validation_share"),
        ({}, ["trainer.val_before_train=true"], "no validation file"),
    ],
)
def test_data_that_do_not_fit_are_refused(changes, texts, message):
    data = some_data(**changes)
    with pytest.raises(InputError, match=message):
        check_fit(composed("ta_grpo", *texts, data=data), data)


def test_rows_are_counted_as_verl_takes_them():
    """Of a flat export neighbors have rows of their own; `train_max_samples` leaves rows out."""
    flat = some_data(layout="flat", questions=100, neighbors_per_question={3: 100})
    composition = composed("grpo", "model=Qwen/Qwen3-4B", data=flat)
    assert composition.count_steps(flat.rows) == 2
    notes = check_fit(composition, flat)
    assert any(note.startswith("144 of 400 questions do not fill a batch") for note in notes)
    texts = ["data.train_max_samples=512", "trainer.total_epochs=2", "trainer.total_training_steps=9"]
    fewer = composed("grpo", *texts, data=some_data())
    assert fewer.count_steps(7498) == 4 == fewer.value("trainer.total_training_steps")


def test_a_run_is_what_it_was_told_not_where_it_lies():
    def spec(*texts: str, folder: str = "/runs/a", resume: bool = False, **changes: Any) -> dict[str, Any]:
        data, own = some_data(**changes), ("gpus=4", "model=Qwen/Qwen3-4B")
        composition = composed(
            "ta_grpo", *own, *texts, data=data, folder=Path(folder), name="x", resume=resume
        )
        return make_spec(composition, data)

    first = spec()
    assert spec(folder="/elsewhere", resume=True) == first
    assert spec("trainer.save_freq=5", "run.poll_interval_s=1.0") == first
    assert changed_settings(first, spec("run.seed=7", "loss.kl_coef=0"))[:3] == [
        "plug_in.seed (42 stored, 7 given)",
        "recipe.loss.kl_coef (0.001 stored, 0.0 given)",
        "recipe.name ('ta_grpo' stored, 'ta_grpo[loss.kl_coef=0]' given)",
    ]
    assert changed_settings(first, spec(content_hash="d" * 64)) == [
        f"data.content_hash ('{'c' * 64}' stored, '{'d' * 64}' given)"
    ]
    # with a schedule over the whole length, a longer run is another one; at a constant rate it goes on
    longer = ["trainer.total_epochs=4"]
    assert changed_settings(first, spec(*longer)) == ["settings.trainer.total_epochs (2 stored, 4 given)"]
    constant = [f"{ACTOR}.optim.lr_scheduler_type=constant", f"{ACTOR}.optim.lr_warmup_steps_ratio=0"]
    assert spec(*constant) == spec(*constant, *longer)
    assert spec(constant[0]) != spec(constant[0], *longer)


def test_verls_own_trainer_gets_what_a_recipe_of_tier_1_needs():
    by_verl = "run.trainer=verl"
    made = composed("dr_grpo", by_verl, data=some_data())
    assert made.value(f"{ACTOR}.loss_scale_factor") == made.value("data.max_response_length")
    assert made.value("algorithm.rollout_correction.rollout_is") == "token"
    assert made.value("trainer.v1.trainer_mode") == "sync"
    on_v0 = composed("ta_grpo", by_verl, "cpu=true", "trainer.use_v1=false")
    manager = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
    assert f"{manager}=null" in on_v0.arguments()
    assert composed("ta_grpo", by_verl).settings.engine_correction == "none"


USUAL = ("ta_grpo", "gpus=4", "model=Qwen/Qwen3-4B")


def test_the_queue_has_room_for_a_large_step():
    """verl's own takes 100,000 responses, and fails with more."""
    key = "transfer_queue.backend.SimpleStorage.total_storage_size"
    assert composed(*USUAL).value(key) is None
    assert composed(*USUAL, "data.train_batch_size=2048").value(key) == 4 * 2048 * 32
    assert composed(*USUAL, "data.train_batch_size=2048", f"{key}=70000").value(key) == 70_000


def test_without_flash_attention_pytorchs_is_taken():
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
    plans = [plan_memory(each, MODELS["Qwen/Qwen3-4B"], 80) for each in (with_it, without)]
    logits = [next(part.gib for part in plan.parts if part.what == "logits") for plan in plans]
    assert logits[1] == pytest.approx(logits[0])  # 4,096 tokens and three times as many around them
    assert [plan.packed for plan in plans] == [True, False]
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
def test_what_plans_count_for_padding_is_enough(log_mean, spread, longest):
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
