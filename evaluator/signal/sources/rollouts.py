"""Training rollouts from files: one row per response, or one row per prompt with visit counts.

A file is JSON Lines or parquet. A folder holds parquet files, or JSON Lines as verl 0.9 writes them to
`trainer.rollout_data_dir` (`STEP.jsonl` with input, output, gts, score, step and what the reward function
adds). If there are both, the parquet files are read. Records of tagrpo's own trainings have their own reader
(`trainer_adapter.record`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    GroupTexts,
    PromptSample,
    QuestionGroup,
    ResponseSource,
)
from service.errors import InputError, first_line
from service.hashing import content_id
from service.json_lines import read_objects

WINDOWS = 5
"""Stretches of training: the paper's Figure 3 shows the base model and four checkpoints."""

ALL = "all"
Step = int | str | None

_LONGEST_ID = 80
_REWARDS = ("correct", "reward", "score", "grade")


def _column(*names: str, **constraints: Any) -> Any:
    """Return a field read from the first of these columns that has a value."""
    return Field(None, validation_alias=AliasChoices(*names), **constraints)


class _Row(BaseModel):
    """The prompt that a row is about, and the response to it."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    question: str | int | None = _column("group_id", "question_id", "group", "question")
    prompt: str | None = _column("input", "prompt")
    variant: int | None = _column("variant", ge=0, strict=False)
    neighbor: str | int | None = _column("neighbor_id", "neighbor")
    strategy: str | None = None
    step: int | str | None = _column("step", "global_step", "checkpoint")
    reward: bool | float | Literal["correct", "wrong", "unknown"] | None = _column(*_REWARDS)
    response: str | None = _column("response", "output", "text")
    tokens: int | None = _column(
        *("tokens", "response_tokens", "response_length", "completion_tokens"), ge=0, strict=False
    )


_R = TypeVar("_R", bound=_Row)


class _Visits(_Row):
    """A prompt with the number of correct responses at each visit, in time order."""

    question: str | int | None = _column("group_id", "question_id", "group", "question", "id")
    group_size: int = Field(ge=1)
    successes: list[int] = Field(min_length=1)
    mean_tokens: float | None = Field(None, ge=0)


@dataclass(frozen=True)
class Rollouts:
    """Rollouts of files. `by_prompt`: no row names its question, so each prompt counts as a question."""

    checkpoints: tuple[CheckpointGroups, ...]
    steps: tuple[tuple[Step, ...], ...]
    responses: int
    by_prompt: bool


def file_source(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> ResponseSource:
    """Return the responses of a file or folder of rollouts, as `read_rollouts` reads them."""
    rollouts = read_rollouts(path, windows=windows, threshold=threshold)
    steps = {each.label: part for each, part in zip(rollouts.checkpoints, rollouts.steps, strict=True)}
    by_prompt = (
        "some rows have no question id, so each of their prompts counts as a separate question and "
        "neighbors look like originals. Add question_id and neighbor_id to every row."
    )
    return ResponseSource(
        str(path),
        rollouts.checkpoints,
        lambda label, ids: rollout_texts(path, steps[label], ids, threshold=threshold),
        (by_prompt,) if rollouts.by_prompt else (),
    )


def read_rollouts(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> Rollouts:
    """Return the rollouts as checkpoints: stretches of steps with about equally many steps each.

    Responses to one question at one step are one group. Neighbors of a question are numbered by variant if
    rows have one, otherwise in the order in which their ids appear. A reward is 0 or 1, -1 or 1, true or
    false, a grade (correct, wrong, unknown), or null for unknown. Any other number needs a `threshold`: above
    it the response is correct.

    Raises:
        InputError: no such file, no rows, or a row that cannot be used; the message names file and line.
    """
    if windows < 1:
        raise InputError(f"{windows} windows: give 1 or more.")
    visits: dict[Step, dict[str, dict[int, PromptSample]]] = {}
    responses, by_prompt = 0, False
    for place, step, group_id, sample, row in _read(path, threshold):
        prompts = visits.setdefault(step, {}).setdefault(group_id, {})
        before = prompts.get(sample.variant)
        if before is not None and isinstance(row, _Visits):
            raise InputError(
                f"{place}: variant {sample.variant} of question {group_id} appears twice. Give one row per "
                "prompt."
            )
        prompts[sample.variant] = sample if before is None else _add(before, sample)
        responses += sample.known + sample.unknown
        by_prompt = by_prompt or row.question is None
    if not responses:
        raise InputError(f"{path}: contains no rollouts.")
    stretches = _stretches(list(visits), windows)
    checkpoints = tuple(
        CheckpointGroups(
            _label(steps),
            tuple(
                QuestionGroup(group_id, tuple(prompts.values()))
                for step in steps
                for group_id, prompts in visits[step].items()
            ),
        )
        for steps in stretches
    )
    return Rollouts(checkpoints, tuple(map(tuple, stretches)), responses, by_prompt)


def rollout_texts(
    path: Path, steps: Collection[Step], group_ids: Sequence[str], *, threshold: float | None = None
) -> Iterator[GroupTexts]:
    """Yield the responses of these questions at these steps; they are held in memory, so choose some.

    Raises:
        InputError: as `read_rollouts`, or a row has no text of its response.
    """
    texts: dict[str, dict[int, list[str]]] = {group_id: {} for group_id in group_ids}
    for place, step, group_id, sample, row in _read(path, threshold):
        if group_id in texts and step in steps:
            if row.response is None:
                raise InputError(f'{place}: has no "response". Diversity needs the response texts.')
            texts[group_id].setdefault(sample.variant, []).append(row.response)
    for group_id, prompts in texts.items():
        yield GroupTexts(group_id, {variant: tuple(answered) for variant, answered in prompts.items()})


def read_visits(path: Path) -> list[list[tuple[int, int]]]:
    """Return for each prompt of a file of visits its (successes, group size) in time order.

    Raises:
        InputError: as `read_rollouts`, or a row has no counts of visits.
    """
    visits = [
        [(count, row.group_size) for count in row.successes]
        for row in (_parse(_Visits, values, place) for place, values, _ in _rows(path))
    ]
    if not visits:
        raise InputError(f"{path}: contains no rows.")
    return visits


def _read(path: Path, threshold: float | None) -> Iterator[tuple[str, Step, str, PromptSample, _Row]]:
    """Yield place, step, question, counts and row of each response, or of each visit."""
    variants: dict[str, dict[str, int]] = {}
    for place, values, file_step in _rows(path):
        row = _parse(_Visits if "successes" in values else _Row, values, place)
        if row.question is not None and str(row.question).strip():
            name = str(row.question)
            group_id = name if len(name) <= _LONGEST_ID else content_id("question", name)
        elif row.prompt is not None and row.prompt.strip():
            group_id = content_id("prompt", row.prompt)
        else:
            raise InputError(f'{place}: the row has no question. Add "question_id" or "prompt".')
        variant = _number_variant(variants.setdefault(group_id, {}), row, place)
        source_id = str(row.neighbor) if variant and row.neighbor is not None else None
        about: dict[str, Any] = {"strategy": row.strategy, "source_id": source_id if variant else group_id}
        if isinstance(row, _Visits):
            if row.mean_tokens is not None:
                about |= {"tokens": round(row.mean_tokens * row.group_size), "token_samples": row.group_size}
            for visit, count in enumerate(row.successes, start=1):
                if not 0 <= count <= row.group_size:
                    raise InputError(f"{place}: {count} successes among {row.group_size} responses.")
                sample = PromptSample(variant, correct=count, wrong=row.group_size - count, **about)
                yield place, visit, group_id, sample, row
            continue
        if not values.keys() & set(_REWARDS):
            raise InputError(f"{place}: has no reward. Add one of {', '.join(_REWARDS)}.")
        grade = _grade(row.reward, threshold, place)
        about |= {name: int(grade == name) for name in ("correct", "wrong", "unknown")}
        about |= {"tokens": row.tokens or 0, "token_samples": int(row.tokens is not None)}
        sample = PromptSample(variant, **about)
        yield place, file_step if row.step is None else row.step, group_id, sample, row


def _parse(kind: type[_R], values: Mapping[str, Any], place: str) -> _R:
    reward = next((name for name in _REWARDS if name in values), None)
    filled = {
        name: value
        for name, value in values.items()
        if value is not None and (name == reward or name not in _REWARDS)
    }
    try:
        return kind.model_validate(filled)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        name, value = problems[0]["loc"][0], problems[0]["input"]
        given = "" if problems[0]["type"] == "missing" else f" is {value!r}"
        wishes = "; or ".join(dict.fromkeys(each["msg"] for each in problems if each["loc"][0] == name))
        raise InputError(f'{place}: "{name}"{given}: {wishes}.') from None


def _number_variant(numbers: dict[str, int], row: _Row, place: str) -> int:
    """Return the variant of a row's prompt; `numbers` has those of the question's neighbors so far."""
    if row.neighbor is None or row.variant == ORIGINAL:
        return row.variant or ORIGINAL
    before = numbers.setdefault(str(row.neighbor), row.variant or len(numbers) + 1)
    if row.variant not in (None, before):
        raise InputError(
            f"{place}: neighbor {row.neighbor} is variant {row.variant} here but was {before} earlier."
        )
    return before


def _grade(reward: bool | float | str | None, threshold: float | None, place: str) -> str:
    if reward is None or isinstance(reward, str):
        return reward or "unknown"
    if threshold is None and reward not in (0, 1, -1):
        raise InputError(
            f"{place}: the reward is {reward!r}, not 0, 1 or -1. Set the threshold for a correct response "
            "with --correct-above."
        )
    return "correct" if reward > (threshold or 0) else "wrong"


def _add(sample: PromptSample, other: PromptSample) -> PromptSample:
    """Return the responses of both to one prompt."""
    return PromptSample(
        sample.variant,
        sample.correct + other.correct,
        sample.wrong + other.wrong,
        sample.unknown + other.unknown,
        sample.strategy or other.strategy,
        sample.source_id or other.source_id,
        sample.tokens + other.tokens,
        sample.token_samples + other.token_samples,
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any], Step]]:
    """Yield place, row and the step in the file's name. Columns of verl's `extra_info` join the row's."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("*.parquet")) or sorted(path.glob("*.jsonl"), key=_by_number)
    if not files:
        raise InputError(f"{path}: the folder contains no .jsonl or .parquet files.")
    for file in files:
        step = int(file.stem) if path.is_dir() and file.stem.isdecimal() else None
        rows = _parquet_rows(file) if file.suffix == ".parquet" else read_objects(file, "with a reward")
        for number, row in rows:
            place = f"{file}: row {number}" if file.suffix == ".parquet" else f"{file}:{number}"
            inner = row.get("extra_info")
            yield place, {**inner, **row} if isinstance(inner, Mapping) else row, step


def _parquet_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    number = 0
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for part in opened.iter_batches(batch_size=1024):
                for row in part.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a complete parquet file ({first_line(error)}).") from error


def _by_number(path: Path) -> tuple[int, int, str]:
    return (0, int(path.stem), "") if path.stem.isdecimal() else (1, 0, path.stem)


def _stretches(steps: list[Step], windows: int) -> list[list[Step]]:
    """Return the steps in order, cut into `windows` stretches; names keep the order they were read in."""
    numbered = [step for step in steps if isinstance(step, int)]
    ordered: list[Step] = [*sorted(numbered), *(step for step in steps if not isinstance(step, int))]
    if len(numbered) < len(steps):  # checkpoints with names stand each for themselves
        return [[step] for step in ordered]
    count = min(windows, len(ordered))
    bounds = [round(number * len(ordered) / count) for number in range(count + 1)]
    return [ordered[low:high] for low, high in pairwise(bounds)]


def _label(steps: Sequence[Step]) -> str:
    if steps == [None]:
        return ALL
    if not isinstance(steps[0], int):
        return str(steps[0])
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
