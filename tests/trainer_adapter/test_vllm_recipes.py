"""Recipes on vLLM that draw in several rounds or weigh by the ratio of trainer and engine."""

from collections import Counter

import pytest
from command_line import run_here
from training_runs import metrics, recorded
from vllm_trainings import QUESTIONS, SUMS, gaps, save_place, train, train_words

from benchmarks.studies import sandbox_world
from trainer_adapter.record.rollout import RolloutRecord

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


def test_dead_groups_are_drawn_anew_and_neighbors_weighed(tmp_path):
    place = save_place(tmp_path)
    recipe = ("ta_grpo_corrected", "filter=dynamic")
    refilled = train(place, "refilled", *train_words("refilled", recipe, place / "tiny", 1, *SUMS))
    (logged,) = metrics(refilled).values()
    rollouts = list(recorded(refilled).values())
    right = Counter((each.question_id, bool(each.correct)) for each in rollouts)
    assert len({question for question, _ in right}) == QUESTIONS
    assert len(right) == 2 * QUESTIONS, "every group holds right and wrong answers"
    assert logged["tagrpo/filter/all_wrong"] >= 1
    assert max(gaps(rollouts, own=True)) < 1e-4
    assert logged["actor/grad_norm"] > 0


def test_questions_that_the_policy_fails_on_are_asked_by_their_neighbors(tmp_path, monkeypatch):
    """The policy that comes with tagrpo, trained by `ta_rescue` in its world."""
    world = sandbox_world.World(tmp_path, "A")
    monkeypatch.setattr(sandbox_world, "tagrpo", lambda log, *words: run_here.ok(*words))
    world.prepare()
    settings = ("--data", str(world.export), "verl.data.max_response_length=40")
    words = train_words("first", ("ta_rescue",), world.policy, 2, *settings, "verl.data.seed=1", "run.seed=1")
    rescued = train(tmp_path, "first", *words)
    questions: dict[tuple[int, str], list[RolloutRecord]] = {}
    for each in recorded(rescued).values():
        questions.setdefault((each.step, each.question_id), []).append(each)
    assert len(questions) == 2 * QUESTIONS
    dead = Counter[int]()
    for (step, _), group in questions.items():
        first, second = ([each for each in group if (each.session < 4) == early] for early in (True, False))
        assert [each.variant for each in first] == [0] * 4
        asked = Counter(each.variant for each in second)
        if any(each.correct for each in first):
            assert asked == {0: 4}
        else:
            assert sorted(asked) == [1, 2, 3]
            assert sorted(asked.values()) == [1, 1, 2]
            dead[step] += 1
    assert 0 < dead.total() < 2 * QUESTIONS
    for step, logged in metrics(rescued).items():
        assert logged["tagrpo/rescue/dead_share"] == pytest.approx(dead[step] / QUESTIONS)
        assert logged["actor/grad_norm"] > 0
    assert max(gaps(recorded(rescued).values(), own=True)) < 1e-4
