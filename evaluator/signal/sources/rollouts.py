"""Rollouts of training from files: one row per response, or one row per prompt with the counts of its visits.

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
    add_samples,
)
from service.errors import InputError, first_line
from service.hashing import content_id
from service.json_lines import read_objects

WINDOWS = 5
"""Stretches of training: the paper's Figure 3 shows the base model and four checkpoints."""

ALL = "all"
Step = int | str | None
Values = Mapping[str, Any]

_GROUP = ("group_id", "question_id", "group", "question")
_NEIGHBOR = ("neighbor_id", "neighbor")
_REWARD = ("correct", "reward", "score", "grade")
_RESPONSE = ("response", "output", "text")
_TOKENS = ("tokens", "response_tokens", "response_length", "completion_tokens")
_STEP = ("step", "global_step", "checkpoint")
_PROMPT = ("input", "prompt")
_LONGEST_ID = 80
_GRADES = {"correct": True, "wrong": False, "unknown": None}


@dataclass(frozen=True)
class Rollouts:
    """What was read. `by_prompt`: rows name no question, so each prompt counts as a question of its own."""

    checkpoints: tuple[CheckpointGroups, ...]
    steps: tuple[tuple[Step, ...], ...]
    responses: int
    by_prompt: bool


def file_source(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> ResponseSource:
    """Return the responses of a file or folder of rollouts, as `read_rollouts` reads them."""
    rollouts = read_rollouts(path, windows=windows, threshold=threshold)
    steps = {each.label: part for each, part in zip(rollouts.checkpoints, rollouts.steps, strict=True)}
    by_prompt = (
        "some rows name no question, so each of their prompts counts as a question: neighbors cannot be told "
        "from originals (give question_id and neighbor_id on every rollout)"
    )
    return ResponseSource(
        str(path),
        rollouts.checkpoints,
        lambda label, ids: rollout_texts(path, steps[label], ids),
        (by_prompt,) if rollouts.by_prompt else (),
    )


def read_rollouts(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> Rollouts:
    """Return the rollouts as checkpoints: stretches of steps with about equally many steps each.

    Responses to one question at one step are one group; the neighbors of a question are numbered by variant
    if rows have one, else in the order in which their ids appear. Visits in a row of counts are numbered in
    time as steps.

    Args:
        threshold: rewards above it are of correct responses; not needed for 0/1, -1/1, true/false, grades
            (correct, wrong, unknown), and null for unknown.

    Raises:
        InputError: no such file, no rows, or a row that cannot be used; the message names file and line.
    """
    if windows < 1:
        raise InputError(f"--windows is {windows}; give 1 or more.")
    visits: dict[Step, dict[str, dict[int, PromptSample]]] = {}
    variants: dict[str, dict[str, int]] = {}
    responses, by_prompt = 0, False
    for place, row, file_step in _rows(path):
        counted = "successes" in row
        group_id, unnamed = _group(row, place, (*_GROUP, "id") if counted else _GROUP)
        variant = _variant(variants, group_id, row, place)
        strategy = row["strategy"] if isinstance(row.get("strategy"), str) else None
        neighbor = _first(row, _NEIGHBOR)
        source_id = group_id if variant == ORIGINAL else None if neighbor is None else str(neighbor)
        about = variant, strategy, source_id
        if counted:
            for number, sample in enumerate(_counted(row, place, *about), start=1):
                group = visits.setdefault(number, {}).setdefault(group_id, {})
                if variant in group:
                    raise InputError(
                        f"{place}: variant {variant} of question {group_id} was there before; give one row "
                        "per prompt."
                    )
                group[variant] = sample
                responses += sample.known
            continue
        correct, tokens = _correct(row, place, threshold), _whole(row, _TOKENS, place)
        sample = PromptSample(
            variant,
            int(correct is True),
            int(correct is False),
            int(correct is None),
            strategy,
            source_id,
            tokens or 0,
            int(tokens is not None),
        )
        group = visits.setdefault(_step(row, place, file_step), {}).setdefault(group_id, {})
        group[variant] = add_samples(group[variant], sample) if variant in group else sample
        responses += 1
        by_prompt = by_prompt or unnamed
    if not responses:
        raise InputError(f"{path}: there are no rollouts in it.")
    stretches = _stretches(list(visits), windows)
    checkpoints = [
        CheckpointGroups(
            _label(steps),
            tuple(
                QuestionGroup(group_id, tuple(group.values()))
                for step in steps
                for group_id, group in visits[step].items()
            ),
        )
        for steps in stretches
    ]
    return Rollouts(tuple(checkpoints), tuple(map(tuple, stretches)), responses, by_prompt)


def rollout_texts(path: Path, steps: Collection[Step], group_ids: Sequence[str]) -> Iterator[GroupTexts]:
    """Yield the responses of these questions at these steps; they are held in memory, so choose some.

    Raises:
        InputError: as `read_rollouts`, or a row has no text of its response.
    """
    wanted: dict[str, dict[int, list[str]]] = {group_id: {} for group_id in group_ids}
    variants: dict[str, dict[str, int]] = {}
    for place, row, file_step in _rows(path):
        if "successes" in row:
            raise InputError(
                f"{place}: counts of successes have no responses whose diversity could be shown."
            )
        group_id, _ = _group(row, place, _GROUP)
        variant = _variant(variants, group_id, row, place)
        if group_id not in wanted or _step(row, place, file_step) not in steps:
            continue
        response = _first(row, _RESPONSE)
        if not isinstance(response, str):
            raise InputError(f'{place}: has no "response"; diversity needs the texts of responses.')
        wanted[group_id].setdefault(variant, []).append(response)
    for group_id, prompts in wanted.items():
        yield GroupTexts(group_id, {variant: tuple(texts) for variant, texts in prompts.items()})


def read_visits(path: Path) -> list[list[tuple[int, int]]]:
    """Return for each prompt of a file of visits its (successes, group size) in time order.

    Raises:
        InputError: as `read_rollouts`, or a row that is not a row of visits.
    """
    visits = []
    for place, row, _ in _rows(path):
        if "successes" not in row:
            raise InputError(f'{place}: has no "successes"; this needs rows of visits in time order.')
        visits.append([(sample.correct, sample.known) for sample in _counted(row, place, 0, None, None)])
    if not visits:
        raise InputError(f"{path}: there are no rows in it.")
    return visits


def _rows(path: Path) -> Iterator[tuple[str, Values, Step]]:
    """Yield (place, row, step by the file's name) of all files; `extra_info` (verl) becomes part of a row."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    files = [path]
    if path.is_dir():
        numbered = sorted(path.glob("*.jsonl"), key=lambda each: (len(each.stem), each.stem))
        files = sorted(path.glob("*.parquet")) or numbered
    if not files:
        raise InputError(f"{path}: this folder holds no .jsonl files and no .parquet files.")
    for file in files:
        step = int(file.stem) if path.is_dir() and file.stem.isdecimal() else None
        if file.suffix == ".parquet":
            rows, step = _parquet_rows(file), None
        else:
            lines = read_objects(file, "with a question's id and a reward")
            rows = ((f"{file}:{number}", row) for number, row in lines)
        for place, row in rows:
            inner = row.get("extra_info")
            yield place, {**inner, **row} if isinstance(inner, Mapping) else row, step


def _parquet_rows(file: Path) -> Iterator[tuple[str, Values]]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    number = 0
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for part in opened.iter_batches(batch_size=1024):
                for row in part.to_pylist():
                    number += 1
                    yield f"{file}: row {number}", row
    except (OSError, ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file}: no whole parquet file ({first_line(error)}).") from error


def _group(row: Values, place: str, columns: tuple[str, ...]) -> tuple[str, bool]:
    """Return the id of the question, and whether the text of the prompt replaces it."""
    group = _first(row, columns)
    if isinstance(group, str | int) and not isinstance(group, bool) and str(group).strip():
        text = str(group)  # a question's text is named by its hash
        return text if len(text) <= _LONGEST_ID else content_id("question", text), False
    if group is not None:
        raise InputError(f"{place}: the question's id is {group!r}; give text or a number.")
    prompt = _first(row, _PROMPT)
    if isinstance(prompt, str) and prompt.strip():
        return content_id("prompt", prompt), True
    names = ", ".join(f'"{name}"' for name in (*columns, *_PROMPT))
    raise InputError(f"{place}: nothing tells which question it answers; give one of {names}.")


def _variant(variants: dict[str, dict[str, int]], group_id: str, row: Values, place: str) -> int:
    """Return the number of the prompt; `variants` are the numbers of neighbors by id and question."""
    given, neighbor = _whole(row, ("variant",), place), _first(row, _NEIGHBOR)
    if neighbor is not None and not isinstance(neighbor, str | int):
        raise InputError(
            f'{place}: "neighbor_id" is {neighbor!r}, not the id of a neighbor (null: original).'
        )
    numbers = variants.setdefault(group_id, {})
    if neighbor is None or given == ORIGINAL:
        return given or ORIGINAL
    number = numbers.setdefault(str(neighbor), len(numbers) + 1 if given is None else given)
    if given not in (None, number):
        raise InputError(f"{place}: neighbor {neighbor} is variant {given} here and {number} before.")
    return number


def _counted(
    row: Values, place: str, variant: int, strategy: str | None, source_id: str | None
) -> Iterator[PromptSample]:
    """Yield the visits of a row of counts in time order."""
    size, successes, tokens = row.get("group_size"), row["successes"], row.get("mean_tokens")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f'{place}: "group_size" is {size!r}; give the number of responses of a visit.')
    if not isinstance(successes, list) or not successes:
        raise InputError(
            f'{place}: "successes" is {successes!r}; give the successes of each visit in a list.'
        )
    for count in successes:
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= size:
            raise InputError(f"{place}: {count!r} successes of {size}; give whole numbers from 0 to {size}.")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int | float) or tokens < 0):
        raise InputError(f'{place}: "mean_tokens" is {tokens!r}; give the mean tokens of a response.')
    spent = (0, 0) if tokens is None else (round(tokens * size), size)
    for count in successes:
        yield PromptSample(variant, count, size - count, 0, strategy, source_id, *spent)


def _correct(row: Values, place: str, threshold: float | None) -> bool | None:
    """Return whether a response is correct; None for an unknown grade."""
    name = next((name for name in _REWARD if name in row), None)
    if name is None:
        raise InputError(f"{place}: has no reward; give one of {', '.join(f'{each!r}' for each in _REWARD)}.")
    value = row[name]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _GRADES:
        return _GRADES[value]
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


def _step(row: Values, place: str, file_step: Step) -> Step:
    step = _first(row, _STEP)
    if step is None:
        return file_step
    if isinstance(step, int | str) and not isinstance(step, bool):
        return step
    raise InputError(f'{place}: "step" is {step!r}; give a whole number or a name.')


def _whole(row: Values, names: tuple[str, ...], place: str) -> int | None:
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        return None
    value = row[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f'{place}: "{name}" is {value!r}; give a whole number, 0 or more.')
    return value


def _first(row: Values, names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _stretches(steps: list[Step], windows: int) -> list[list[Step]]:
    """Return the steps in order, cut into `windows` stretches; named checkpoints are one stretch each."""
    numbered = [step for step in steps if isinstance(step, int)]
    ordered: list[Step] = [*sorted(numbered), *(step for step in steps if not isinstance(step, int))]
    if len(numbered) < len(steps):
        return [[step] for step in ordered]
    count = min(windows, len(ordered))
    bounds = [round(number * len(ordered) / count) for number in range(count + 1)]
    return [ordered[low:high] for low, high in pairwise(bounds)]


def _label(steps: Sequence[Step]) -> str:
    if not isinstance(steps[0], int):
        return ALL if steps[0] is None else steps[0]
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
