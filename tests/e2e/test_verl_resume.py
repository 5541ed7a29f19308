"""Proofs on real runs of verl: anchors, replayed groups, a run that is resumed, and two ranks.

Three runs serve all tests: one that is saved, one that is resumed from it, and one on two ranks whose
neighbors say what the question says.
"""

from pathlib import Path

import pytest
import torch
import verl_proof
from verl_proof import run
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
from verl_run import VerlRun

SAVED = [
    *("grpo_matched", "grpo_matched", "ta_grpo", "ta_grpo", "grpo_replay", "grpo_replay"),
    *("ta_grpo_v1", "ta_grpo_v1", "grpo_replay"),  # once more, by the run that is resumed
]
OWN_STEP = 7


@pytest.fixture(scope="module")
def saved_run(place: Path) -> VerlRun:
    return run(
        place,
        "saved",
        SAVED,
        "trainer.save_freq=2",
        f"trainer.default_local_dir={place / 'checkpoints'}",
        "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    )


@pytest.fixture(scope="module")
def resumed_run(place: Path, saved_run: VerlRun) -> VerlRun:
    return run(
        place,
        "resumed",
        SAVED,
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={place / 'checkpoints' / f'global_step_{OWN_STEP - 1}'}",
        "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    )


@pytest.fixture(scope="module")
def parallel_run(place: Path) -> VerlRun:
    return run(
        place,
        "parallel",
        ["ta_grpo", "ta_grpo"],
        "trainer.n_gpus_per_node=2",
        "ray_kwargs.ray_init.num_gpus=2",
        "ray_kwargs.ray_init.num_cpus=20",
        data="repeated",
    )


def test_with_anchor_own_they_are_those_on_the_prompt_that_was_asked(place: Path, saved_run: VerlRun) -> None:
    rows = verl_rows(place, "saved", OWN_STEP)
    trained = load_model(place / "checkpoints" / f"global_step_{OWN_STEP - 1}" / "actor" / "huggingface")
    start = load_model(place / "model")
    neighbors = 0
    for row, response in enumerate(rows["responses"]):
        about = rows["extra_fields"][row]["tagrpo"]
        assert off(rows["old_log_probs"][row], plain_log_probs(trained, about["prompt_ids"], response)) < 1e-5
        assert off(rows["ref_log_prob"][row], plain_log_probs(start, about["prompt_ids"], response)) < 1e-5
        on_question = plain_log_probs(trained, question_prompt(place, rows, row), response)
        assert (off(rows["old_log_probs"][row], on_question) > 1e-3) == (about["variant"] > 0)
        neighbors += about["variant"] > 0
    assert neighbors > 0


@pytest.mark.parametrize("step", [OWN_STEP, OWN_STEP + 1, OWN_STEP + 2])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(
    place: Path, saved_run: VerlRun, resumed_run: VerlRun, step: int
) -> None:
    assert_same_step(step_of(place, "saved", step), step_of(place, "resumed", step), 1e-5)
    replayed = {name for name in saved_run.steps[step - 1] if name.startswith("tagrpo/replay/")}
    for metric in ("actor/pg_loss", "actor/kl_loss", "actor/grad_norm", *replayed):
        one, other = saved_run.steps[step - 1][metric], resumed_run.steps[step - OWN_STEP][metric]
        assert one == pytest.approx(other, rel=1e-5, abs=1e-7)


def test_groups_without_a_gradient_give_way_to_mixed_ones_of_earlier_steps(
    place: Path, saved_run: VerlRun
) -> None:
    """Each replayed response has the advantage of its step, old log-probs and a weight of this one."""
    steps = [number for number, name in enumerate(SAVED, 1) if name == "grpo_replay"]
    replayed, weighed = 0, []
    for step in steps:
        kept, rows = step_of(place, "saved", step), verl_rows(place, "saved", step)
        metrics = saved_run.steps[step - 1]
        assert len(rows["keys"]) == len(kept["correct_B"]) == verl_proof.QUESTIONS * verl_proof.ROLLOUTS
        dead = round(metrics["tagrpo/zero/group/share"] * verl_proof.QUESTIONS)
        assert metrics["tagrpo/replay/groups"] + metrics["tagrpo/replay/missing"] == dead
        strangers = {key.rsplit("_", 2)[0] for key in rows["keys"] if not key.startswith(f"{step}-")}
        assert len(strangers) == metrics["tagrpo/replay/groups"]
        for row, key in enumerate(rows["keys"]):
            weights = rows["rollout_is_weights"][row]
            if key.startswith(f"{step}-"):
                assert off(weights, torch.ones(())) < 1e-4
                continue
            earlier = verl_rows(place, "saved", int(key.partition("-")[0]))
            drawn = earlier["keys"].index(key)
            for name in ("responses", "prompts", "advantages", "ref_log_prob"):
                assert torch.equal(rows[name][row], earlier[name][drawn]), name
            ratio = torch.exp(rows["old_log_probs"][row] - earlier["old_log_probs"][drawn])
            assert off(weights, ratio.clamp(max=2.0)) < 1e-4
            weighed.append(weights)
            replayed += 1
    assert replayed >= verl_proof.ROLLOUTS
    assert off(torch.cat(weighed), torch.ones(())) > 1e-2


def test_a_resumed_run_has_the_groups_to_replay_that_were_drawn_before_it(
    saved_run: VerlRun, resumed_run: VerlRun
) -> None:
    assert saved_run.steps[-1]["tagrpo/replay/kept"] == resumed_run.steps[-1]["tagrpo/replay/kept"] > 0


@pytest.mark.parametrize("step", [1, 2])
def test_neighbors_that_repeat_the_question_on_two_ranks_are_matched_grpo_on_one(
    place: Path, saved_run: VerlRun, parallel_run: VerlRun, step: int
) -> None:
    repeated = step_of(place, "parallel", step)
    assert set(repeated["variant_B"].tolist()) == {0, 1, 2}
    repeated["variant_B"] = torch.zeros_like(repeated["variant_B"])
    assert_same_step(step_of(place, "saved", step), repeated, 1e-5)
    one, other = saved_run.steps[step - 1], parallel_run.steps[step - 1]
    assert one["actor/grad_norm"] == pytest.approx(other["actor/grad_norm"], rel=1e-4)


def test_words_that_only_neighbors_use_are_left_alone_but_for_anchor_own(
    place: Path, saved_run: VerlRun
) -> None:
    start, anchored, before, own = (
        embeddings(place / "checkpoints" / f"global_step_{step}" / "actor" / "huggingface")
        for step in (2, 4, 6, 8)
    )

    def asked_and_drawn(steps: tuple[int, int]) -> tuple[set[int], set[int]]:
        asked: set[int] = set()
        drawn: set[int] = set()
        for step in steps:
            rows = verl_rows(place, "saved", step)
            for row, response in enumerate(rows["responses"]):
                asked |= set(rows["extra_fields"][row]["tagrpo"]["prompt_ids"].tolist())
                drawn |= set(response.tolist())
        return asked, drawn

    first_mark = len(start) - verl_proof.MARKS
    asked, drawn = asked_and_drawn((3, 4))
    drawn |= asked_and_drawn((1, 2))[1]  # the optimizer's momentum still moves what was drawn before
    unseen = [token for token in asked if token >= first_mark and token not in drawn]
    assert len(unseen) >= 20
    assert torch.equal(anchored[unseen], start[unseen])
    assert not torch.equal(anchored[:first_mark], start[:first_mark])
    asked, drawn = asked_and_drawn((7, 8))
    unseen = [token for token in asked if token >= first_mark and token not in drawn]
    assert len(unseen) >= 20
    assert ((own[unseen] - before[unseen]).abs().max(-1).values > 0).all()
