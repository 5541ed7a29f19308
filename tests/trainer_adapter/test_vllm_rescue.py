"""`ta_rescue` of the policy that comes with tagrpo, in its world, on vLLM's server."""

from collections import Counter
from pathlib import Path

import pytest
from command_line import run_here
from training_runs import metrics, recorded
from vllm_trainings import QUESTIONS, gaps, train, train_words

from benchmarks.studies import sandbox_world
from trainer_adapter.record.rollout import RolloutRecord

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


def run_beside(_log: Path, *arguments: str) -> None:
    """Run a command in this process, whose imports are paid already."""
    done = run_here(*arguments)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy that comes with tagrpo, trained by `ta_rescue` in its world."""
    place = tmp_path_factory.mktemp("training")
    world = sandbox_world.World(place, "A")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_world, "tagrpo", run_beside)
        world.prepare()
    settings = (
        "--data",
        str(world.export),
        "verl.data.max_response_length=40",
        "verl.data.seed=1",
        "run.seed=1",
    )
    return train(place, "first", *train_words("first", ("ta_rescue",), world.policy, 2, *settings))


def test_questions_that_the_policy_fails_on_are_asked_by_their_neighbors(trained: Path) -> None:
    questions: dict[tuple[int, str], list[RolloutRecord]] = {}
    for each in recorded(trained).values():
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
    for step, logged in metrics(trained).items():
        assert logged["tagrpo/rescue/dead_share"] == pytest.approx(dead[step] / QUESTIONS)
        assert logged["actor/grad_norm"] > 0
    assert max(gaps(recorded(trained).values(), own=True)) < 1e-4
