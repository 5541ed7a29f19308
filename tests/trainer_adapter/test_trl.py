"""TRL's own `GRPOTrainer` with our rollout function and reward, beside our formulas: the sandbox's policy."""

from pathlib import Path
from typing import Any

import pytest
import torch
from rollout_shards import read_rollouts

from benchmarks.studies.sandbox_world import World
from service.errors import InputError
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.losses.aggregation import aggregate
from trainer_adapter.methods.losses.policy import clipped_surrogate
from trainer_adapter.methods.step_advantages import anchor_weights
from trainer_adapter.record.listing import list_rollouts
from trainer_adapter.record.reading import Record
from trainer_adapter.trl import NeighborRollout, NeighborWeights, Recorded, correctness, load_export

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")]
QUESTIONS, GROUP = 8, 8


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("study"), "A")
    world.prepare()
    return world


def arguments(folder: Path, **settings: Any) -> Any:
    from trl import GRPOConfig

    usual = {"num_generations": GROUP, "per_device_train_batch_size": QUESTIONS * GROUP, "seed": 3}
    usual |= {"max_completion_length": 40, "report_to": [], "use_cpu": True, "bf16": False}
    return GRPOConfig(output_dir=str(folder), **{**usual, **settings})


class Step:
    """What TRL made of one batch, and what it asked and drew."""

    def __init__(
        self, world: World, anchor: Any = "question", *, weighs: bool = False, **settings: Any
    ) -> None:
        from trl import GRPOTrainer

        self.rewards: list[float | None] = []
        rows = load_export(world.export)

        class Weighing(NeighborWeights, GRPOTrainer):
            pass

        self.trainer = (Weighing if weighs else GRPOTrainer)(
            model=str(world.policy),
            reward_funcs=self.reward,
            rollout_func=self.rollout,
            train_dataset=rows,
            args=arguments(world.folder / "trl", top_k=0, loss_type="grpo", **settings),
        )
        self.draw = NeighborRollout(anchor)
        self.rows = [dict(row) for row in rows.select(range(QUESTIONS)) for _ in range(GROUP)]

    async def reward(self, **given: Any) -> list[float | None]:
        self.metrics: dict[str, float] = {}
        given["log_metric"] = self.metrics.__setitem__
        self.rewards = await correctness(**given)
        return self.rewards

    def rollout(self, prompts: Any, trainer: Any) -> dict[str, Any]:
        self.drawn = self.draw(prompts, trainer)
        return self.drawn

    def batch(self) -> dict[str, Any]:
        torch.manual_seed(3)
        self.trainer.model.train()
        return self.trainer._generate_and_score_completions(self.rows)


@pytest.fixture(scope="module")
def step(world):
    step = Step(world)
    step.made = step.batch()
    return step


def test_a_group_is_drawn_for_the_question_and_each_neighbor_and_anchored_to_the_question(step):
    for first in range(0, len(step.rows), GROUP):
        row = step.rows[first]
        phrasings = [messages[0]["content"] for messages in (row["prompt"], *row["neighbors"])]
        asked = step.drawn["asked"][first : first + GROUP]
        assert asked == phrasings * (GROUP // len(phrasings))
    tokenizer = step.trainer.processing_class
    for ids, mask, row in zip(step.made["prompt_ids"], step.made["prompt_mask"], step.rows, strict=True):
        wanted = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"]
        assert ids[mask > 0].tolist() == wanted


def test_advantages_loss_and_gradient_are_those_of_the_plug_in(step):
    made = step.made
    assert 0 < sum(step.rewards) < len(step.rewards)  # type: ignore[arg-type]
    groups = [row // GROUP for row in range(len(step.rows))]
    ours = grpo_advantages(step.rewards, groups, ddof=1, epsilon=1e-4)
    torch.testing.assert_close(made["advantages"].double(), ours, atol=1e-5, rtol=1e-5)

    theirs, gradients = trl_loss(step)
    log_probs = score(step, made["prompt_ids"], made["prompt_mask"])
    loss = our_loss(step, log_probs, ours.float())
    assert float(loss.detach()) == pytest.approx(theirs, abs=1e-6)
    assert_same_gradients(step, gradients, loss)


def trl_loss(step: Step) -> tuple[float, dict[str, Any]]:
    """Return the loss of the batch as TRL has it, with its gradients."""
    model = step.trainer.model
    step.trainer.current_gradient_accumulation_steps = 1  # set by the loop that is not run here
    loss = step.trainer.compute_loss(model, step.made)
    loss.backward()
    gradients = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()
    return float(loss.detach()), gradients


def score(step: Step, prompts: Any, prompt_mask: Any) -> Any:
    """Return the log-probs of the responses behind these prompts, by the model itself."""
    made = step.made
    ids = torch.cat([prompts, made["completion_ids"]], 1)
    mask = torch.cat([prompt_mask, made["completion_mask"]], 1)
    width = made["completion_ids"].shape[1]
    logits = step.trainer.model(ids, attention_mask=mask).logits[:, -width - 1 : -1]
    return logits.log_softmax(-1).gather(-1, made["completion_ids"][..., None])[..., 0]


def our_loss(step: Step, log_probs: Any, advantages: Any) -> Any:
    surrogate = clipped_surrogate(log_probs, log_probs.detach(), advantages)
    return aggregate(surrogate.loss_BT, step.made["completion_mask"], "seq-mean-token-mean")


def assert_same_gradients(step: Step, gradients: dict[str, Any], loss: Any) -> None:
    loss.backward()
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
    for name, parameter in step.trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-3)
    step.trainer.model.zero_grad()


@pytest.mark.parametrize("anchor", ["tapered", "dropped", "corrected"])
def test_responses_to_neighbors_are_weighed_as_the_plug_in_weighs_them(world, anchor):
    step = Step(world, anchor, weighs=True)
    step.made = made = step.batch()
    groups = [row // GROUP for row in range(len(step.rows))]
    advantages = grpo_advantages(step.rewards, groups, ddof=1, epsilon=1e-4)
    pairs = zip(step.rows, step.drawn["asked"], strict=True)
    foreign = torch.tensor([row["prompt"][0]["content"] != text for row, text in pairs])
    assert foreign.double().mean() == 3 / 4
    tokenizer = step.trainer.processing_class
    asked = [[{"role": "user", "content": text}] for text in step.drawn["asked"]]
    padded = {"padding": True, "return_tensors": "pt", "tokenizer_kwargs": {"padding_side": "left"}}
    prompts = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=True, **padded)
    anchored = score(step, made["prompt_ids"], made["prompt_mask"])
    drawn = score(step, prompts["input_ids"], prompts["attention_mask"])
    ratio = ((anchored - drawn) * made["completion_mask"]).detach()
    if anchor == "corrected":
        weighed = advantages[:, None] * torch.where(foreign[:, None], ratio.exp().clamp(max=2.0), 1.0)
        assert (ratio[foreign].exp() > 2).any()
    else:
        weights = anchor_weights(anchor, advantages, foreign, ratio.sum(-1))
        weighed = advantages * weights
        assert (weights[foreign] < 0.9).any()
        assert (weights[~foreign] == 1).all()
    torch.testing.assert_close(made["advantages"].double(), weighed.double(), atol=1e-4, rtol=1e-3)

    theirs, gradients = trl_loss(step)
    loss = our_loss(step, anchored, weighed.float())
    assert float(loss.detach()) == pytest.approx(theirs, abs=1e-5)
    assert_same_gradients(step, gradients, loss)
    logged = step.trainer._metrics["train"]
    name = "tagrpo/anchor/log_ratio/neighbors"
    if anchor != "dropped":
        assert logged[name][-1] == pytest.approx(float(ratio.sum(-1)[foreign].mean()), abs=1e-3)
    if anchor == "dropped":
        assert logged["tagrpo/response_weights/mean"] == [0.0]


def test_an_answer_that_cannot_be_graded_is_left_out_of_its_group(world):
    step = Step(world)
    nested = "\\sqrt{" * 400 + "2" + "}" * 400
    for row in step.rows[:GROUP]:
        row["reward_model"] = {"ground_truth": nested}
    made = step.batch()
    assert None in step.rewards[:GROUP]
    assert step.metrics["tagrpo/unknown"] == step.rewards.count(None) / len(step.rewards)
    left_out = [row for row, reward in enumerate(step.rewards) if reward is None]
    assert made["advantages"][left_out].abs().max() == 0


def test_rollouts_are_recorded_as_by_verl(world, tmp_path):
    from trl import GRPOTrainer

    class Trainer(NeighborWeights, Recorded, GRPOTrainer):
        record, run_name = tmp_path / "rollouts", "trl"

    trainer = Trainer(
        model=str(world.policy),
        reward_funcs=correctness,
        rollout_func=NeighborRollout("tapered"),
        train_dataset=load_export(world.export),
        args=arguments(tmp_path / "trl", max_steps=2, logging_steps=1, save_strategy="no"),
    )
    trainer.train()
    record = Record(tmp_path / "rollouts")
    assert record.problems() == ()
    assert record.run.name == "trl"
    steps = record.counts().page_steps()
    assert [(step.step, step.questions, step.responses) for step in steps] == [(1, 8, 64), (2, 8, 64)]
    groups = record.counts().page_groups(limit=99)
    assert {(group.prompts, group.responses) for group in groups} == {(4, GROUP)}
    assert "mixed" in {group.kind for group in groups}
    found = record.joint_group(1, groups[0].question_id)
    assert [len(column.rollouts) for column in found.columns] == [2, 2, 2, 2]
    assert found.columns[1].strategy is not None
    assert found.columns[1].prompt != found.columns[0].prompt
    for one in list_rollouts(record, limit=200).rollouts:
        assert one.reward == float(one.grade == "correct")
    by_group = {group.question_id: group for group in groups if group.step == 2}
    for one in (one for one in read_rollouts(record.folder) if one.step == 2):
        if by_group[one.question_id].kind == "mixed":
            assert (one.advantage > 0) == bool(one.correct)
    assert {1, 2} <= record.metrics().keys()
    assert "reward" in record.metrics()[2]


def test_settings_that_would_not_be_ta_grpo_are_refused(world, tmp_path):
    with pytest.raises(InputError, match="must be a multiple of 4"):
        Step(world, num_generations=2).batch()
    step = Step(world)
    step.trainer.use_vllm = step.trainer.vllm_importance_sampling_correction = True
    with pytest.raises(InputError, match="Set it to False"):
        step.draw([row["prompt"] for row in step.rows], step.trainer)
    with pytest.raises(InputError, match="does not support"):
        Step(world, "corrected").batch()
    with pytest.raises(InputError, match="Choose from question, own, corrected, tapered, dropped"):
        NeighborRollout("neighbor")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be above 0"):
        NeighborRollout("corrected", threshold=0)
    with pytest.raises(InputError, match="does not exist"):
        load_export(tmp_path)


def test_the_script_of_the_page_trains(world, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "trl.md").read_text(encoding="utf-8")
    script = page.split("```python no-run\n")[1].split("```")[0]
    for written, here in (
        ("max_steps=60", "max_steps=1"),
        ("per_device_train_batch_size=128", "per_device_train_batch_size=8"),
        ('"policy"', repr(str(world.policy))),
        ('"export"', repr(str(world.export))),
    ):
        assert written in script
        script = script.replace(written, here)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "script"}
    exec(script, names)
    names["main"]()
    assert (tmp_path / "trained" / "model.safetensors").is_file()
