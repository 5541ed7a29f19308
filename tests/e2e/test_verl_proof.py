"""Proofs on real runs of verl: what is trained is what the recipe says, on every path, again and again.

One run that goes through every recipe serves nearly all tests.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from verl_proof import LONGEST, MINI_BATCH, QUESTIONS, ROLLOUTS, fitted, run, start
from verl_proof_reading import (
    load_model,
    off,
    plain_log_probs,
    question_prompt,
    step_of,
    verl_rows,
)
from verl_run import VerlRun

from trainer_adapter.methods.recipes import RECIPES

FAILED_STEP, FAILED_SESSION = 3, 5


NAMES = [
    *["ta_grpo"] * 3,
    *(name for name in RECIPES if name != "grpo_replay"),
    *["ta_rescue"] * 3,  # in one step of a model that guesses no question may need a rescue
    *["grpo_predicted"] * 4,  # no question is left out before it comes again
    *["grpo_replay"] * 2,
]
"""The recipe of each step of the run."""


@pytest.fixture(scope="module")
def long_run(place: Path) -> VerlRun:
    return run(
        place,
        "long",
        NAMES,
        "trainer.test_freq=1000",
        f"trainer.validation_data_dir={place / 'validation'}",
        TAGRPO_PROBE_FAILING=json.dumps([FAILED_STEP, FAILED_SESSION]),
    )


def test_old_and_reference_log_probs_are_those_on_the_question(place: Path, long_run: VerlRun) -> None:
    rows, model = verl_rows(place, "long", 1), load_model(place / "model")
    variants = []
    for row, response in enumerate(rows["responses"]):
        about = rows["extra_fields"][row]["tagrpo"]
        variants.append(about["variant"])
        on_question = plain_log_probs(model, question_prompt(place, rows, row), response)
        on_own = plain_log_probs(model, about["prompt_ids"], response)
        for name in ("old_log_probs", "ref_log_prob"):
            assert off(rows[name][row], on_question) < 1e-5
            assert (off(rows[name][row], on_own) > 1e-3) == (about["variant"] > 0)
        assert off(torch.from_numpy(about["log_probs"]), on_own) < 1e-5
    assert len(variants) == QUESTIONS * ROLLOUTS
    assert set(variants) == {0, 1, 2}


def test_new_log_probs_are_those_on_the_question(place: Path, long_run: VerlRun) -> None:
    seen, model = (
        torch.load(place / "long" / "loss_1_0_0.pt", weights_only=False),
        load_model(place / "model"),
    )
    rows = verl_rows(place, "long", 1)
    questions = {tuple(question_prompt(place, rows, row)) for row in range(len(rows["keys"]))}
    assert len(seen["prompts"]) == MINI_BATCH * ROLLOUTS
    for row, (prompt, response) in enumerate(zip(seen["prompts"], seen["responses"], strict=True)):
        assert tuple(prompt.tolist()) in questions
        expected = plain_log_probs(model, prompt, response)
        assert off(seen["log_probs"][row, : len(response)], expected) < 1e-5


@pytest.mark.parametrize(
    ("step", "number", "real"),
    [(2, 0, 12), (2, 1, 12), (FAILED_STEP, 0, 10), (FAILED_STEP, 1, 10)],
)
def test_the_loss_is_equation_4_over_real_responses(
    place: Path, long_run: VerlRun, step: int, number: int, real: int
) -> None:
    rows = verl_rows(place, "long", step)
    seen = torch.load(place / "long" / f"loss_{step}_0_{number}.pt", weights_only=False)
    total, responses, size_of_part = 0.0, 0, MINI_BATCH * ROLLOUTS
    for place_in_part in range(size_of_part):
        row = number * size_of_part + place_in_part  # one rank takes its rows in order
        if rows["padding"][row]:
            assert int(seen["response_mask"][place_in_part].sum()) == 0
            continue
        assert torch.equal(seen["responses"][place_in_part], rows["responses"][row])
        size = len(rows["responses"][row])
        new = seen["log_probs"][place_in_part, :size].double()
        ratio = torch.exp(new - rows["old_log_probs"][row].double())
        advantages = rows["advantages"][row].double()
        kept = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        apart = rows["ref_log_prob"][row].double() - new
        kl = torch.exp(apart) - apart - 1
        total += float((-kept + 0.001 * kl).mean())
        responses += 1
    assert responses == real
    assert float(seen["loss"]) == pytest.approx(total / responses, abs=2e-6)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=[f"{n + 1}-{name}" for n, name in enumerate(NAMES)])
def test_advantages_in_verls_batch_are_the_pure_functions(
    place: Path, long_run: VerlRun, number: int
) -> None:
    from trainer_adapter.methods.step_advantages import step_advantages

    recipe, step = fitted(NAMES[number]), number + 1
    kept, rows = step_of(place, "long", step), verl_rows(place, "long", step)
    per_group = ROLLOUTS // 3 if recipe.group == "prompt" else ROLLOUTS
    if step != FAILED_STEP and recipe.group == "joint":
        assert set(Counter(kept["group_B"].tolist()).values()) == {per_group}
    order = torch.randperm(len(kept["rewards_B"]), generator=torch.Generator().manual_seed(step))
    made = step_advantages(
        recipe,
        kept["correct_B"][order].double(),
        kept["correct_B"][order],
        kept["mask_BT"][order],
        kept["old_log_probs_BT"][order],
        kept["group_B"][order],
        max_length=LONGEST,
        foreign_B=kept["variant_B"][order] > 0,
        log_ratio_B=log_ratios(kept)[order],
        generator=torch.Generator().manual_seed(42 * 1_000_003 + step),
    )
    written = [row for row, padding in zip(rows["advantages"], rows["padding"], strict=True) if not padding]
    keys = [key for key, padding in zip(rows["keys"], rows["padding"], strict=True) if not padding]
    for row, place_in_step in enumerate(order.tolist()):
        tokens = int(kept["tokens_B"][place_in_step])
        if not keys[place_in_step].startswith(f"{step}-"):
            assert recipe.filter == "replay"  # a response of another step in its place
            continue
        assert len(written[place_in_step]) == tokens
        if recipe.weights != "clip_cov":  # its draw depends on the order of rows
            assert off(written[place_in_step].double(), made.advantages_BT[row, :tokens]) < 1e-5
    for row, padding in zip(rows["advantages"], rows["padding"], strict=True):
        assert not padding or float(row.abs().sum()) == 0
    if recipe.advantage == "grpo":
        groups = kept["group_B"]
        sums = torch.zeros(int(groups.max()) + 1).double().index_add_(0, groups, kept["advantages_B"])
        assert float(sums.abs().max()) < 1e-9


def test_every_step_changes_the_weights(long_run: VerlRun) -> None:
    assert [step["step"] for step in long_run.steps] == list(range(1, len(NAMES) + 1))
    for step, name in zip(long_run.steps, NAMES, strict=True):
        assert step["actor/grad_norm"] > 0, name


def test_dead_questions_are_rescued_by_their_neighbors_and_no_others(place: Path, long_run: VerlRun) -> None:
    rescued = 0
    for number in (place_in for place_in, name in enumerate(NAMES) if name == "ta_rescue"):
        kept, rows = step_of(place, "long", number + 1), verl_rows(place, "long", number + 1)
        dead = 0
        for question in range(QUESTIONS):
            of_it = kept["question_B"] == question
            first = of_it & kept["first_stage_B"]
            assert int(first.sum()) == ROLLOUTS // 2
            assert not kept["variant_B"][first].any()
            dead += not kept["correct_B"][first].any()
            asked = Counter(kept["variant_B"][of_it & ~kept["first_stage_B"]].tolist())
            if kept["correct_B"][first].any():
                assert asked == {0: ROLLOUTS // 2}
            else:
                # a question has two neighbors, one, or none
                assert sorted(asked.items()) in ([(0, 3)], [(1, 3)], [(1, 1), (2, 2)], [(1, 2), (2, 1)])
                rescued += 0 not in asked
        assert long_run.steps[number]["tagrpo/rescue/dead_share"] == pytest.approx(dead / QUESTIONS)
        assert all(each["reward_extra_info"] for each in rows["extra_fields"])
    assert rescued > 0


def test_tapered_weights_are_the_ratio_of_the_whole_response(place: Path, long_run: VerlRun) -> None:
    kept = step_of(place, "long", NAMES.index("ta_grpo_tapered") + 1)
    lowered = (kept["variant_B"] > 0) & (kept["advantages_B"] <= 0)
    assert lowered.any()
    assert (kept["response_weights_B"][~lowered] == 1).all()
    expected = log_ratios(kept)[lowered].exp().clamp(max=1.0)
    torch.testing.assert_close(kept["response_weights_B"][lowered], expected, rtol=1e-5, atol=1e-6)
    assert (expected < 0.995).any()  # five hundred times the tolerance
    assert (log_ratios(kept)[kept["variant_B"] > 0] < -0.01).any()


def log_ratios(kept: dict[str, Any]) -> torch.Tensor:
    """Return the log of how likely the anchor makes each response against the prompt it was drawn for."""
    ratios = kept["old_log_probs_BT"].double() - kept["sampling_log_probs_BT"].double()
    return ratios.where(kept["mask_BT"] > 0, 0.0).sum(-1)


def test_failed_responses_make_shorter_groups_that_are_reported(place: Path, long_run: VerlRun) -> None:
    kept, rows = step_of(place, "long", FAILED_STEP), verl_rows(place, "long", FAILED_STEP)
    assert len(kept["rewards_B"]) == QUESTIONS * (ROLLOUTS - 1)
    assert sum(rows["padding"]) == QUESTIONS
    metrics = long_run.steps[FAILED_STEP - 1]
    assert metrics["tagrpo/groups/short"] == QUESTIONS
    assert metrics["tagrpo/groups/missing_responses"] == QUESTIONS


def test_dynamic_sampling_keeps_the_groups_that_disagree(place: Path, long_run: VerlRun) -> None:
    evicted = 0.0
    for number, name in enumerate(NAMES):
        if not RECIPES[name].drops_dead_groups:
            continue
        kept, metrics = step_of(place, "long", number + 1), long_run.steps[number]
        assert len(set(kept["question_B"].tolist())) == QUESTIONS
        for question in range(QUESTIONS):
            assert len(set(kept["correct_B"][kept["question_B"] == question].tolist())) == 2
        gone = metrics["tagrpo/filter/all_right"] + metrics["tagrpo/filter/all_wrong"]
        spare = metrics.get("training/filter_groups/discarded_surplus_samples", 0)
        assert metrics["tagrpo/filter/questions_drawn"] == QUESTIONS + gone + spare
        evicted += gone
    assert evicted > 0


def test_questions_without_a_gradient_are_left_out_where_they_come_again(long_run: VerlRun) -> None:
    skipped = [
        metrics["tagrpo/filter/skipped"]
        for name, metrics in zip(NAMES, long_run.steps, strict=True)
        if name == "grpo_predicted"
    ]
    assert len(skipped) == NAMES.count("grpo_predicted")
    assert skipped[0] == 0
    assert sum(skipped) > 0


def test_the_corrected_anchor_weighs_by_the_truncated_ratio(place: Path, long_run: VerlRun) -> None:
    kept = step_of(place, "long", NAMES.index("ta_grpo_corrected") + 1)
    ratio = torch.exp(kept["old_log_probs_BT"] - kept["sampling_log_probs_BT"])
    expected = ratio.clamp(max=2.0) * kept["mask_BT"]
    assert off(kept["correction_BT"], expected) < 1e-4
    own = kept["variant_B"] == 0
    assert off(kept["correction_BT"][own], kept["mask_BT"][own].float()) < 1e-4
    assert off(ratio[~own], torch.ones(())) > 1e-2


@pytest.mark.parametrize("name", ["ta_grpo", "ta_grpo_v1", "ta_grpo_corrected", "grpo"])
def test_engine_and_trainer_agree_on_the_prompts_that_were_asked(
    place: Path, long_run: VerlRun, name: str
) -> None:
    number = NAMES.index(name) + 1
    kept = step_of(place, "long", number)
    assert kept["compared_B"].all()
    assert off(kept["engine_ratio_BT"], torch.zeros(())) < 1e-4
    assert off(kept["engine_weights_BT"], kept["mask_BT"].float()) < 1e-4
    assert long_run.steps[number - 1]["tagrpo/engine/gap"] < 1e-4


def test_validation_asks_the_questions_alone(place: Path, long_run: VerlRun) -> None:
    lines = (place / "validation" / f"{len(NAMES)}.jsonl").read_text().splitlines()
    asked = [json.loads(line)["input"] for line in lines]
    assert len(asked) == 20
    assert all("What is" in text for text in asked)
    assert "val-core/sums/acc/mean@1" in long_run.steps[-1]


def test_training_stops_where_the_reward_worker_died(place: Path) -> None:
    answered = QUESTIONS * ROLLOUTS + 8
    ended = start(place, "deserted", ["ta_grpo"] * 4, TAGRPO_REWARD_LAST_CALL=str(answered))
    assert ended.returncode not in (0, None), ended.output[-3000:]
    assert "no materializable trajectories" in ended.output
    first, *later = ended.steps
    assert first["tagrpo/groups/missing_responses"] == 0
    # What a worker was grading when it died is lost, and a question's responses are graded in one call.
    assert len(later) <= 1
    assert all(step["tagrpo/batch/responses"] <= 8 for step in later)
