"""Responses graded where they are drawn: by tagrpo's reward function or by the user's own."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from service.errors import InputError

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


def test_rewards_are_written_as_verls_workers_write_them(tmp_path: Any) -> None:
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
def test_other_rewards_are_refused(path: str, changes: dict[str, Any]) -> None:
    from trainer_adapter.verl.plugin.grading import reward_function

    with pytest.raises(InputError, match=r"Set reward\.custom_reward_function, and keep"):
        reward_function(config(path, "f", **changes))
