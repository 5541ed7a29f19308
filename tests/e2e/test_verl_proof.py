"""Proofs on real runs of verl: what is trained is what the recipe says, on every path, again and again.

One run goes through every recipe and serves nearly all tests. Another is resumed from it, and a third has two
ranks and neighbors that say what the question says.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from verl_proof import LONGEST, MARKS, MINI_BATCH, QUESTIONS, ROLLOUTS, fitted, run, start
from verl_proof_reading import (
    assert_same_step,
    embeddings,
    load_model,
    off,
    plain_log_probs,
    question_prompt,
    step_of,
    verl_rows,
)

from trainer_adapter.methods.recipes import RECIPES

RESUMED = [
    *("grpo_matched", "grpo_matched", "ta_grpo", "ta_grpo", "grpo_replay", "grpo_replay"),
    *("ta_grpo_v1", "ta_grpo_v1", "grpo_replay"),  # once more, by the run that is resumed
]
TA_STEP, OWN_STEP = 3, 7
FAILED_STEP, FAILED_SESSION = 10, 5
NAMES = [
    *RESUMED,
    "ta_grpo",
    *(name for name in RECIPES if name not in RESUMED),
    *["ta_rescue"] * 3,  # in one step of a model that guesses no question may need a rescue
    *["grpo_predicted"] * 4,  # no question is left out before it comes again
]
"""The recipe of each step of the run."""

SAVED = "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]"


@pytest.fixture(scope="module")
def long_run(place):
    return run(
        place,
        "long",
        NAMES,
        "trainer.test_freq=1000",
        f"trainer.validation_data_dir={place / 'validation'}",
        "trainer.save_freq=2",
        f"trainer.default_local_dir={place / 'checkpoints'}",
        SAVED,
        TAGRPO_PROBE_FAILING=json.dumps([FAILED_STEP, FAILED_SESSION]),
    )


def checkpoint(place: Path, step: int) -> Path:
    return place / "checkpoints" / f"global_step_{step}"


def model_of(place: Path, step: int) -> Path:
    """Return the model that a step of the run has left."""
    return checkpoint(place, step) / "actor" / "huggingface"


@pytest.mark.parametrize("step", [TA_STEP, OWN_STEP])
def test_log_probs_are_those_on_the_question_or_with_anchor_own_on_the_prompt(place, long_run, step):
    rows, variants = verl_rows(place, "long", step), []
    trained, first = load_model(model_of(place, step - 1)), load_model(place / "model")
    for row, response in enumerate(rows["responses"]):
        about = rows["extra_fields"][row]["tagrpo"]
        variants.append(about["variant"])
        prompts = question_prompt(place, rows, row), about["prompt_ids"]
        for name, model in (("old_log_probs", trained), ("ref_log_prob", first)):
            on_question, on_own = (plain_log_probs(model, prompt, response) for prompt in prompts)
            anchor, other = (on_own, on_question) if step == OWN_STEP else (on_question, on_own)
            assert off(rows[name][row], anchor) < 1e-5
            assert (off(rows[name][row], other) > 1e-3) == (about["variant"] > 0)
        drawn_by = plain_log_probs(trained, about["prompt_ids"], response)
        assert off(torch.from_numpy(about["log_probs"]), drawn_by) < 1e-5
    assert len(variants) == QUESTIONS * ROLLOUTS
    assert set(variants) == {0, 1, 2}


def test_new_log_probs_are_those_on_the_question(place, long_run):
    seen = torch.load(place / "long" / f"loss_{TA_STEP}_0_0.pt", weights_only=False)
    model = load_model(model_of(place, TA_STEP - 1))
    rows = verl_rows(place, "long", TA_STEP)
    questions = {tuple(question_prompt(place, rows, row)) for row in range(len(rows["keys"]))}
    assert len(seen["prompts"]) == MINI_BATCH * ROLLOUTS
    for row, (prompt, response) in enumerate(zip(seen["prompts"], seen["responses"], strict=True)):
        assert tuple(prompt.tolist()) in questions
        expected = plain_log_probs(model, prompt, response)
        assert off(seen["log_probs"][row, : len(response)], expected) < 1e-5


@pytest.mark.parametrize(
    ("step", "number", "real"),
    [(TA_STEP, 0, 12), (TA_STEP, 1, 12), (FAILED_STEP, 0, 10), (FAILED_STEP, 1, 10)],
)
def test_the_loss_is_equation_4_over_real_responses(place, long_run, step, number, real):
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
def test_advantages_in_verls_batch_are_pure_functions(place, long_run, number):
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


def test_dead_questions_are_rescued_by_their_neighbors_and_no_others(place, long_run):
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


def test_tapered_weights_are_the_ratio_of_the_whole_response(place, long_run):
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


def test_failed_responses_make_shorter_groups_that_are_reported(place, long_run):
    kept, rows = step_of(place, "long", FAILED_STEP), verl_rows(place, "long", FAILED_STEP)
    assert len(kept["rewards_B"]) == QUESTIONS * (ROLLOUTS - 1)
    assert sum(rows["padding"]) == QUESTIONS
    metrics = long_run.steps[FAILED_STEP - 1]
    assert metrics["tagrpo/groups/short"] == QUESTIONS
    assert metrics["tagrpo/groups/missing_responses"] == QUESTIONS


def test_dynamic_sampling_keeps_the_groups_that_disagree(place, long_run):
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


def test_questions_without_a_gradient_are_left_out_where_they_come_again(long_run):
    steps = [number for number, name in enumerate(NAMES) if name == "grpo_predicted"]
    skipped = [long_run.steps[number]["tagrpo/filter/skipped"] for number in steps]
    assert skipped[0] == 0
    assert sum(skipped) > 0


def test_the_corrected_anchor_weighs_by_the_truncated_ratio(place, long_run):
    kept = step_of(place, "long", NAMES.index("ta_grpo_corrected") + 1)
    ratio = torch.exp(kept["old_log_probs_BT"] - kept["sampling_log_probs_BT"])
    expected = ratio.clamp(max=2.0) * kept["mask_BT"]
    assert off(kept["correction_BT"], expected) < 1e-4
    own = kept["variant_B"] == 0
    assert off(kept["correction_BT"][own], kept["mask_BT"][own].float()) < 1e-4
    assert off(ratio[~own], torch.ones(())) > 1e-2


@pytest.mark.parametrize("name", ["ta_grpo", "ta_grpo_v1", "ta_grpo_corrected", "grpo"])
def test_engine_and_trainer_agree_on_the_asked_prompts(place, long_run, name):
    number = NAMES.index(name) + 1
    kept = step_of(place, "long", number)
    assert kept["compared_B"].all()
    assert off(kept["engine_ratio_BT"], torch.zeros(())) < 1e-4
    assert off(kept["engine_weights_BT"], kept["mask_BT"].float()) < 1e-4
    assert long_run.steps[number - 1]["tagrpo/engine/gap"] < 1e-4


def test_validation_asks_the_questions_alone(place, long_run):
    lines = (place / "validation" / f"{len(NAMES)}.jsonl").read_text().splitlines()
    asked = [json.loads(line)["input"] for line in lines]
    assert len(asked) == 20
    assert all("What is" in text for text in asked)
    assert "val-core/toy/acc/mean@1" in long_run.steps[-1]


def test_every_step_changes_the_weights(long_run):
    assert [step["step"] for step in long_run.steps] == list(range(1, len(NAMES) + 1))
    assert [
        name for step, name in zip(long_run.steps, NAMES, strict=True) if not step["actor/grad_norm"] > 0
    ] == []


LAST_STEP = len(RESUMED)
"""The last whole step of the resumed run, whose reward worker dies in the next one."""


@pytest.fixture(scope="module")
def resumed_run(place, long_run):
    resumed = f"trainer.resume_from_path={checkpoint(place, OWN_STEP - 1)}"
    answered = (LAST_STEP - OWN_STEP + 1) * QUESTIONS * ROLLOUTS + 8
    recipes, mode = [*RESUMED, "ta_grpo", "ta_grpo"], "trainer.resume_mode=resume_path"
    return start(place, "resumed", recipes, mode, resumed, SAVED, TAGRPO_REWARD_LAST_CALL=str(answered))


@pytest.fixture(scope="module")
def parallel_run(place):
    ranks = ("trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2", "ray_kwargs.ray_init.num_cpus=20")
    return run(place, "parallel", ["ta_grpo", "ta_grpo"], *ranks, data="repeated")


@pytest.mark.parametrize("step", [OWN_STEP, OWN_STEP + 1, OWN_STEP + 2])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(place, long_run, resumed_run, step):
    assert_same_step(step_of(place, "long", step), step_of(place, "resumed", step), 1e-5)
    replayed = {name for name in long_run.steps[step - 1] if name.startswith("tagrpo/replay/")}
    for metric in ("actor/pg_loss", "actor/kl_loss", "actor/grad_norm", *replayed):
        one, other = long_run.steps[step - 1][metric], resumed_run.steps[step - OWN_STEP][metric]
        assert one == pytest.approx(other, rel=1e-5, abs=1e-7)


def test_groups_without_a_gradient_give_way_to_earlier_mixed_ones(place, long_run):
    """Each replayed response has the advantage of its step, old log-probs and a weight of this one."""
    steps = [number for number, name in enumerate(RESUMED, 1) if name == "grpo_replay"]
    replayed, weighed = 0, []
    for step in steps:
        kept, rows = step_of(place, "long", step), verl_rows(place, "long", step)
        metrics = long_run.steps[step - 1]
        assert len(rows["keys"]) == len(kept["correct_B"]) == QUESTIONS * ROLLOUTS
        dead = round(metrics["tagrpo/zero/group/share"] * QUESTIONS)
        assert metrics["tagrpo/replay/groups"] + metrics["tagrpo/replay/missing"] == dead
        strangers = {key.rsplit("_", 2)[0] for key in rows["keys"] if not key.startswith(f"{step}-")}
        assert len(strangers) == metrics["tagrpo/replay/groups"]
        for row, key in enumerate(rows["keys"]):
            weights = rows["rollout_is_weights"][row]
            if key.startswith(f"{step}-"):
                assert off(weights, torch.ones(())) < 1e-4
                continue
            earlier = verl_rows(place, "long", int(key.partition("-")[0]))
            drawn = earlier["keys"].index(key)
            for name in ("responses", "prompts", "advantages", "ref_log_prob"):
                assert torch.equal(rows[name][row], earlier[name][drawn]), name
            ratio = torch.exp(rows["old_log_probs"][row] - earlier["old_log_probs"][drawn])
            assert off(weights, ratio.clamp(max=2.0)) < 1e-4
            weighed.append(weights)
            replayed += 1
    assert replayed >= ROLLOUTS
    assert off(torch.cat(weighed), torch.ones(())) > 1e-2
    assert long_run.steps[steps[-1] - 1]["tagrpo/replay/kept"] > 0


@pytest.mark.parametrize("step", [1, 2])
def test_neighbors_equal_to_the_question_on_two_ranks_are_matched_grpo(place, long_run, parallel_run, step):
    repeated = step_of(place, "parallel", step)
    assert set(repeated["variant_B"].tolist()) == {0, 1, 2}
    repeated["variant_B"] = torch.zeros_like(repeated["variant_B"])
    assert_same_step(step_of(place, "long", step), repeated, 1e-5)
    one, other = long_run.steps[step - 1], parallel_run.steps[step - 1]
    assert one["actor/grad_norm"] == pytest.approx(other["actor/grad_norm"], rel=1e-4)


def test_words_of_neighbors_alone_are_left_alone_but_for_anchor_own(place, long_run):
    first, anchored, before, own = (embeddings(model_of(place, step)) for step in (2, 4, 6, 8))

    def tokens(*steps: int) -> tuple[set[int], set[int]]:
        """Return the tokens of the prompts and those that were drawn."""
        rows = [verl_rows(place, "long", step) for step in steps]
        abouts = [extra["tagrpo"] for each in rows for extra in each["extra_fields"]]
        asked = {token for about in abouts for token in about["prompt_ids"].tolist()}
        return asked, {
            token for each in rows for response in each["responses"] for token in response.tolist()
        }

    first_mark = len(first) - MARKS
    asked, drawn = tokens(3, 4)
    drawn |= tokens(1, 2)[1]  # the optimizer's momentum still moves what was drawn before
    unseen = [token for token in asked if token >= first_mark and token not in drawn]
    assert len(unseen) >= 20
    assert torch.equal(anchored[unseen], first[unseen])
    assert not torch.equal(anchored[:first_mark], first[:first_mark])
    asked, drawn = tokens(7, 8)
    unseen = [token for token in asked if token >= first_mark and token not in drawn]
    assert len(unseen) >= 20
    assert ((own[unseen] - before[unseen]).abs().max(-1).values > 0).all()


def test_training_stops_where_the_reward_worker_died(resumed_run):
    assert resumed_run.returncode not in (0, None), resumed_run.output[-3000:]
    assert "no materializable trajectories" in resumed_run.output
    whole = [step for step in resumed_run.steps if step["step"] <= LAST_STEP]
    assert [step["tagrpo/groups/missing_responses"] for step in whole] == [0] * (LAST_STEP - OWN_STEP + 1)
    # What a worker was grading when it died is lost, and a question's responses are graded in one call.
    later = resumed_run.steps[len(whole) :]
    assert len(later) <= 1
    assert all(step["tagrpo/batch/responses"] <= 8 for step in later)
