"""Metrics of a step: by hand, against plain versions, complete in the documentation; alarms."""

import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainer_adapter.record import RolloutWriter
from trainer_adapter.record import metrics as module
from trainer_adapter.record.metrics import StepBatch, step_metrics
from trainer_adapter.runs.run_folder import RunFolder
from trainer_adapter.verl.alarms import CORRECT, ENTROPY, GAP, KL, MISSING, Alarms, alarms_of

ROOT = Path(__file__).resolve().parents[2]


def make_batch(
    correct: list[list[list[int]]], *, tokens: int = 3, seed: int = 0, **changes: Any
) -> StepBatch:
    """Return a batch of questions, each a list of prompts, each a list of 0 and 1; joint groups.

    Responses have 1 to `tokens` tokens; beyond their end the log-probs are infinite, as padding may be.
    """
    places = [
        (question, variant, value)
        for question, prompts in enumerate(correct)
        for variant, values in enumerate(prompts)
        for value in values
    ]
    rows = len(places)
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([1 + row % tokens for row in range(rows)])
    mask = (torch.arange(tokens) < lengths[:, None]).float()
    draw = [-torch.rand(rows, tokens, generator=chance) for _ in range(4)]
    old, sampling, ref, entropies = (values.masked_fill(mask == 0, -torch.inf) for values in draw)
    right = torch.tensor([bool(value) for *_, value in places])
    questions = torch.tensor([question for question, *_ in places])
    advantages = right.double() - 0.25
    fields: dict[str, Any] = {
        "step": 1,
        "question_B": questions,
        "variant_B": torch.tensor([variant for _, variant, _ in places]),
        "group_B": questions,
        "rewards_B": right.double(),
        "correct_B": right,
        "unknown_B": torch.zeros(rows, dtype=torch.bool),
        "truncated_B": lengths == tokens,
        "tokens_B": lengths,
        "prompt_tokens_B": lengths + 5,
        "mask_BT": mask,
        "old_log_probs_BT": old,
        "sampling_log_probs_BT": sampling,
        "ref_log_probs_BT": ref,
        "entropies_BT": entropies.abs(),
        "advantages_B": advantages,
        "weights_BT": mask * 1.5,
        "correction_BT": torch.rand(rows, tokens, generator=chance) + 0.5,
        "engine_ratio_BT": torch.rand(rows, tokens, generator=chance) - 0.5,
        "engine_weights_BT": torch.rand(rows, tokens, generator=chance) + 0.5,
        "compared_B": torch.arange(rows) % 2 == 0,
    }
    return StepBatch(**{**fields, **changes})


#         originals, neighbor 1,   neighbor 2
MIXED = [
    [[1, 1], [1, 1], [1, 1]],
    [[0, 0], [0, 1], [0, 0]],
    [[0, 1], [1, 1]],  # a question with one neighbor
    [[0, 0], [0, 0], [0, 0]],
]


def test_zero_gradient_shares_by_group():
    found = step_metrics(make_batch(MIXED))
    expected = {
        "original": (1 / 4, 2 / 4),
        "neighbor": (3 / 7, 3 / 7),
        "neighbors": (2 / 4, 1 / 4),
        "joint": (1 / 4, 1 / 4),
        "group": (1 / 4, 1 / 4),
    }
    for group, (right, wrong) in expected.items():
        assert found[f"tagrpo/zero/{group}/all_right"] == pytest.approx(right)
        assert found[f"tagrpo/zero/{group}/all_wrong"] == pytest.approx(wrong)
        assert found[f"tagrpo/zero/{group}/share"] == pytest.approx(right + wrong)


def test_rewards_sizes_and_advantages():
    batch = make_batch(MIXED)
    batch = replace(batch, rewards_B=batch.rewards_B - 0.5, unknown_B=~batch.correct_B)
    found = step_metrics(batch)
    right = [value for question in MIXED for prompt in question for value in prompt]
    assert found["tagrpo/correct/mean"] == pytest.approx(np.mean(right))
    assert found["tagrpo/reward/mean"] == pytest.approx(np.mean(right) - 0.5)
    assert found["tagrpo/reward/original"] == pytest.approx(3 / 8 - 0.5)
    assert found["tagrpo/correct/variant_1"] == pytest.approx(5 / 8)
    assert found["tagrpo/correct/variant_2"] == pytest.approx(2 / 6)
    assert found["tagrpo/correct/neighbors"] == pytest.approx(7 / 14)
    names = ("responses", "questions", "prompts", "groups")
    assert [found[f"tagrpo/batch/{name}"] for name in names] == [22, 4, 11, 4]
    assert found["tagrpo/advantage/positive_share"] == pytest.approx(10 / 22)
    assert found["tagrpo/advantage/positive_mean"] == pytest.approx(0.75)
    assert found["tagrpo/advantage/negative_mean"] == pytest.approx(-0.25)
    assert found["tagrpo/advantage/zero_share"] == 0
    assert found["tagrpo/grader/unknown"] == 12
    assert found["tagrpo/tokens/total"] == batch.tokens_B.sum()
    assert found["tagrpo/tokens/truncated_share"] == pytest.approx(7 / 22)
    right_mean = batch.tokens_B[batch.correct_B].double().mean()
    assert found["tagrpo/tokens/right_mean"] == pytest.approx(right_mean)


def test_a_rescue_is_counted_by_question():
    # the first prompt of a question is the first stage; the last question was not asked of neighbors
    batch = make_batch([[[0, 0], [0, 1]], [[0, 0], [0, 0]], [[0, 1, 1, 1]], [[0, 0, 0, 0]]])
    first = torch.tensor([True, True, False, False] * 4)
    metrics = step_metrics(replace(batch, first_stage_B=first))
    assert metrics["tagrpo/rescue/dead_share"] == pytest.approx(3 / 4)
    assert metrics["tagrpo/rescue/asked_share"] == pytest.approx(2 / 4)
    assert metrics["tagrpo/rescue/revived_share"] == pytest.approx(1 / 2)
    assert metrics["tagrpo/rescue/responses_share"] == pytest.approx(4 / 16)
    assert not [name for name in step_metrics(batch) if "rescue" in name]


def test_token_means_leave_padding_out():
    batch = make_batch(MIXED)
    found = step_metrics(batch)
    mask = batch.mask_BT > 0
    assert found["tagrpo/entropy/mean"] == pytest.approx(batch.entropies_BT[mask].mean().item())
    neighbors = mask & (batch.variant_B > 0)[:, None]
    assert found["tagrpo/entropy/neighbors"] == pytest.approx(batch.entropies_BT[neighbors].mean().item())
    difference = (batch.old_log_probs_BT - batch.ref_log_probs_BT)[mask]
    assert found["tagrpo/kl/k1/mean"] == pytest.approx(difference.mean().item(), abs=1e-6)
    k3 = torch.exp(-difference) + difference - 1
    assert found["tagrpo/kl/k3/mean"] == pytest.approx(k3.mean().item(), rel=1e-5)
    assert found["tagrpo/weights/least"] == found["tagrpo/weights/most"] == 1.5
    assert found["tagrpo/weights/std"] == pytest.approx(0)


def test_the_distance_of_anchor_and_sampling():
    batch = make_batch(MIXED)
    found = step_metrics(batch)
    mask = batch.mask_BT > 0
    ratio = (batch.old_log_probs_BT - batch.sampling_log_probs_BT).double().where(mask, 0.0)
    for name, chosen in (("mean", batch.variant_B >= 0), ("variant_2", batch.variant_B == 2)):
        sums = ratio[chosen].sum(-1)
        assert found[f"tagrpo/anchor/log_ratio/{name}"] == pytest.approx(sums.mean().item())
        weights = sums.exp()
        share = weights.sum() ** 2 / weights.square().sum() / len(weights)
        assert found[f"tagrpo/anchor/ess/{name}"] == pytest.approx(share.item())
        weights = ratio[chosen][mask[chosen]].exp()
        share = weights.sum() ** 2 / weights.square().sum() / len(weights)
        assert found[f"tagrpo/anchor/ess_token/{name}"] == pytest.approx(share.item())
        mean = ratio[chosen][mask[chosen]].mean().item()
        assert found[f"tagrpo/anchor/log_ratio_token/{name}"] == pytest.approx(mean)


def test_covariance_tops_are_those_of_sorted_values():
    batch = make_batch([[[0, 1] * 200, [1, 1, 0] * 100]], tokens=40)
    found = step_metrics(batch)
    mask = batch.mask_BT > 0
    log_probs, advantages = batch.old_log_probs_BT[mask], batch.advantages_B[:, None].expand_as(mask)[mask]
    valid = (log_probs - log_probs.mean()) * (advantages - advantages.mean())
    assert found["tagrpo/covariance/mean"] == pytest.approx(valid.double().mean().item())
    for name, values in (("positive", valid[valid > 0]), ("negative", -valid[valid < 0])):
        ordered = values.sort(descending=True).values.double()
        sign = 1 if name == "positive" else -1
        assert found[f"tagrpo/covariance/{name}/share"] == pytest.approx(len(values) / len(valid))
        for label, share in (("0.01", 1e-4), ("1", 0.01), ("20", 0.2), ("40", 0.4), ("100", 1.0)):
            count = max(1, round(share * len(values)))
            assert found[f"tagrpo/covariance/{name}/top_{label}"] == pytest.approx(
                sign * ordered[:count].mean().item(), rel=1e-5
            )
            at = sign * ordered[count - 1].item()
            assert found[f"tagrpo/covariance/{name}/at_{label}"] == pytest.approx(at, rel=1e-6)


OPTIONAL = ("sampling_log_probs_BT", "ref_log_probs_BT", "entropies_BT", "weights_BT", "correction_BT")


@pytest.mark.parametrize(
    "batch",
    [
        make_batch([[[1]]], tokens=1),
        make_batch([[[0, 0, 0, 0]]], **dict.fromkeys(OPTIONAL)),
        make_batch(MIXED, mask_BT=torch.zeros(22, 3), tokens_B=torch.zeros(22, dtype=torch.long)),
        make_batch([[[], [1, 0]]]),
        make_batch(MIXED, advantages_B=torch.zeros(22, dtype=torch.float64)),
        make_batch(MIXED, correction_BT=torch.zeros(22, 3)),
    ],
    ids=["one token", "nothing optional", "all padding", "no originals", "no advantage", "no correction"],
)
def test_what_a_batch_cannot_say_is_left_out(batch):
    found = step_metrics(batch)
    assert all(math.isfinite(value) for value in found.values())
    assert found["tagrpo/batch/responses"] == len(batch)
    if not (batch.variant_B > 0).any():
        assert not any("neighbor" in name or "original" in name for name in found if "/zero/" not in name)


def test_the_gap_between_engine_and_trainer_is_that_of_compared_tokens():
    batch = make_batch(MIXED)
    found = step_metrics(batch)
    gaps = batch.engine_ratio_BT[(batch.mask_BT > 0) & batch.compared_B[:, None]].double()
    assert found["tagrpo/engine/gap"] == pytest.approx(gaps.abs().mean().item())
    assert found["tagrpo/engine/k3"] == pytest.approx((gaps.exp() - gaps - 1).mean().item())
    weights = batch.engine_weights_BT[batch.mask_BT > 0].double()
    assert found["tagrpo/engine/weight"] == pytest.approx(weights.mean().item())
    share = weights.sum() ** 2 / (len(weights) * weights.square().sum())
    assert found["tagrpo/engine/ess"] == pytest.approx(share.item())


def test_every_metric_is_documented_and_every_documented_one_exists():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    documented = {
        "".join(name)
        for row in re.findall(r"^\| `(tagrpo/[^`]+)`", page, re.M)
        for name in product(*(part.split(",") for part in re.split(r"[{}]", row)))
    }
    batch = make_batch(MIXED)
    staged = replace(batch, first_stage_B=batch.variant_B == 0, response_weights_B=torch.ones(22).double())
    of_steps = {re.sub(r"variant_\d+$", "variant_K", name) for name in step_metrics(staged)}
    plugin = (ROOT / "trainer_adapter" / "verl" / "plugin").rglob("*.py")
    logged = {name for path in plugin for name in re.findall(r'"(tagrpo/[^"]+)"', path.read_text("utf-8"))}
    assert documented == of_steps | logged
    assert module.PREFIX == "tagrpo/"


@pytest.mark.parametrize(
    ("metric", "first", "fine", "wrong"),
    [
        (ENTROPY, 0.5, 0.051, 0.049),
        (KL, 0.0, 0.49, 0.51),
        (CORRECT, 0.2, 0.001, 0.0),
        (GAP, 1e-4, 9e-3, 0.02),
        (MISSING, 0, 0, 3),
    ],
)
def test_an_alarm_names_step_metric_and_value(metric, first, fine, wrong):
    alarms = Alarms()
    assert alarms.look(1, {metric: first}) == []
    assert alarms.look(2, {metric: fine, "actor/lr": 0.0}) == []
    [alarm] = alarms.look(3, {metric: wrong})
    assert (alarm.step, alarm.metric, alarm.value) == (3, metric, wrong)
    assert str(alarm).startswith(f"step 3: {metric} is {wrong:.3g}: ")


def test_what_goes_on_is_said_once_and_again_when_it_comes_back():
    correct = [0.0, 0.0, 0.1, 0.0, None]
    raised = alarms_of([(step, {CORRECT: value}) for step, value in enumerate(correct, start=1)])
    assert [alarm.step for alarm in raised] == [1, 4]


def test_a_runs_alarms_are_those_of_the_last_metrics_of_each_step(tmp_path):
    folder = RunFolder(tmp_path)
    with RolloutWriter(folder.rollouts, "run") as writer:
        for step, entropy in ((1, 2.0), (2, 0.1), (2, 1.5), (3, 0.1)):
            writer.write_metrics(step, {ENTROPY: entropy})
    [alarm] = folder.alarms()
    assert alarm.startswith("step 3: tagrpo/entropy/mean is 0.1: less than 10% of the first step's")
