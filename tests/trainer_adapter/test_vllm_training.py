"""`tagrpo train run` on vLLM: each step draws with its weights, a run resumes, trainings keep apart."""

import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from training_runs import ROOT, metrics, recorded
from vllm_trainings import (
    ENVIRONMENT,
    NEIGHBORS,
    QUESTIONS,
    RESPONSES,
    SUMS,
    gaps,
    save_place,
    train,
    train_words,
)

from trainer_adapter.runs.composing import external_modules

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return save_place(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def whole(place):
    return train(place, "whole", *train_words("whole", ("ta_grpo",), place / "tiny", 2, *SUMS))


@pytest.fixture(scope="module")
def drawn(whole):
    return recorded(whole)


def test_every_step_draws_each_group_with_the_weights_that_are_trained(whole, drawn):
    logged = metrics(whole)
    for step in (1, 2):
        of_step = [each for each in drawn.values() if each.step == step]
        variants = range(1 + NEIGHBORS)
        assert Counter(each.variant for each in of_step) == dict.fromkeys(variants, QUESTIONS * RESPONSES)
        assert all(each.weights_version == step - 1 for each in of_step)
        assert logged[step]["actor/grad_norm"] > 0
        assert len({each.response for each in of_step}) > 0.9 * len(of_step)
        own, foreign = gaps(of_step, own=True), gaps(of_step, own=False)
        assert (len(own), len(foreign)) == (QUESTIONS * RESPONSES, NEIGHBORS * QUESTIONS * RESPONSES)
        assert max(own) < 1e-4
        assert sorted(foreign)[len(foreign) // 2] > 0.1


def test_a_resumed_run_draws_from_its_checkpoint_what_it_had_drawn(place, whole, drawn):
    shutil.rmtree(whole / "checkpoints" / "global_step_2")
    resumed = recorded(train(place, "whole", "resume", "whole", "--json"))
    assert drawn.keys() == resumed.keys()
    for place_in_run, rollout in drawn.items():
        again = resumed[place_in_run]
        assert (again.response, again.reward) == (rollout.response, rollout.reward)
        assert again.weights_version == rollout.weights_version
        for name in ("sampling_log_prob", "old_log_prob", "ref_log_prob", "advantage"):
            assert getattr(again, name) == pytest.approx(getattr(rollout, name), abs=1e-4)


def test_two_trainings_of_one_machine_keep_their_weights_apart(tmp_path):
    # each has a Ray cluster of its own, and the first job of both is 01000000
    program = ROOT / "tests" / "support" / "weight_ends.py"
    ends = []
    for number, other in ("12", "21"):
        ours = {
            "VERL_FILE_LOGGER_PATH": str(tmp_path / number),
            "VERL_USE_EXTERNAL_MODULES": external_modules(cpu=True),
        }
        call, env = [sys.executable, program, tmp_path, number, other], {**os.environ, **ENVIRONMENT, **ours}
        ends.append(subprocess.Popen(call, env=env, stdout=subprocess.PIPE, text=True))
    try:
        received = [end.communicate(timeout=300)[0].split() for end in ends]
    finally:
        for end in ends:
            end.kill()
    assert received == [["1.0"] * 8, ["2.0"] * 8]
