"""What requests and replies look like, and reading a request whose text is damaged."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evaluator.grading import AnswerKind, GradeCase, GradeValue
from evaluator.grading.extraction import LONGEST_RESPONSE
from service.errors import InputError
from service.hashing import whole_characters

_MOST_PROBLEMS = 5

Body = TypeVar("Body", bound=BaseModel)


def _gold(value: Any) -> Any:
    """A gold may come as a number, as JSON data has them; an empty one is unknown."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Gold = Annotated[str, BeforeValidator(_gold)]


class Case(BaseModel):
    """A response to grade."""

    model_config = ConfigDict(extra="forbid")

    response: str
    gold: Gold = Field(description="gold answer, bare or in a box")
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = Field(None, description="tolerance of numbers: 1e-2, 1%")
    boxed_only: bool = Field(False, description="whether only boxed answers count")

    def to_grade(self) -> GradeCase:
        """Return the case as the grader takes it."""
        return GradeCase(
            self.response[-LONGEST_RESPONSE:], self.gold, self.kind, self.tolerance, self.boxed_only
        )


class Batch(BaseModel):
    """Responses to grade, one or many."""

    model_config = ConfigDict(extra="forbid")

    cases: list[Case] = Field(min_length=1)


class GradeReply(BaseModel):
    """One grade. Unknown is neither correct nor wrong; `reason` says why the grader could not tell."""

    value: GradeValue
    answer: str | None = Field(description="extracted answer; null if none was found")
    source: str = Field(description="where it was found: box, marker, last sentence; empty if nowhere")
    reason: str


class BatchReply(BaseModel):
    """The grades of a batch, in its order, and what graded."""

    grades: list[GradeReply]
    grader: str


class OpenRlhfBody(BaseModel):
    """What OpenRLHF's `--reward.remote_url` posts: each query is prompt and response in one text."""

    query: list[str] = Field(min_length=1)
    prompts: list[str]
    labels: list[Gold]


class OpenRlhfReply(BaseModel):
    """What OpenRLHF reads; `unknown` in `extra_logs` is 1 where the reward is the one of unknown grades."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class GymBody(BaseModel):
    """What is read of NeMo Gym's `/verify`; all else is sent back as it came."""

    response: dict[str, Any]
    expected_answer: Gold
    answer_kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None


def read_body(model: type[Body], body: bytes) -> Body:
    """Return a request's body.

    Bytes that are no UTF-8 and halves of surrogate pairs are replaced: one broken response must not keep the
    others of its batch from being graded.

    Raises:
        InputError: it is no JSON of this form; the message names the first places.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise _explained(error) from error
    try:
        return model.model_validate(read_json(body))
    except ValidationError as error:
        raise _explained(error) from error


def read_json(body: bytes) -> Any:
    """Return the JSON of a body, broken characters replaced.

    Raises:
        InputError: it is none, or nested too deeply.
    """
    try:
        return _whole(json.loads(body.decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        words = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON ({error})"
        raise InputError(f"the body {words}.") from error


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    return value


def _explained(error: ValidationError) -> InputError:
    problems = error.errors(include_url=False, include_input=False)
    words = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:_MOST_PROBLEMS]]
    more = len(problems) - len(words)
    return InputError("; ".join(words) + (f"; and {more} more" if more else "") + ".")
