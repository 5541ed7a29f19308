"""The parts of the plug-in that need no run: settings, splits, seeds, checks, refills, updates, limits."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES, Recipe, compose
from trainer_adapter.methods.skipping import SkipPolicy
from trainer_adapter.record import RolloutWriter
from trainer_adapter.verl.alarms import CORRECT, ENTROPY, Alarms
from trainer_adapter.verl.plugin.checks import check_config
from trainer_adapter.verl.plugin.overrides import hydra_arguments, recipe_overrides
from trainer_adapter.verl.plugin.sessions import prompt_of, seed_of
from trainer_adapter.verl.plugin.settings import RunSettings, recipe_of, settings_of
from trainer_adapter.verl.plugin.steps.updates import order_rows


@given(prompts=st.integers(1, 9), rollouts=st.integers(1, 64))
def test_responses_are_split_evenly_and_the_question_takes_the_rest(prompts, rollouts):
    of_session = [prompt_of(session, prompts, rollouts) for session in range(rollouts)]
    assert of_session == sorted(of_session)
    sizes = Counter(of_session)
    share = rollouts // prompts
    assert all(sizes[neighbor] == share for neighbor in range(1, prompts))
    assert sizes[0] == rollouts - share * (prompts - 1)


def test_seeds_differ_by_every_part_and_stay_the_same():
    parts = [(42, 1, "q", 0, 0), (43, 1, "q", 0, 0), (42, 2, "q", 0, 0), (42, 1, "r", 0, 0)]
    parts += [(42, 1, "q", 1, 0), (42, 1, "q", 0, 1), (42, 11, "q", 0, 0), (42, 1, "1q", 0, 0)]
    seeds = [seed_of(*each) for each in parts]
    assert len(set(seeds)) == len(parts)
    assert seeds[0] == 1686582221
    assert all(0 <= seed < 2**31 for seed in seeds)


def config_of(recipe: Recipe, settings: RunSettings | None = None, **changes: Any) -> dict[str, Any]:
    """Return the overrides as the nested configuration they make."""
    config: dict[str, Any] = {}
    for key, value in {**recipe_overrides(recipe, settings), **changes}.items():
        *path, last = key.removeprefix("+").split(".")
        place = config
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return config


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipes_own_overrides_are_accepted(name):
    check_config(config_of(RECIPES[name]), RECIPES[name])


ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
CORRECTION = "algorithm.rollout_correction"


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("ta_grpo", f"{CORRECTION}.bypass_mode", True, "bypass_mode is true, but the recipe has false"),
        ("grpo", f"{CORRECTION}.rollout_is", "sequence", "rollout_is is sequence, but the recipe has null"),
        ("ta_grpo", f"{CORRECTION}.rollout_rs", "token_k1", "rollout_rs is token_k1, but"),
        ("ta_grpo", f"{ACTOR}.use_prefix_grouper", True, "use_prefix_grouper is true, but"),
        ("ta_grpo", f"{ROLLOUT}.enable_rollout_routing_replay", True, "routing_replay is true, but"),
        ("ta_grpo", f"{ROLLOUT}.calculate_log_probs", True, "calculate_log_probs is true, but"),
        ("ta_grpo_corrected", f"{ROLLOUT}.calculate_log_probs", True, "calculate_log_probs is true, but"),
        ("ta_grpo", f"{ACTOR}.shuffle", True, "shuffle is true, but the recipe has false"),
        ("ta_grpo", "trainer.critic_warmup", 5, "critic_warmup is 5, but the recipe has 0"),
        ("dapo", f"{ACTOR}.clip_ratio_high", 0.2, "clip_ratio_high is 0.2, but the recipe has 0.28"),
        ("ta_grpo", f"{ROLLOUT}.n", 8, "rollout.n is 8, but the recipe has 32"),
        ("ta_grpo", f"{ACTOR}.use_kl_loss", False, "use_kl_loss is false, but the recipe has true"),
        ("ta_grpo", "algorithm.use_kl_in_reward", True, "use_kl_in_reward is true, but"),
        ("ta_grpo", "algorithm.adv_estimator", "grpo", "adv_estimator is grpo, but the recipe has tagrpo"),
        ("ta_grpo", f"{ACTOR}.policy_loss.loss_mode", "gspo", "loss_mode is gspo"),
        ("grpo_ds", "algorithm.filter_groups.enable", False, "filter_groups.enable is false"),
        ("grpo_ds", "algorithm.filter_groups.metric", "reward", "metric is reward, but the recipe has acc"),
    ],
)
def test_what_would_train_something_else_is_refused(name, key, value, message):
    with pytest.raises(InputError, match=f"recipe {name}: .*{message}"):
        check_config(config_of(RECIPES[name], **{key: value}), RECIPES[name])


def test_an_engine_that_would_cut_responses_short_is_refused():
    lengths = {"data.max_prompt_length": 512, "data.max_response_length": 3072}
    config = config_of(RECIPES["grpo"], **lengths, **{f"{ROLLOUT}.max_model_len": 2048})
    with pytest.raises(InputError, match=r"max_model_len=2048 truncates responses, .* 3584 tokens"):
        check_config(config, RECIPES["grpo"])


def batch(recipe: Recipe, seed: int = 0) -> dict[str, Any]:
    """Return a random step: three questions of `rollouts` responses, interleaved."""
    generator = torch.Generator().manual_seed(seed)
    rows, tokens = 3 * recipe.rollouts, 12
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator)
    correct = torch.rand(rows, generator=generator) < 0.5
    return {
        "scores_B": correct.double(),
        "correct_B": correct,
        "mask_BT": (torch.arange(tokens) < lengths[:, None]).long(),
        "old_log_probs_BT": -torch.rand(rows, tokens, generator=generator),
        "group_B": torch.arange(rows) % 3,
    }


@pytest.mark.parametrize("name", [name for name in RECIPES if not RECIPES[name].whole_batch_axes])
def test_verls_own_trainer_gets_the_advantages_of_a_recipe_of_tier_1(name):
    from trainer_adapter.methods.step_advantages import step_advantages
    from trainer_adapter.verl.plugin.steps.advantages import estimate_advantages

    recipe = RECIPES[name]
    given_batch = batch(recipe)
    made = step_advantages(recipe, **given_batch, max_length=12)
    mask_AT = torch.cat([torch.zeros(2, 12), given_batch["mask_BT"]])  # two rows of padding
    rewards_AT = torch.zeros_like(mask_AT)
    rewards_AT[2:, 0] = given_batch["scores_B"].float()
    index = ["q0", "q1", *(f"q{group}" for group in given_batch["group_B"].tolist())]
    settings = RunSettings(trainer="verl")
    config = OmegaConf.create(config_of(recipe, settings, **{"data.max_response_length": 12}))
    advantages_AT, returns_AT = estimate_advantages(rewards_AT, mask_AT, config.algorithm, index)
    assert advantages_AT is returns_AT
    assert not advantages_AT[:2].any()
    torch.testing.assert_close(advantages_AT[2:], made.advantages_BT.float())


def test_verls_own_trainer_is_refused_what_it_would_train_otherwise():
    settings = RunSettings(trainer="verl")
    with pytest.raises(InputError, match=r"run\.trainer=verl does not support weights=cw_grpo\. Set"):
        recipe_overrides(RECIPES["cw_grpo"], settings)
    with pytest.raises(InputError, match=r"does not support run\.kl_on=question\. Set"):
        recipe_overrides(RECIPES["grpo"], RunSettings(trainer="verl", kl_on="question"))
    with pytest.raises(InputError, match="engine_correction=token with anchor=question"):
        recipe_overrides(RECIPES["ta_grpo"], RunSettings(trainer="verl", engine_correction="token"))
    of_workers = {"trainer.use_v1": False, "data.train_batch_size": 4, f"{ROLLOUT}.agent.num_workers": 8}
    for name, changes, message in (
        ("dr_grpo", {"data.max_response_length": 12}, "loss_scale_factor is None instead of 12"),
        ("dapo", {"trainer.use_v1": False}, "use_v1=false ignores the filter"),
        ("ta_grpo", of_workers, "train_batch_size=4 must be a multiple"),
    ):
        with pytest.raises(InputError, match=message):
            check_config(config_of(RECIPES[name], settings, **changes), RECIPES[name], settings)


class FakeQueue:
    """The part of TransferQueue the replay buffer uses: questions that finish with given correctness."""

    def __init__(self, correctness: dict[str, list[float]]) -> None:
        self.waiting = dict(correctness)
        self.partition: dict[str, dict[str, Any]] = {}
        self.cleared: list[str] = []
        self.correct: dict[str, float] = {}

    def submit(self, count: int) -> int:
        for uid in list(self.waiting)[:count]:
            self.partition[uid] = {"is_prompt": True, "status": "finished", "global_steps": 1}
            for session, value in enumerate(self.waiting.pop(uid)):
                key = f"{uid}_{session}_0"
                self.partition[key] = {"seq_len": 3}
                self.correct[key] = value
        return count

    def kv_list(self, partition_id: str | None = None) -> dict[str, Any]:
        return {"train": dict(self.partition)}

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        assert select_fields == ["extra_fields"]
        return {"extra_fields": [{"reward_extra_info": {"acc": self.correct[key]}} for key in keys]}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            self.partition.pop(key, None)
        self.cleared += keys


def buffer_on(
    monkeypatch: pytest.MonkeyPatch, queue: FakeQueue, *, wanted: int, limit: int, waves: bool = False
) -> Any:
    from verl.trainer.ppo.v1 import replay_buffer

    from trainer_adapter.verl.plugin.steps.dynamic import NeighborReplayBuffer

    monkeypatch.setattr(replay_buffer, "tq", queue)
    monkeypatch.setattr("trainer_adapter.verl.transfer.tq", queue)
    return NeighborReplayBuffer(
        refill_fn=queue.submit,
        trainer_mode="sync",
        trainer_config={},
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs={
            "waves": waves,
            "max_prompts": limit,
            "poll_interval": 0.001,
            "filter_groups_metric": "acc",
            "train_batch_size": wanted,
            "gen_batch_size": 1,
            "max_inflight_gen_batches": 1,
        },
    )


@pytest.mark.parametrize("waves", [False, True])
def test_at_its_limit_dynamic_sampling_makes_a_step_of_the_groups_there_are(monkeypatch, caplog, waves):
    drawn = {f"1-{number:02d}": [float(number % 4 == 0)] * 2 for number in range(40)}
    queue = FakeQueue(drawn | {"1-07": [1.0, 0.0]})
    queue.submit(4)
    buffer = buffer_on(monkeypatch, queue, wanted=4, limit=12, waves=waves)
    with caplog.at_level("WARNING", "tagrpo.trainer"):
        sampled, metrics = buffer.sample(1, "train", 4)
    assert sampled.keys == ["1-07_0_0", "1-07_1_0"]
    assert len(sampled.tags) == 2
    counted = {
        name.removeprefix("tagrpo/filter/"): value for name, value in metrics.items() if "tagrpo" in name
    }
    assert counted == {"questions_drawn": 12, "all_right": 3, "all_wrong": 8, "surplus": 0, "missing": 3}
    assert "step 1: dynamic sampling used 12 questions and found 1 of 4 mixed groups" in caplog.text
    assert {key for key in queue.partition if "_" in key} == set(sampled.keys)  # the rest is gone
    assert len(buffer.dead) == 11  # those that filled the step for a moment too


def test_a_question_is_drawn_with_p_to_the_power_of_its_dead_groups_in_a_row():
    groups = SkipPolicy(0.7, 3)
    groups.count(["q", "q", "r"], [])
    groups.count([], ["r"])
    drawn = {name: sum(not groups.skips(name, step) for step in range(4000)) for name in "qr"}
    assert drawn["q"] / 4000 == pytest.approx(0.49, abs=0.03)
    assert drawn["r"] == 4000


def test_questions_left_out_are_counted_by_step_and_kept_with_a_checkpoint(tmp_path):
    skipping = SkipPolicy(0.5, 1)
    for number in range(40):
        skipping.draw(f"1-{number:02d}", "dead")
    skipping.draw("1-40", "alive")
    skipping.draw("1-41", "dead")  # the step had no place for it, and it never comes
    skipping.count_step({f"1-{number:02d}" for number in range(40)}, ["1-40", "0-99"], 1)
    skipping.count_step(set(), [], 2)
    skipping.count_step({"1-41"}, [], 3)
    assert skipping.in_a_row == {"dead": 40}
    drawn = [skipping.skips(name, 1) for name in ("dead", "alive", "new", "dead")]
    assert drawn == [True, False, False, True]
    assert skipping.skipped == 2
    skipping.save(tmp_path / "global_step_1")
    assert (skipping.skips("alive", 2), skipping.skipped) == (False, 0)
    later = SkipPolicy(0.5, 1)
    later.load(tmp_path / "global_step_0")  # saved without
    assert not later.skips("dead", 1)
    later.load(tmp_path / "global_step_1")
    assert later.skips("dead", 1)


@pytest.fixture
def trainer():
    """The plug-in's trainer, without a run."""
    import verl.trainer.ppo.v1  # noqa: F401  (first, since it loads the trainer of the plug-in)

    from trainer_adapter.verl.plugin.trainer import NeighborTrainer

    return NeighborTrainer.__new__(NeighborTrainer)


def test_a_question_whose_responses_all_failed_counts_as_short(trainer, monkeypatch, caplog):
    """verl takes such a group into the step, where it has no rows."""

    class Batch:
        keys = ("1-000000000_1_0", "1-000000000_0_0", "1-000000001_0_0")

        def reorder(self, order: list[int]) -> None:
            self.keys = tuple(self.keys[place] for place in order)

    trainer.recipe = compose(RECIPES["grpo"], {"responses": 2})
    trainer.config = OmegaConf.create({"data": {"train_batch_size": 4}})
    trainer.global_steps = 1
    trainer._make_updates = lambda batch, keys, metrics: batch
    metrics: dict[str, Any] = {}
    assert trainer._balance_batch(Batch(), metrics).keys[0] == "1-000000000_0_0"
    assert metrics == {"tagrpo/groups/short": 3, "tagrpo/groups/missing_responses": 5}
    assert "step 1: 2 of 4 questions have no response" in caplog.text
    metrics = {"tagrpo/filter/missing": 2}  # left out at the limit of dynamic sampling
    trainer._balance_batch(Batch(), metrics)
    assert metrics["tagrpo/groups/short"] == 1


def test_verls_weight_updates_have_a_limit(trainer):
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    from verl.utils.ray_utils import auto_await

    assert isinstance(trainer, PPOTrainer)
    updated: list[int] = []

    async def update_weights(global_steps: int) -> None:
        updated.append(global_steps)
        if global_steps == 1:
            await asyncio.Event().wait()  # as verl waits for an engine that failed

    trainer.settings = RunSettings(weight_update_limit_s=0.2)
    trainer.checkpoint_manager = SimpleNamespace(update_weights=auto_await(update_weights))
    trainer.global_steps, trainer.timing_raw = 0, {}
    trainer.on_init_end()
    trainer.global_steps = 1
    with pytest.raises(TimeoutError, match=r"step 1: the rollout engine did not load .* within 0\.2"):
        trainer.on_step_end()
    assert updated == [0, 1]


def test_a_step_that_fails_leaves_its_rollouts_on_the_disk(trainer, monkeypatch):
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    flushed: list[str] = []
    trainer._record = SimpleNamespace(flush=lambda: flushed.append("flushed"))
    monkeypatch.setattr(PPOTrainerSync, "step", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.step({}, {})
    assert flushed == ["flushed"]


def updates_of(parts: list[list[int]], mini_batch: int) -> list[list[int]]:
    """Return the rows of each update, as verl cuts the parts of all ranks."""
    each = mini_batch // len(parts)
    count = len(parts[0]) // each
    return [sorted(row for part in parts for row in part[n * each : (n + 1) * each]) for n in range(count)]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_an_update_has_the_same_whole_questions_on_any_number_of_ranks(ranks):
    draw = random.Random(0)
    questions = [f"q{row // 8:02d}" for row in range(128)]
    workloads = [draw.randrange(10, 2000) for _ in questions]
    parts = order_rows(questions, workloads, mini_batch=32, ranks=ranks)
    assert [len(part) for part in parts] == [128 // ranks] * ranks
    assert updates_of(parts, 32) == [list(range(32 * n, 32 * n + 32)) for n in range(4)]
    for update in range(4):
        each = 32 // ranks
        loads = [sum(workloads[row] for row in part[update * each : (update + 1) * each]) for part in parts]
        assert max(loads) - min(loads) < 2000  # no more than one response's


def test_padding_is_shared_by_the_updates_and_cuts_no_question():
    questions = [f"q{row // 4}" for row in range(20)]  # 5 questions of 8
    parts = order_rows([*questions, *[None] * 12], [1] * 32, mini_batch=16, ranks=2)
    updates = updates_of(parts, 16)
    assert sorted(row for part in parts for row in part) == list(range(32))
    assert sorted(sum(row < 20 for row in update) for update in updates) == [8, 12]
    for update in updates:
        assert set(Counter(questions[row] for row in update if row < 20).values()) == {4}


pytestmark = pytest.mark.usefixtures("quick_hydra")


def hydra_config(arguments: list[str]) -> dict[str, Any]:
    """Return verl's configuration with these arguments, as `main_ppo` would read it."""
    import verl
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        config = hydra_compose("ppo_trainer", overrides=arguments)
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return plain


@pytest.mark.slow
def test_hydra_reads_every_recipe_back():
    odd = Recipe("mine", "a summary: 'quoted', {braced}, ${interpolated}, a\\'b, = and null", neighbors=1)
    numbered = compose(RECIPES["grpo"], {"name": "1e3", "summary": "null", "loss": {"dual_clip": 3.0}})
    ends = compose(RECIPES["grpo"], {"name": "x\\", "summary": "\\\\'\\${y}\\\\ two\nlines \\boxed{}\\"})
    for recipe in (RECIPES["ta_grpo"], RECIPES["dapo"], odd, numbered, ends):
        settings = RunSettings(seed=None, record="runs/first one, or 'second'")
        config = hydra_config(hydra_arguments(recipe_overrides(recipe, settings)))
        assert recipe_of(config) == recipe
        assert settings_of(config) == settings
        assert config["algorithm"]["filter_groups"]["enable"] is recipe.drops_dead_groups
        assert config["actor_rollout_ref"]["actor"]["clip_ratio_high"] == recipe.loss.clip_high


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"trainer": {}}, r"has no tagrpo_recipe\. Start with"),
        ({"tagrpo_recipe": {"name": "grpo", "colour": "red"}}, r"tagrpo_recipe: .* argument 'colour'"),
        ({"tagrpo_recipe": {"name": "grpo", "loss": {"x": 1}}}, r"tagrpo_recipe: .* argument 'x'"),
        ({"tagrpo_run": {"seed": -1}}, "seed is -1"),
        (
            {"tagrpo_run": {"answers": "some"}},
            r"tagrpo_run\.answers is 'some': Input should be 'boxed'",
        ),
        ({"tagrpo_run": {"colour": "red"}}, r"tagrpo_run\.colour is 'red': Extra inputs"),
        ({"tagrpo_run": {"kl_on": "some"}}, "kl_on is 'some'"),
        ({"tagrpo_run": {"poll_interval_s": 0.0}}, "poll_interval_s is 0.0"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(config, message):
    with pytest.raises(InputError, match=message):
        (settings_of if "tagrpo_run" in config else recipe_of)(config)
    assert settings_of({}) == RunSettings()


def test_a_resume_measures_against_the_first_step_of_the_first_start(trainer, tmp_path):
    with RolloutWriter(tmp_path, "run") as writer:
        for step, entropy in ((1, 2.0), (2, 0.25), (3, 0.1)):
            writer.write_metrics(step, {ENTROPY: entropy, CORRECT: 0.0})
    trainer._alarms, trainer._record = Alarms(), SimpleNamespace(folder=tmp_path)
    trainer._skipping = trainer._replaying = SimpleNamespace(load=lambda folder: None)
    saved = SimpleNamespace(resume_mode="auto", default_local_dir=str(tmp_path))
    trainer.config = SimpleNamespace(trainer=saved)
    trainer._resume(2)
    [alarm] = trainer._alarms.look(3, {ENTROPY: 0.19, CORRECT: 0.0})  # no right answer: said before
    assert (alarm.step, alarm.metric) == (3, ENTROPY)
