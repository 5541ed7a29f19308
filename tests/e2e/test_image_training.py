"""Proofs on a real run of verl with a model that sees: what is trained on is the question with its images."""

from typing import Any

import pytest
import torch
import vision_proof
from rollout_shards import read_rollouts
from verl_proof import QUESTIONS, ROLLOUTS
from verl_proof_reading import off, step_of, verl_rows
from vision_proof import NAMES, Seeing


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return vision_proof.save_vision_place(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def trained(place):
    return vision_proof.run_with_images(place, "run")


@pytest.fixture(scope="module")
def seeing(place):
    return Seeing(place)


def abouts(rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [extra["tagrpo"] for extra in rows["extra_fields"]]


def test_old_and_reference_log_probs_are_those_on_the_question_with_its_images(place, trained, seeing):
    rows = verl_rows(place, "run", 1)
    for row, about in enumerate(abouts(rows)):
        response = rows["responses"][row]
        right = seeing.log_probs(about["question_id"], response)
        other = seeing.log_probs(about["question_id"], response, image_of_another=True)
        for name in ("old_log_probs", "ref_log_prob"):
            assert off(rows[name][row], right) < 1e-4
        assert off(right, other) > 1e-2
    assert len(rows["responses"]) == QUESTIONS * ROLLOUTS


def test_new_log_probs_are_those_with_the_images_too(place, trained, seeing):
    seen = torch.load(place / "run" / "loss_1_0_0.pt", weights_only=False)
    rows = verl_rows(place, "run", 1)
    of_response = {tuple(response.tolist()): row for row, response in enumerate(rows["responses"])}
    for row, response in enumerate(seen["responses"]):
        about = abouts(rows)[of_response[tuple(response.tolist())]]
        expected = seeing.log_probs(about["question_id"], response)
        assert off(seen["log_probs"][row, : len(response)], expected) < 1e-4


@pytest.mark.parametrize("step", [1, 2])
def test_ratios_on_the_question_are_1_for_it_and_for_a_neighbor_that_says_the_same(place, trained, step):
    kept = step_of(place, "run", step)
    apart = (kept["old_log_probs_BT"] - kept["sampling_log_probs_BT"]) * kept["mask_BT"]
    assert set(kept["variant_B"].tolist()) == {0, 1, 2}
    for variant in (0, 1):
        assert float(apart[kept["variant_B"] == variant].abs().max()) < 1e-4
    assert float(apart[kept["variant_B"] == 2].abs().max()) > 1e-2


def test_replayed_groups_have_their_questions_images(place, trained, seeing):
    replayed = 0
    for step, name in enumerate(NAMES, 1):
        rows = verl_rows(place, "run", step)
        for row, key in enumerate(rows["keys"]):
            if name == "grpo_replay" and not key.startswith(f"{step}-"):
                about = abouts(rows)[row]
                pixels = seeing.given(about["question_id"])["pixel_values"]
                assert torch.equal(rows["multi_modal_inputs"][row]["pixel_values"], pixels)
                replayed += 1
    assert replayed >= ROLLOUTS


def test_the_record_names_the_question_and_says_where_its_image_stands(place, trained):
    rollouts = list(read_rollouts(place / "run" / "record"))
    assert len(rollouts) == len(NAMES) * QUESTIONS * ROLLOUTS
    asked = {(each.question_id, each.neighbor_id): each.prompt for each in rollouts}
    assert {question for question, _ in asked} <= vision_proof.question_ids(place)
    for (_, neighbor), prompt in asked.items():
        assert prompt.count("<image>") == 1
        assert "Look:<image>" in prompt if str(neighbor).endswith("_1") else "<image>What is" in prompt
