"""The study of recipes: what it runs and keeps, what its tables say; its plain loop beside the project."""

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.studies import sandbox_plain as plain
from benchmarks.studies import sandbox_study as study
from benchmarks.studies import sandbox_study_table as tables
from benchmarks.studies.sandbox_plain import Policy, Question, Response
from benchmarks.studies.sandbox_study import Cell, Point
from benchmarks.studies.sandbox_study_plan import ALL, TUNING, Stage
from benchmarks.studies.sandbox_world import World
from sandbox.policy import write_shipped_policy
from trainer_adapter.methods.advantages.grpo import grpo_advantages
from trainer_adapter.methods.advantages.max_rl import max_rl_advantages
from trainer_adapter.methods.step_advantages import anchor_weights

ROOT = Path(__file__).parents[2]


def row(point: Point, share: float, **more: Any) -> dict[str, Any]:
    right = f"{round(64 * share)} {round(64 * share)} 0"
    scores = {f"pass@{k}": share for k in study.KS}
    return {**vars(point), "drawn": 15360, "dead": 0.5, "minutes": 4.0, **more, **scores, "correct": right}


def test_the_best_rate_of_the_tuning_seeds_is_taken_and_a_missing_run_is_named():
    shares = {1e-4: (0.6, 0.9), 2e-4: (0.8, 0.8), 3e-4: (0.1, 0.95)}
    rows = {
        point: row(point, share)
        for rate, both in shares.items()
        for seed, share in zip(TUNING, both, strict=True)
        for point in [Point("A", "grpo", rate, seed, 120)]
    }
    assert study.best_rate("A", "grpo", rows) == 2e-4
    assert study.best_rate("A", "grpo_kl", rows) == 2e-4
    assert study.best_rate("A", "max_rl", rows) == 2e-4
    with pytest.raises(ValueError, match="no rate for ta_rescue in world A"):
        study.best_rate("A", "rescue_own", rows)
    confirm = list(study.cells(Stage(("grpo",), None, (1, 2), (60, 120)), ["A"], rows))
    names = [cell.name for cell in confirm]
    assert names == ["A-base-0-s0-0", "A-grpo-0.0002-s1-120", "A-grpo-0.0002-s2-120"]


KILLED = """
import os

def train(place, world, cell):
    if cell.seed == 1:
        os.kill(os.getpid(), 9)
    return []
"""


@pytest.mark.slow
def test_a_killed_training_is_named_and_ends_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(World, "prepare", lambda world: None)
    monkeypatch.setitem(study.STAGES, "killed", Stage(("grpo",), (1e-4,), (1, 2), (60,)))
    given = argparse.Namespace(stage="killed", worlds="A", folder=tmp_path, jobs=1, done=None, rates=None)
    (tmp_path / "killed_training.py").write_text(KILLED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (killed,) = study._run(given, tmp_path, import_module("killed_training").train)
    assert killed.startswith("A-grpo-0.0001-s1-60: BrokenProcessPool: ")
    assert (tmp_path / "cells" / "A-grpo-0.0001-s2-60" / "result.json").exists()


def test_an_interval_holds_seeds_and_questions():
    chance = np.random.default_rng(0)
    seeds, questions, covered, times = 5, 40, 0, 400
    for _ in range(times):
        hardness = chance.normal(0, 0.1, questions)
        gain = 0.05 + chance.normal(0, 0.1, questions)

        def draw(level: Any) -> Any:
            return level + chance.normal(0, 0.04, (seeds, 1)) + chance.normal(0, 0.02, (seeds, questions))

        _, low, high = tables.difference(draw(hardness + gain), draw(hardness))
        covered += low <= 0.05 <= high
    assert 0.93 <= covered / times <= 0.99
    mean, low, high = tables.difference(np.array([[0.5, 0.7]]), np.array([[0.4, 0.4], [0.2, 0.6]]))
    assert mean == pytest.approx(0.2)
    assert np.isnan([low, high]).all()


def test_the_page_has_the_table_of_the_csv():
    page = (ROOT / "docs" / "studies" / "recipes.md").read_text(encoding="utf-8")
    rows, plain = study.read_summary(tables.DATA), study.read_summary(tables.PLAIN)
    assert rows
    assert "\n".join(tables.table(rows)) in page
    for each in (*rows.values(), *plain.values()):
        for k in study.KS:
            share = float(tables.values([each], k).mean())
            assert share == pytest.approx(float(each[f"pass@{k}"]), rel=1e-4)


QUESTIONS = [Question([[5, 6], [7], [8], [9]], "1"), Question([[10], [11], [12], [13]], "2")]


class Scripted(Policy):
    """Responds with the prompt itself and is right where that is in a list; likes a prompt's own tokens."""

    def __init__(self, right: list[list[int]]) -> None:
        super().__init__(model=None, tokenizer=None)
        self._right = right

    def draw(self, prompts: list[list[int]]) -> list[list[int]]:
        return [list(prompt) for prompt in prompts]

    def right(self, response: list[int], answer: str) -> float:
        return float(response in self._right)

    def log_probs(
        self, prompts: list[list[int]], responses: list[list[int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        own = torch.tensor([[-0.5 if p == r else -2.0] for p, r in zip(prompts, responses, strict=True)])
        return own, torch.ones_like(own)


def test_neighbors_are_asked_only_where_half_of_the_responses_are_wrong():
    policy = Scripted(right=[[5, 6], [12]])
    groups = plain.draw_groups(policy, QUESTIONS, ALL["ta_rescue"].plain, np.random.default_rng(0))
    assert [response.prompt for response in groups[0]] == [0] * 8
    assert [response.prompt for response in groups[1][:4]] == [0] * 4
    assert {1, 2, 3} == {response.prompt for response in groups[1][4:]}
    assert [len(group) for group in groups] == [8, 8]
    for group, question in zip(groups, QUESTIONS, strict=True):
        assert all(response.tokens == question.prompts[response.prompt] for response in group)
    split = plain.draw_groups(policy, QUESTIONS, ALL["ta_grpo_2"].plain, np.random.default_rng(0))
    assert [response.prompt for response in split[0]] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_advantages_and_weights_are_those_of_the_project():
    rewards = np.array([[1.0, 0, 0, 1, 0, 0, 0, 0], [0.0] * 8, [1.0] * 8, [0.0, 0, 0, 0, 0, 1, 0, 1]])
    groups = np.repeat(np.arange(4), 8).tolist()
    for recipe, formula in (("grpo", grpo_advantages), ("max_rl", max_rl_advantages)):
        ours = plain.advantages(rewards, ALL[recipe].plain).reshape(-1)
        np.testing.assert_allclose(ours, formula(rewards.reshape(-1), groups).numpy(), atol=1e-5)
    drawn = [Response([5, 6], 0, 0.0), Response([7], 1, 0.0), Response([8], 2, 1.0)]
    rows = [(QUESTIONS[0], response, gain) for response, gain in zip(drawn, (-0.5, -0.4, 0.9), strict=True)]
    gains, foreign = torch.tensor([-0.5, -0.4, 0.9]), torch.tensor([False, True, True])
    for name, anchor in (("ta_rescue", "tapered"), ("rescue_dropped", "dropped")):
        log_ratio = torch.tensor([0.0, -1.5, -1.5])
        weights = anchor_weights(anchor, gains, foreign, log_ratio)  # type: ignore[arg-type]
        assert weights is not None
        weighed = plain.weigh(Scripted([]), rows, ALL[name].plain)
        assert weighed == pytest.approx((weights * gains).tolist(), abs=1e-6)
    assert plain.weigh(Scripted([]), rows, ALL["rescue_untapered"].plain) == [-0.5, -0.4, 0.9]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world of 17 questions to train on and two held-out ones, with the shipped policy."""
    world = World(tmp_path_factory.mktemp("study"), "A")
    write_shipped_policy(world.policy)
    world.export.mkdir()
    world.heldout.parent.mkdir()

    def asked(number: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"Ann buys {number} pens at 3 dollars each."}]

    numbers = range(2, 19)
    neighbors = [[asked(number + 20 * n) for n in (1, 2, 3)] for number in numbers]
    truths = [{"ground_truth": str(3 * number)} for number in numbers]
    columns = {"prompt": [*map(asked, numbers)], "neighbors": neighbors, "reward_model": truths}
    pq.write_table(pa.table(columns), world.export / "train.parquet")
    lines = [json.dumps({"question": asked(n)[0]["content"], "answer": str(3 * n)}) for n in (30, 31)]
    world.heldout.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return world


@pytest.mark.slow
def test_a_training_is_kept_by_its_points_and_is_the_same_again(world, tmp_path):
    cell = Cell("A", "ta_rescue", 1e-2, 1, (1, 2))
    study.run_cell(tmp_path, world, cell, study.train_plainly)
    rows = study.read_results(tmp_path)
    assert list(rows) == cell.rows()
    again = plain.train(world.folder, "ta_rescue", 1e-2, 1, [1, 2])
    for row, second in zip(rows.values(), again, strict=True):
        assert row["correct"] == " ".join(map(str, second["correct"]))
        assert (row["drawn"], row["dead"]) == (128 * row["steps"], second["dead"])
    (base,) = plain.train(world.folder, "base", 0.0, 1, [0])
    assert len(base["correct"]) == 2
