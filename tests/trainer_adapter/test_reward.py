"""The reward function as verl's workers call it: values, hostile responses, dead workers, the penalty."""

import asyncio
import signal
import time
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from omegaconf import OmegaConf

from service.errors import InputError
from trainer_adapter.verl import reward
from trainer_adapter.verl.reward import compute_score

LIMIT_S = 1.0
ALGEBRA = r"so it is \boxed{\sin(7)+\sin(7)}", r"2\sin(7)"


def score(response: Any, gold: Any = "5", **given: Any) -> dict[str, Any]:
    return asyncio.run(compute_score("math", response, gold, time_limit_s=LIMIT_S, **given))


@pytest.mark.parametrize(
    ("response", "gold", "acc", "reason"),
    [
        (r"2 + 3 is \boxed{5}", "5", 1.0, "exact"),
        (r"half: \boxed{\frac{2}{4}}", "0.5", 1.0, "numeric"),
        (r"\boxed{6}", "5", 0.0, "different"),
        ("", "5", 0.0, "no answer found"),
        ("First we take the square of both", "5", 0.0, "no answer found"),  # truncated
        (*ALGEBRA, 1.0, "symbolic"),
        (r"\boxed{5}", 5, 1.0, "exact"),
    ],
)
def test_score_is_correctness(response, gold, acc, reason):
    found = score(response, gold)
    assert (found["score"], found["acc"], found["unknown"], found["reason"]) == (acc, acc, 0.0, reason)


def test_a_row_may_have_its_own_kind_and_tolerance():
    about = {"answer_kind": "tolerance", "tolerance": "0.1", "question_id": "q"}
    assert score(r"\boxed{5.05}", "5", extra_info=about)["acc"] == 1.0
    assert score(r"\boxed{5.2}", "5", extra_info=about)["acc"] == 0.0
    assert score(r"\boxed{B}", "B", extra_info={"answer_kind": "choice"})["acc"] == 1.0


@pytest.mark.parametrize(
    ("response", "thinks"),
    [
        (r"<think>2+3</think> \boxed{5}", True),
        (r"2+3</think> \boxed{5}", True),  # the chat template opened it
        (r"\boxed{5}", False),
        (r"<think>2</think>3</think> \boxed{5}", False),
        (r"</think>2+3<think> \boxed{5}", False),
        (r"<think><think>2+3</think> \boxed{5}", False),
    ],
)
def test_a_reward_for_the_format_is_added_and_leaves_correctness_alone(response, thinks):
    graded = score(response, format_reward=True)
    assert (graded["score"], graded["acc"], graded["format"]) == (1.0 + thinks, 1.0, float(thinks))
    wrong = score(response, "6", format_reward=True)
    assert (wrong["score"], wrong["acc"], wrong["format"]) == (float(thinks), 0.0, float(thinks))
    assert "format" not in score(response)
    assert not reward.thinks_between_tags("<think>2+3")


def test_a_box_in_a_thought_that_was_cut_off_is_no_answer():
    cut_off = {reward.CUT_OFF_FIELD: True}
    graded = score(r"2+3 is \boxed{5}, or is it", extra_info=cut_off)
    assert (graded["acc"], graded["reason"]) == (0.0, "no answer found")
    assert score(r"2+3</think> It is \boxed{5}, since", extra_info=cut_off)["acc"] == 1.0
    assert score(r"2+3 is \boxed{5}", extra_info={reward.CUT_OFF_FIELD: False})["acc"] == 1.0
    long_after = "2+3</think>" + "x" * reward.LONGEST_RESPONSE + r" \boxed{5}"
    assert score(long_after, extra_info=cut_off)["acc"] == 1.0


def test_only_an_answer_in_a_box_is_rewarded_unless_asked_otherwise():
    for response in ("The answer is 5.", "5", "#### 5", "The boxed answer is 5."):
        found = score(response)
        assert (found["score"], found["acc"], found["reason"]) == (0.0, 0.0, "no answer found")
        assert score(response, boxed_only=False)["acc"] == 1.0
    assert score("The answer is 5.", "")["unknown"] == 1.0
    assert score(r"\fbox{5}")["acc"] == 1.0
    assert score(r"\boxed{4}. The answer is 5.")["reason"] == "different"


@pytest.mark.slow
@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{" + r"\frac{" * 170_000,
        r"\boxed{" + "9" * 1_000_000 + "}",
        "\x00\ud800" * 1000,
        r"\boxed{(10^{9})!}",
    ],
    ids=["fractions", "digits", "bytes", "factorial"],
)
def test_a_hostile_response_gets_0_soon(response):
    began = time.monotonic()
    assert score(response, boxed_only=False)["score"] == 0.0
    assert time.monotonic() - began < 15


def test_an_honest_answer_is_not_held_up_by_hostile_ones():
    async def both() -> tuple[float, float]:
        began = time.monotonic()
        texts = [rf"\boxed{{\int_0^{n} e^{{x^{{x^x}}}} dx}}" for n in (1, 2)]
        hostile = [asyncio.create_task(compute_score("m", each, "5", time_limit_s=LIMIT_S)) for each in texts]
        await asyncio.sleep(0)
        honest = await compute_score("m", *ALGEBRA, time_limit_s=LIMIT_S)
        honest_s = time.monotonic() - began
        assert honest["acc"] == 1.0
        assert [(await one)["unknown"] for one in hostile] == [1.0, 1.0]
        return honest_s, time.monotonic() - began

    honest_s, all_s = asyncio.run(both())
    assert honest_s < all_s


def test_a_grading_process_that_dies_is_replaced():
    def kill_workers() -> int:
        killed = 0
        for child in psutil.Process().children(recursive=True):
            if any("forkserver" in part for part in child.cmdline()) and child.parent() != psutil.Process():
                child.send_signal(signal.SIGKILL)
                killed += 1
        return killed

    assert score(r"\boxed{\tan(7)+\tan(7)}", r"2\tan(7)")["acc"] == 1.0
    assert kill_workers() >= 1
    assert score(r"\boxed{\cos(7)+\cos(7)}", r"2\cos(7)")["acc"] == 1.0


ROW = {"data_source": "toy", "reward_model": {"ground_truth": "5"}, "extra_info": {"question_id": "q"}}
MINE = """
def by_length(data_source, solution_str, ground_truth, extra_info, *, least=0):
    if extra_info["session"] == 2:
        raise ValueError("session 2 is not graded")
    return float(len(solution_str) > least and extra_info["question_id"] == "q")

async def waiting(data_source, solution_str, ground_truth, extra_info):
    return {"score": 2.0, "acc": 1.0, "gold": ground_truth}
"""


def config(path: str, name: str, **reward: Any) -> Any:
    function = {"path": path, "name": name, "reward_kwargs": {"least": 3} if name == "by_length" else {}}
    made = {"custom_reward_function": function, "reward_model": {"enable": False}}
    return OmegaConf.create({"reward": {**made, "reward_manager": {"name": "naive"}, **reward}})


def graded(asked: Any, *texts: str) -> tuple[list[Any], list[Any]]:
    from trainer_adapter.verl.plugin.grading import grade, reward_function

    outputs = [
        SimpleNamespace(response_ids=text, num_turns=2, extra_fields={"session": session}, reward_score=None)
        for session, text in enumerate(texts)
    ]
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: ids)
    return outputs, asyncio.run(grade(reward_function(asked), tokenizer, outputs, ROW))


def test_rewards_are_written_as_verls_workers_write_them(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    outputs, errors = graded(config(str(file), "by_length"), "long enough", "no", "fails")
    assert [output.reward_score for output in outputs] == [1.0, 0.0, None]
    assert outputs[0].extra_fields["reward_extra_info"] == {"acc": 1.0}
    assert [str(error) for error in errors] == ["None", "None", "session 2 is not graded"]
    [output], _ = graded(config(str(file), "waiting"), "x")
    assert output.reward_score == 2.0
    assert output.extra_fields["reward_extra_info"] == {"score": 2.0, "acc": 1.0, "gold": "5"}


@pytest.mark.parametrize(
    ("path", "changes"),
    [("", {}), ("x.py", {"reward_model": {"enable": True}}), ("x.py", {"reward_manager": {"name": "dapo"}})],
)
def test_other_rewards_are_refused(path, changes):
    from trainer_adapter.verl.plugin.grading import reward_function

    with pytest.raises(InputError, match=r"Set reward\.custom_reward_function, and keep"):
        reward_function(config(path, "f", **changes))
