"""The real inspect_ai: logs of its mock model are read, and the grader scores in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from evaluator.exchange.files import open_responses
from evaluator.grading import GradeValue
from service.errors import InputError

pytestmark = pytest.mark.inspect
QUESTIONS = [("a", "What is 1/2 + 1/4?", "3/4"), ("b", "2+2?", "4"), ("c", "Nobody knows.", " ")]


def evaluate(
    folder: Path, scorer: Any, responses: Sequence[str | None], form: Literal["eval", "json"] = "eval"
) -> Any:
    """Return the log of the questions, asked in turn, over and over; None fails the sample."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import Generate, TaskState, generate, solver

    @solver
    def failing() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if not state.output.completion:
                raise RuntimeError("the server went away")
            return state

        return solve

    outputs = [ModelOutput.from_content("mockllm/model", text or "") for text in responses]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=5, output_tokens=7, total_tokens=12)
    task = Task(
        name="sums",
        dataset=[Sample(id=id, input=text, target=gold) for id, text, gold in QUESTIONS],
        solver=[generate(), failing()],
        scorer=scorer,
        epochs=len(responses) // len(QUESTIONS),
        config=GenerateConfig(temperature=0.7),
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    logging = {"log_dir": str(folder), "log_format": form, "display": "none"}
    (log,) = eval(task, model=model, max_samples=1, fail_on_error=False, **logging)
    assert log.status == "success", log.error
    return log


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_log_becomes_responses(form, tmp_path):
    from inspect_ai.scorer import match

    texts = ["ANSWER: 3/4", "\\boxed{5}", "x", "so \\boxed{0.75}", None, "y"]
    log = evaluate(tmp_path, match(), texts, form)
    path = Path(log.location)
    file = open_responses([path])
    assert (file.form, file.model, file.scorer, file.poses) == ("inspect", "mockllm/model", "match", "sums")
    assert file.settings["temperature"] == 0.7
    responses = sorted(file.read(), key=lambda each: each.place)
    assert [(each.id, each.text) for each in responses] == [
        *(("a", texts[0]), ("a", texts[3]), ("b", texts[1]), ("b", None), ("c", texts[2]), ("c", texts[5]))
    ]
    first, second, third = responses[:3]
    assert (first.question, first.answer, first.stop_reason) == ("What is 1/2 + 1/4?", "3/4", "stop")
    assert (first.prompt_tokens, first.completion_tokens) == (5, 7)
    values = [each.score.value for each in (first, second, third) if each.score is not None]
    assert values == [GradeValue.CORRECT, GradeValue.WRONG, GradeValue.WRONG]
    with pytest.raises(InputError, match=r"no scorer 'other'\. Available: match"):
        open_responses([path], columns={"score": "other"})
    cut = tmp_path / f"cut.{form}"
    cut.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputError, match=f"cut.{form}: cannot be read as an inspect_ai log"):
        open_responses([cut], "inspect")


def test_the_scorer_leaves_unknown_grades_out_and_counts_them(tmp_path):
    from evaluator.exchange.inspect_scorer import math_answer

    log = evaluate(tmp_path, math_answer(), ["\\boxed{0.75}", "5", "x", "0", "\\boxed{4}", "y"])
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means == {"correct": 0.5, "unknown": pytest.approx(1 / 3)}
    assert {score.name: score.scored_samples for score in log.results.scores} == {"correct": 2, "unknown": 3}
    responses = open_responses([Path(log.location)]).read()
    scores = sorted(f"{each.id} {each.score.value.value}" for each in responses if each.score)
    assert scores == ["a correct", "a wrong", "b correct", "b wrong", "c unknown", "c unknown"]
