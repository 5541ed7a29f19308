"""`tagrpo train run` on verl's own agent-loop worker and vLLM server, in vLLM's build for CPUs.

Two runs serve all tests: one that loses its last checkpoint and goes on from the one before, and one whose
recipe weighs by the ratio of trainer and engine and draws until the groups of its step disagree.
`test_vllm_rescue.py` has the policy that comes with tagrpo.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tiny_model import save_tiny_model
from training_runs import metrics, recorded
from vllm_trainings import (
    ENVIRONMENT,
    NEIGHBORS,
    QUESTIONS,
    RESPONSES,
    SUMS,
    Rollouts,
    gaps,
    publish_sums,
    train,
    train_words,
)

from trainer_adapter.runs.composing import external_modules

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
DEAD = 3
"""Questions of the set whose every answer is wrong; the others fill one batch and no second."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    save_tiny_model(folder / "tiny", heads=2, spread=0.1)
    publish_sums(folder, DEAD)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    return train(place, "whole", *train_words("whole", ("ta_grpo",), place / "tiny", 2, *SUMS))


@pytest.fixture(scope="module")
def drawn(whole: Path) -> Rollouts:
    return recorded(whole)


@pytest.fixture(scope="module")
def resumed(place: Path, whole: Path, drawn: Rollouts) -> Rollouts:
    """Lose the checkpoint of the last step, and have it trained again."""
    shutil.rmtree(whole / "checkpoints" / "global_step_2")
    return recorded(train(place, "whole", "resume", "whole", "--json"))


@pytest.fixture(scope="module")
def refilled(place: Path) -> Path:
    recipe = ("ta_grpo_corrected", "filter=dynamic")
    return train(place, "refilled", *train_words("refilled", recipe, place / "tiny", 1, *SUMS))


def test_every_step_draws_each_group_and_changes_the_weights(whole: Path, drawn: Rollouts) -> None:
    logged = metrics(whole)
    for step in (1, 2):
        of_step = [each for each in drawn.values() if each.step == step]
        assert Counter(each.variant for each in of_step) == dict.fromkeys(
            range(1 + NEIGHBORS), QUESTIONS * RESPONSES
        )
        assert all(each.weights_version == step - 1 for each in of_step)
        assert logged[step]["actor/grad_norm"] > 0
        assert len({each.response for each in of_step}) > 0.9 * len(of_step)


def test_the_engine_draws_with_the_weights_that_are_trained(drawn: Rollouts) -> None:
    for step in (1, 2):
        of_step = [each for each in drawn.values() if each.step == step]
        own, foreign = gaps(of_step, own=True), gaps(of_step, own=False)
        assert (len(own), len(foreign)) == (QUESTIONS * RESPONSES, NEIGHBORS * QUESTIONS * RESPONSES)
        assert max(own) < 1e-4
        assert sorted(foreign)[len(foreign) // 2] > 0.1


def test_a_resumed_run_draws_from_its_checkpoint_what_it_had_drawn(
    drawn: Rollouts, resumed: Rollouts
) -> None:
    assert drawn.keys() == resumed.keys()
    for place_in_run, rollout in drawn.items():
        again = resumed[place_in_run]
        assert (again.response, again.reward) == (rollout.response, rollout.reward)
        assert again.weights_version == rollout.weights_version
        for name in ("sampling_log_prob", "old_log_prob", "ref_log_prob", "advantage"):
            assert getattr(again, name) == pytest.approx(getattr(rollout, name), abs=1e-4)


def test_dead_groups_are_drawn_anew_and_neighbors_weighed(refilled: Path) -> None:
    (logged,) = metrics(refilled).values()
    rollouts = list(recorded(refilled).values())
    right = Counter((each.question_id, bool(each.correct)) for each in rollouts)
    assert len({question for question, _ in right}) == QUESTIONS
    assert len(right) == 2 * QUESTIONS, "every group holds right and wrong answers"
    assert logged["tagrpo/filter/all_wrong"] >= 1
    assert max(gaps(rollouts, own=True)) < 1e-4
    assert logged["actor/grad_norm"] > 0


def test_two_trainings_of_one_machine_keep_their_weights_apart(tmp_path: Path) -> None:
    # each has a Ray cluster of its own, and the first job of both is 01000000
    program = Path(__file__).parents[1] / "support" / "weight_ends.py"
    ends = []
    for number, other in ("12", "21"):
        ours = {
            "VERL_FILE_LOGGER_PATH": str(tmp_path / number),
            "VERL_USE_EXTERNAL_MODULES": external_modules(cpu=True),
        }
        ends.append(
            subprocess.Popen(
                [sys.executable, program, tmp_path, number, other],
                env={**os.environ, **ENVIRONMENT, **ours},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        received = [end.communicate(timeout=300)[0].split() for end in ends]
    finally:
        for end in ends:
            end.kill()
    assert received == [["1.0"] * 8, ["2.0"] * 8]
