"""Rollouts of training from files: one row a response, or one row a prompt with the counts of its visits.

A file is JSON Lines or parquet. A folder holds parquet files, or JSON Lines as verl 0.9 writes them to
`trainer.rollout_data_dir` (`STEP.jsonl` with input, output, gts, score, step and what the reward function
adds). If there are both, the parquet files are read. Records of tagrpo's own trainings have their own reader
(`trainer_adapter.record`).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

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

GROUP_COLUMNS = ("group_id", "question_id", "group", "question")
REWARD_COLUMNS = ("correct", "reward", "score", "grade")
RESPONSE_COLUMNS = ("response", "output", "text")
TOKEN_COLUMNS = ("tokens", "response_tokens", "response_length", "completion_tokens")
PROMPT_COLUMNS = ("input", "prompt")
_LONGEST_ID = 80
_GRADES = {"correct": 1, "wrong": 0, "unknown": None}


@dataclass(frozen=True)
class Rollouts:
    """What was read. `by_prompt`: rows name no question, so each prompt counts as a question of its own."""

    checkpoints: tuple[CheckpointGroups, ...]
    steps: tuple[tuple[Step, ...], ...]
    responses: int
    by_prompt: bool


@dataclass(frozen=True)
class _Row:
    """What a row says of a prompt at a step: a response with its text, or the counts of a visit.

    `by_prompt`: the row names no question, and the hash of its prompt's text stands for it.
    """

    place: str
    step: Step
    group_id: str
    sample: PromptSample
    by_prompt: bool
    is_visit: bool
    text: str | None


def file_source(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> ResponseSource:
    """Return the responses of a file or folder of rollouts, as `read_rollouts` reads them."""
    rollouts = read_rollouts(path, windows=windows, threshold=threshold)
    steps = {each.label: part for each, part in zip(rollouts.checkpoints, rollouts.steps, strict=True)}
    by_prompt = (
        "some rows have no question id, so each of their prompts counts as a separate question and "
        "neighbors look like originals (add question_id and neighbor_id to every rollout)"
    )
    return ResponseSource(
        str(path),
        rollouts.checkpoints,
        lambda label, ids: rollout_texts(path, steps[label], ids, threshold=threshold),
        (by_prompt,) if rollouts.by_prompt else (),
    )


def read_rollouts(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> Rollouts:
    """Return the rollouts as checkpoints: stretches of steps with about equally many steps each.

    Responses to one question at one step are one group; the neighbors of a question are numbered by variant
    where rows have one, else in the order in which their ids appear. A reward is 0 or 1, -1 or 1, true or
    false, a grade (correct, wrong, unknown), or null for unknown. Any other number needs a `threshold`: above
    it the response is correct.

    Raises:
        InputError: no such file, no rows, or a row that cannot be used; the message names file and line.
    """
    if windows < 1:
        raise InputError(f"--windows is {windows}, but must be at least 1.")
    visits: dict[Step, dict[str, dict[int, PromptSample]]] = {}
    responses, by_prompt = 0, False
    for row in _read(path, threshold):
        prompts, sample = visits.setdefault(row.step, {}).setdefault(row.group_id, {}), row.sample
        before = prompts.get(sample.variant)
        if before is not None and row.is_visit:
            raise InputError(
                f"{row.place}: variant {sample.variant} of question {row.group_id} appears twice. Give one "
                "row per prompt."
            )
        prompts[sample.variant] = sample if before is None else _add(before, sample)
        responses += sample.known + sample.unknown
        by_prompt = by_prompt or row.by_prompt
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
    for row in _read(path, threshold):
        if row.group_id not in texts or row.step not in steps:
            continue
        if row.text is None:
            raise InputError(f'{row.place}: has no "response". Diversity needs the response texts.')
        texts[row.group_id].setdefault(row.sample.variant, []).append(row.text)
    for group_id, prompts in texts.items():
        yield GroupTexts(group_id, {variant: tuple(answered) for variant, answered in prompts.items()})


def read_visits(path: Path) -> list[list[tuple[int, int]]]:
    """Return for each prompt of a file of visits its (successes, group size) in time order.

    Raises:
        InputError: as `read_rollouts`, or a row that is no row of visits.
    """
    visits = []
    for place, row, _ in _rows(path):
        if "successes" not in row:
            raise InputError(f'{place}: has no "successes". Give rows of visits in time order.')
        size, successes = _visits(row, place)
        visits.append([(count, size) for count in successes])
    if not visits:
        raise InputError(f"{path}: contains no rows.")
    return visits


def _read(path: Path, threshold: float | None) -> Iterator[_Row]:
    """Yield what all rows say. Columns of verl's `extra_info` count as the row's own."""
    variants: dict[str, dict[str, int]] = {}
    for place, row, file_step in _rows(path):
        inner = row.get("extra_info")
        values = {**inner, **row} if isinstance(inner, Mapping) else row
        is_visit = "successes" in row
        size, successes = _visits(row, place) if is_visit else (0, [])
        group_id, by_prompt = _group(values, place, (*GROUP_COLUMNS, "id") if is_visit else GROUP_COLUMNS)
        variant, neighbor = _variant(variants, group_id, values, place)
        strategy = values.get("strategy")
        about: dict[str, Any] = {
            "variant": variant,
            "strategy": strategy if isinstance(strategy, str) else None,
            "source_id": group_id if variant == ORIGINAL else neighbor,
        }
        if is_visit:
            mean = row.get("mean_tokens")
            if mean is not None and (isinstance(mean, bool) or not isinstance(mean, int | float) or mean < 0):
                raise InputError(
                    f'{place}: "mean_tokens" is {mean!r}; give the mean number of tokens per response.'
                )
            if mean is not None:
                about |= {"tokens": round(mean * size), "token_samples": size}
            for visit, count in enumerate(successes, start=1):
                sample = PromptSample(**about, correct=count, wrong=size - count)
                yield _Row(place, visit, group_id, sample, by_prompt, is_visit, None)
            continue
        correct, tokens = _correct(values, place, threshold), _whole(values, TOKEN_COLUMNS, place)
        sample = PromptSample(
            **about,
            correct=int(correct is True),
            wrong=int(correct is False),
            unknown=int(correct is None),
            tokens=tokens or 0,
            token_samples=int(tokens is not None),
        )
        step, text = _step(values, place), _first(values, RESPONSE_COLUMNS)
        yield _Row(
            place,
            file_step if step is None else step,
            group_id,
            sample,
            by_prompt,
            is_visit,
            text if isinstance(text, str) else None,
        )


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
    """Yield (place, row, step by the file's name) of all files."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("*.parquet")) or sorted(path.glob("*.jsonl"), key=_by_number)
    if not files:
        raise InputError(f"{path}: the folder contains no .jsonl or .parquet files.")
    for file in files:
        if file.suffix == ".parquet":
            yield from _parquet_rows(file)
            continue
        step = int(file.stem) if path.is_dir() and file.stem.isdecimal() else None
        for number, row in read_objects(file, "with a question id and a reward"):
            yield f"{file}:{number}", row, step


def _parquet_rows(file: Path) -> Iterator[tuple[str, dict[str, Any], Step]]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    number = 0
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for part in opened.iter_batches(batch_size=1024):
                for row in part.to_pylist():
                    number += 1
                    yield f"{file}: row {number}", row, None
    except (OSError, ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a complete parquet file ({first_line(error)}).") from error


def _by_number(path: Path) -> tuple[int, int, str]:
    return (0, int(path.stem), "") if path.stem.isdecimal() else (1, 0, path.stem)


def _visits(row: dict[str, Any], place: str) -> tuple[int, list[int]]:
    size, successes = row.get("group_size"), row["successes"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f'{place}: "group_size" is {size!r}; give the number of responses per visit.')
    if not isinstance(successes, list) or not successes:
        raise InputError(
            f'{place}: "successes" is {successes!r}; give a list with the number of successes of each visit.'
        )
    for count in successes:
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= size:
            raise InputError(f"{place}: {count!r} successes of {size}; give a whole number from 0 to {size}.")
    return size, successes


def _group(values: Mapping[str, Any], place: str, columns: tuple[str, ...]) -> tuple[str, bool]:
    """Return the question that a row names, or the hash of its prompt, and whether it is the latter."""
    group, prompt = _first(values, columns), _first(values, PROMPT_COLUMNS)
    if isinstance(group, str | int) and not isinstance(group, bool) and str(group).strip():
        return str(group) if len(str(group)) <= _LONGEST_ID else content_id("question", str(group)), False
    if group is not None:
        raise InputError(f"{place}: the question's id is {group!r}; give text or a number.")
    if isinstance(prompt, str) and prompt.strip():
        return content_id("prompt", prompt), True
    names = ", ".join(f'"{name}"' for name in (*columns, *PROMPT_COLUMNS))
    raise InputError(f"{place}: the row does not identify its question. Add one of {names}.")


def _variant(
    variants: dict[str, dict[str, int]], group_id: str, values: Mapping[str, Any], place: str
) -> tuple[int, str | None]:
    """Return the variant of a row's prompt, and the id of its neighbor; `variants` has those before."""
    variant = _whole(values, ("variant",), place)
    neighbor = _first(values, ("neighbor_id", "neighbor"))
    if neighbor is not None and not isinstance(neighbor, str | int):
        raise InputError(
            f'{place}: "neighbor_id" is {neighbor!r}, not the id of a neighbor (null: original).'
        )
    if neighbor is None or variant == ORIGINAL:
        return variant or ORIGINAL, None
    numbers = variants.setdefault(group_id, {})
    before = numbers.setdefault(str(neighbor), variant or len(numbers) + 1)
    if variant not in (None, before):
        raise InputError(f"{place}: neighbor {neighbor} is variant {variant} here but {before} earlier.")
    return before, str(neighbor)


def _correct(values: Mapping[str, Any], place: str, threshold: float | None) -> bool | None:
    name = next((name for name in REWARD_COLUMNS if name in values), None)
    if name is None:
        names = ", ".join(f'"{name}"' for name in REWARD_COLUMNS)
        raise InputError(f"{place}: has no reward. Add one of {names}.")
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
        f'{place}: "{name}" is {value!r}, not 0, 1 or -1. Set the threshold for a correct response with '
        "--correct-above."
    )


def _step(values: Mapping[str, Any], place: str) -> int | str | None:
    step = _first(values, ("step", "global_step", "checkpoint"))
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
