"""One row of a file of rollouts: which question, which prompt, what reward."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.errors import InputError
from service.hashing import content_id

GROUP_COLUMNS = ("group_id", "question_id", "group", "question")
COUNT_COLUMNS = (*GROUP_COLUMNS, "id")  # of a row of counts; a response has an id of its own
VARIANT_COLUMNS = ("variant",)
NEIGHBOR_COLUMNS = ("neighbor_id", "neighbor")
REWARD_COLUMNS = ("correct", "reward", "score", "grade")
RESPONSE_COLUMNS = ("response", "output", "text")
TOKEN_COLUMNS = ("tokens", "response_tokens", "response_length", "completion_tokens")
STEP_COLUMNS = ("step", "global_step", "checkpoint")
PROMPT_COLUMNS = ("input", "prompt")
_LONGEST_ID = 80
_GRADES = {"correct": 1, "wrong": 0, "unknown": None}


@dataclass(frozen=True)
class Prompt:
    """Which prompt a row is about: a question (`neighbor` None) or one of its neighbors.

    `variant` is its number where the file has one. `by_prompt`: the row names no question, and the text of
    its prompt stands for it.
    """

    group_id: str
    variant: int | None
    neighbor: str | None
    strategy: str | None
    by_prompt: bool


@dataclass(frozen=True)
class Rollout(Prompt):
    """A response drawn in training. `correct` is None where the grade is unknown."""

    correct: bool | None
    tokens: int | None
    step: int | str | None
    response: str | None


def read_rollout(row: Mapping[str, Any], place: str, *, threshold: float | None = None) -> Rollout:
    """Return the rollout of a row. `extra_info` (of verl's rows) is looked into as well.

    A reward is 0 or 1, -1 or 1, true or false, a grade (correct, wrong, unknown), or null for unknown. Any
    other number needs a `threshold`: above it the response is correct. Equal shaped rewards are no matter
    here: a group is looked at by correctness.

    Raises:
        InputError: no reward, one that is neither right nor wrong, or nothing to tell the question by.
    """
    values = _values(row)
    prompt = read_prompt(row, place)
    response = _first(values, RESPONSE_COLUMNS)
    return Rollout(
        **vars(prompt),
        correct=_correct(values, place, threshold),
        tokens=_whole(values, TOKEN_COLUMNS, place),
        step=_step(values, place),
        response=response if isinstance(response, str) else None,
    )


def read_prompt(row: Mapping[str, Any], place: str, columns: tuple[str, ...] = GROUP_COLUMNS) -> Prompt:
    """Return which prompt a row is about; one of `columns` names its question.

    Raises:
        InputError: nothing tells the question, or an id or a variant is none.
    """
    values = _values(row)
    group, by_prompt = _group(values, place, columns)
    variant = _whole(values, VARIANT_COLUMNS, place)
    neighbor = _first(values, NEIGHBOR_COLUMNS)
    if neighbor is not None and not isinstance(neighbor, str | int):
        raise InputError(
            f'{place}: "neighbor_id" is {neighbor!r}, not the id of a neighbor (null: original).'
        )
    strategy = values.get("strategy")
    return Prompt(
        group_id=group,
        variant=variant,
        neighbor=None if neighbor is None or variant == 0 else str(neighbor),
        strategy=strategy if isinstance(strategy, str) else None,
        by_prompt=by_prompt,
    )


def _values(row: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = row.get("extra_info")
    return {**inner, **row} if isinstance(inner, Mapping) else row


def _group(values: Mapping[str, Any], place: str, columns: tuple[str, ...]) -> tuple[str, bool]:
    group = _first(values, columns)
    if isinstance(group, str | int) and not isinstance(group, bool) and str(group).strip():
        return _short(str(group)), False
    if group is not None:
        raise InputError(f"{place}: the question's id is {group!r}; give text or a number.")
    prompt = _first(values, PROMPT_COLUMNS)
    if isinstance(prompt, str) and prompt.strip():
        return content_id("prompt", prompt), True
    names = ", ".join(f'"{name}"' for name in (*columns, *PROMPT_COLUMNS))
    raise InputError(f"{place}: nothing tells which question it answers; give one of {names}.")


def _short(group: str) -> str:
    """Return an id as it is; in place of a question's text its hash."""
    return group if len(group) <= _LONGEST_ID else content_id("question", group)


def _correct(values: Mapping[str, Any], place: str, threshold: float | None) -> bool | None:
    name = next((name for name in REWARD_COLUMNS if name in values), None)
    if name is None:
        names = ", ".join(f'"{name}"' for name in REWARD_COLUMNS)
        raise InputError(f"{place}: has no reward; give one of {names}.")
    value = values[name]
    if value is None:
        return None
    if isinstance(value, str) and value in _GRADES:
        grade = _GRADES[value]
        return None if grade is None else bool(grade)
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f'{place}: "{name}" is {value!r}; give 0 or 1, or correct, wrong or unknown.')
    if threshold is not None:
        return value > threshold
    if value in (0, 1, -1):
        return value == 1
    raise InputError(
        f'{place}: "{name}" is {value!r}, neither 0, 1 nor -1; say with --correct-above which rewards are of '
        "correct responses."
    )


def _step(values: Mapping[str, Any], place: str) -> int | str | None:
    step = _first(values, STEP_COLUMNS)
    if step is None or (isinstance(step, int | str) and not isinstance(step, bool)):
        return step
    raise InputError(f'{place}: "step" is {step!r}; give a whole number or a name.')


def _whole(values: Mapping[str, Any], names: tuple[str, ...], place: str) -> int | None:
    name = next((name for name in names if values.get(name) is not None), None)
    if name is None:
        return None
    value = values[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f'{place}: "{name}" is {value!r}; give a whole number, 0 or more.')
    return value


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)
