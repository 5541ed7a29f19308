"""Responses of other tools: a file of them, one of them, and the names of its parts in rows."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evaluator.grading import AnswerKind, Grade, GradeValue
from service.errors import InputError
from service.questions.columns import CANDIDATES, RowProblem, asked_in, usual_column

_OF_EXPORTS = ("copy", "group", "variant", "source_id", "strategy")
"""Parts that are looked for in our exports alone: elsewhere such names say something else."""
COLUMNS: dict[str, tuple[str, ...]] = {
    "response": (
        *("response", "responses", "completion", "generation", "output", "model_output", "completions"),
        *("generations", "outputs", "generated", "generated_text", "model_response", "text", "prediction"),
        "code",  # in outputs of Qwen2.5-Math's harness and its relatives
    ),
    "question": ("question", "problem", "prompt", "input", "query", "messages", "origin_prompt"),
    "id": ("problem_id", "question_id", "unique_id", "id", "doc_id"),
    "answer": (
        *("expected_answer", "expected", "gold", "ground_truth", "ground_truth_answer"),
        *("correct_answer", "reference_answer", "answer", "target", "gts", "gt", "answerKey"),
        *("golden", "final_answer"),
    ),
    "stop_reason": ("stop_reason", "finish_reason"),
    "completion_tokens": ("completion_tokens", "output_tokens", "num_generated_tokens", "tokens"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "num_input_tokens"),
    "score": ("score", "grade", "correct", "is_correct", "symbolic_correct", "reward"),
    "extracted": ("extracted", "predicted_answer", "extracted_answer"),
    "images": CANDIDATES["images"],
    **{part: (part,) for part in ("seed", "kind", "tolerance", *_OF_EXPORTS)},
}
"""The parts of a response, and the names under which each is looked for.

Beside a gold of another name `answer` may be the model's own, so that it comes after these.
"""
_EXPORTED = frozenset({"copy", "group", "variant"})
"""The columns by which an export is known."""
_OF_ALL = ("score", "extracted", "completion_tokens")
"""What says nothing of one response where several have one value together."""

NO_STOP_REASON = "unknown"
_STOPS = {"max_tokens": "length", "model_length": "length", "eos": "stop", "end_turn": "stop"}
_RIGHT, _NOT = ("c", "correct", "true", "yes"), ("i", "incorrect", "wrong", "false", "no")


def stop_word(reason: str | None) -> str:
    """Return why a response ended in the words of this house, `NO_STOP_REASON` where a tool does not say."""
    return NO_STOP_REASON if not reason else _STOPS.get(reason, reason)


Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]


class OutsideResponse(BaseModel):
    """A response that another tool drew."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    place: str  # where it is: `file:line`
    text: str | None  # None if a request brought none
    question: str | None = None
    id: str | None = None  # the tool's own of the problem
    answer: str | None = None
    kind: AnswerKind | None = None
    tolerance: str | None = None
    images: Any = None  # what the cell holds
    stop_reason: Annotated[str, AfterValidator(stop_word)] = NO_STOP_REASON
    prompt_tokens: Whole | None = None
    completion_tokens: Whole | None = None
    seed: Whole | None = None
    score: Grade | None = None  # what the tool says of it, in its own words
    copy_number: Whole = Field(0, alias="copy")
    group: str | None = None  # from here on the problem's place in a run over a neighbor set
    variant: Whole = 0
    source_id: str | None = None
    strategy: str | None = None


Format: TypeAlias = Literal["rows", "inspect", "lighteval", "lm-eval"]


@dataclass(frozen=True)
class ResponseFile:
    """Files of one tool as one list of responses."""

    name: str
    form: Format
    sha256: str
    read: Callable[[], Iterator[OutsideResponse]]  # reads the file again, one row at a time
    model: str | None = None  # as the tool names it
    scorer: str | None = None
    poses: str | None = None  # the task
    # under which the tool says that it drew (temperature, max_tokens, ...)
    settings: Mapping[str, Any] = field(default_factory=dict)


Parts: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""Returns the parts of the responses in a row, by their names in `COLUMNS`; None for a row to leave out."""


def choose_columns(named: Mapping[str, str], present: Collection[str], source: str) -> dict[str, str]:
    """Return by part the columns of a source: those that are named, and the others by usual names.

    An empty name leaves a part out, as `score=` of a file whose scores are points.
    """
    there = ", ".join(sorted(present)) or "none"
    for part, column in named.items():
        if part not in COLUMNS:
            raise InputError(f"--column {part}={column}: unknown part. Available: {', '.join(COLUMNS)}.")
        if not {column, column.split(".")[0]} & {*present} and column:
            raise InputError(f'{source}: no column "{column}" (--column {part}=...). Available: {there}.')
    chosen = dict(named)
    foreign = () if {*present} >= _EXPORTED else _OF_EXPORTS
    for part, names in COLUMNS.items():
        if part in foreign:
            continue
        usual = usual_column(names, [name for name in present if name not in chosen.values()])
        if part not in chosen and usual is not None:
            chosen[part] = usual
    chosen = {part: column for part, column in chosen.items() if column}
    if "response" not in chosen:
        raise InputError(
            f"{source}: no column looks like the response. Pass it with --column response=NAME; available: "
            f"{there}."
        )
    if "question" not in chosen and "id" not in chosen:
        raise InputError(
            f"{source}: no column looks like the question or its id. Pass it with --column question=NAME or "
            f"--column id=NAME; available: {there}."
        )
    return chosen


def read_responses(
    place: str, parts: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> Iterator[OutsideResponse]:
    """Yield the responses of a row; if its response is a list, the other parts may be lists too.

    Args:
        names: columns by part, for messages; without it, parts have their own names.
    """
    row, names = {**parts}, names or {part: part for part in parts}
    row["question"] = asked_in(row.get("question")) or row.get("question")
    row["answer"] = _gold(row.get("answer"))
    texts, images = row.pop("response"), row.pop("images", None)
    if not isinstance(texts, list):
        yield _response(place, texts, images, row, names)
        return
    for number, text in enumerate(texts):
        its_own = {part: _of(part, value, number, len(texts)) for part, value in row.items()}
        yield _response(f"{place}, response {number}", text, images, its_own, names)


def _of(part: str, value: Any, number: int, count: int) -> Any:
    if part != "answer" and isinstance(value, list) and len(value) == count:
        return value[number]
    return None if part in _OF_ALL and count > 1 else value


def _gold(value: Any) -> Any:
    """Return a gold, of a list its different parts; equal ones may be one for each response."""
    if isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(dict.fromkeys(map(str, value)))
    return value


def _response(
    place: str, text: Any, images: Any, row: Mapping[str, Any], columns: Mapping[str, str]
) -> OutsideResponse:
    column = columns["response"]
    if isinstance(text, Mapping) and text:
        raise RowProblem(
            f'"{column}" contains {", ".join(map(str, text))} instead of text. Choose one, such as '
            f"--column response={column}.{next(iter(text))}"
        )
    if text is not None and not isinstance(text, str):
        raise RowProblem(f'"{column}" is not text')
    # An empty cell of CSV holds nothing, and NaN is not equal to itself.
    read = {part: value for part, value in row.items() if value not in (None, "") and value == value}

    try:
        score = read_score(read.pop("score", None), read.pop("extracted", None))
        return OutsideResponse(place=place, text=text, images=images, score=score, **read)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RowProblem(f'"{columns[str(first["loc"][0])]}": {first["msg"]}') from None


def with_thought(thought: str | None, text: str) -> str:
    """Return a response with a thought that a server took out of it in front, as it was drawn."""
    return f"<think>\n{thought}\n</think>\n\n{text}" if thought and thought.strip() else text


def read_score(value: Any, extracted: Any = None) -> Grade | None:
    """Return another tool's score as a grade; None where it gave none.

    Whatever is neither right nor wrong (half a point, "no answer") is unknown.

    >>> read_score("C").value, read_score(0.0).value, read_score(0.5).value
    (<GradeValue.CORRECT: 'correct'>, <GradeValue.WRONG: 'wrong'>, <GradeValue.UNKNOWN: 'unknown'>)
    """
    if value is None:
        return None
    text = " ".join(str(value).split())[:200]
    try:
        number = float(text)
    except ValueError:
        word = text.lower()
        number = 1.0 if word in _RIGHT else 0.0 if word in _NOT else math.nan
    grades = {1.0: GradeValue.CORRECT, 0.0: GradeValue.WRONG}
    answer = None if extracted is None else str(extracted)
    return Grade(grades.get(number, GradeValue.UNKNOWN), answer, text)
