"""`tagrpo train run` on verl's own agent-loop worker and vLLM server, in vLLM's build for CPUs.

Three runs serve all tests: one that loses its last checkpoint and goes on from the one before, and one whose
recipe weighs by the ratio of trainer and engine and draws until the groups of its step disagree.
A third one trains the policy that comes with tagrpo in its world.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from command_line import run_here
from runs import Proposed, add_run
from tiny_model import save_tiny_model
from training_runs import ROOT, metrics, recorded, start
from vllm_runs import METADATA, SETTINGS

from benchmarks.studies import sandbox_world
from rephraser.sets import publish
from service.database import Database
from trainer_adapter.record.rollout import RolloutRecord
from trainer_adapter.runs.composing import external_modules

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
QUESTIONS, NEIGHBORS, RESPONSES = 4, 2, 4
"""Of a step; responses to each of a question's prompts."""

LIMIT_S = 1200
Rollouts = Mapping[tuple[int, str, int], RolloutRecord]
"""By step, question and session."""

ENVIRONMENT = {
    **SETTINGS,
    "PYTHONPATH": os.pathsep.join((METADATA, str(ROOT))),
    "VERL_USE_EXTERNAL_MODULES": "vllm_cpu_weights",
}
REWARD = ROOT / "tests" / "support" / "parity_reward.py"
ROLLOUT = {
    "name": "vllm",
    "agent.agent_loop_manager_class": "null",
    "dtype": "float32",
    "enforce_eager": "true",
    "free_cache_engine": "false",
    "max_model_len": 256,
    "enable_chunked_prefill": "false",
    "max_num_batched_tokens": 4096,
    "max_num_seqs": 64,
    "checkpoint_engine.update_weights_bucket_megabytes": 16,
}


def publish_sums(place: Path, dead: int) -> None:
    """Publish `sums@1`: sums with two neighbors each; the first `dead` are never answered rightly."""
    asked = []
    for number in range(2 * QUESTIONS):
        a, b = number, 1 - number if number < dead else 7
        neighbors = [Proposed(f"Add {a} to {b}."), Proposed(f"Sum up {a} and {b}, please.")]
        asked.append((f"What is {a}+{b}?", str(a + b), neighbors))
    with Database.open(place / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "sums", run="source")


SUMS = (
    *(
        "--set",
        "sums",
        f"neighbors={NEIGHBORS}",
        f"responses={RESPONSES}",
        "verl.data.max_response_length=16",
    ),
    *("verl.actor_rollout_ref.actor.optim.lr=1e-2", f"verl.reward.custom_reward_function.path={REWARD}"),
)
"""Data, groups and reward of trainings on the published sums."""


def train_words(name: str, recipe: Sequence[str], model: Path, steps: int, *more: str) -> tuple[str, ...]:
    """Return the command that trains `steps` steps and saves each."""
    rollout = [f"verl.actor_rollout_ref.rollout.{key}={value}" for key, value in ROLLOUT.items()]
    return (
        *("train", "run", recipe[0], "--model", str(model), "--cpu", "--name", name),
        *("--hide-log", "--json", *recipe[1:], "verl.data.max_prompt_length=192"),
        *(
            f"verl.data.train_batch_size={QUESTIONS}",
            f"verl.actor_rollout_ref.actor.ppo_mini_batch_size={QUESTIONS}",
        ),
        *rollout,
        "verl.+actor_rollout_ref.rollout.enable_sleep_mode=false",
        *(
            f"verl.trainer.total_training_steps={steps}",
            "verl.trainer.save_freq=1",
            "verl.trainer.test_freq=-1",
        ),
        *("run.poll_interval_s=0.1", *more),
    )


def train(place: Path, name: str, *words: str) -> Path:
    """Run the command to a good end; return the folder of its run."""
    folder = place / "runs" / name
    process = start(place, *words, **ENVIRONMENT)
    _, errors = process.communicate(timeout=LIMIT_S)
    logs = sorted((folder / "logs").glob("*.log"))
    log = logs[-1].read_text(errors="replace")[-6000:] if logs else ""
    assert process.returncode == 0, f"{errors[-3000:]}\n{log}"
    return folder


def gaps(rollouts: Iterable[RolloutRecord], *, own: bool) -> list[float]:
    """Return |old - sampling| log-prob of each response to questions themselves, or to neighbors."""
    pairs = [(each.old_log_prob, each.sampling_log_prob) for each in rollouts if (each.variant == 0) == own]
    return [abs(old - sampling) for old, sampling in pairs if old is not None and sampling is not None]


DEAD = 3
"""Questions of the set whose every answer is wrong; the others fill one batch and no second."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    save_tiny_model(folder / "tiny", heads=2, spread=0.1)
    publish_sums(folder, DEAD)
    return folder


@pytest.fixture(scope="module")
def whole(place):
    return train(place, "whole", *train_words("whole", ("ta_grpo",), place / "tiny", 2, *SUMS))


@pytest.fixture(scope="module")
def drawn(whole):
    return recorded(whole)


@pytest.mark.xdist_group("whole")
def test_every_step_draws_each_group_with_the_weights_that_are_trained(whole, drawn):
    logged = metrics(whole)
    for step in (1, 2):
        of_step = [each for each in drawn.values() if each.step == step]
        assert Counter(each.variant for each in of_step) == dict.fromkeys(
            range(1 + NEIGHBORS), QUESTIONS * RESPONSES
        )
        assert all(each.weights_version == step - 1 for each in of_step)
        assert logged[step]["actor/grad_norm"] > 0
        assert len({each.response for each in of_step}) > 0.9 * len(of_step)
        own, foreign = gaps(of_step, own=True), gaps(of_step, own=False)
        assert (len(own), len(foreign)) == (QUESTIONS * RESPONSES, NEIGHBORS * QUESTIONS * RESPONSES)
        assert max(own) < 1e-4
        assert sorted(foreign)[len(foreign) // 2] > 0.1


@pytest.mark.xdist_group("whole")
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


def test_dead_groups_are_drawn_anew_and_neighbors_weighed(place):
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


def test_two_trainings_of_one_machine_keep_their_weights_apart(tmp_path):
    # each has a Ray cluster of its own, and the first job of both is 01000000
    program = ROOT / "tests" / "support" / "weight_ends.py"
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
