"""Rollouts of training from files: one row a response, or one row a prompt with the counts of its visits.

A file is JSON Lines or parquet. A folder holds parquet files, or JSON Lines as verl 0.9 writes them to
`trainer.rollout_data_dir` (`STEP.jsonl` with input, output, gts, score, step and what the reward function
adds). If there are both, the parquet files are read. Records of tagrpo's own trainings have their own reader
(`trainer_adapter.record`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    GroupTexts,
    PromptSample,
    QuestionGroup,
    Source,
)
from evaluator.signal.sources.rollout_rows import COUNT_COLUMNS, Prompt, Rollout, read_prompt, read_rollout
from service.errors import InputError, first_line
from service.json_lines import read_objects

WINDOWS = 5
"""Stretches of training: the paper's Figure 3 shows the base model and four checkpoints."""

ALL = "all"
Step = int | str | None


@dataclass
class _Tally:
    correct: int = 0
    wrong: int = 0
    unknown: int = 0
    tokens: int = 0
    token_samples: int = 0
    strategy: str | None = None


@dataclass
class _Visit:
    """Responses to one question at one step, by variant."""

    prompts: dict[int, _Tally] = field(default_factory=dict)


@dataclass(frozen=True)
class Rollouts:
    """What was read. `by_prompt`: rows name no question, so each prompt counts as a question of its own."""

    checkpoints: tuple[CheckpointGroups, ...]
    steps: tuple[tuple[Step, ...], ...]
    responses: int
    by_prompt: bool


def file_source(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> Source:
    """Return the responses of a file or folder of rollouts, as `read_rollouts` reads them."""
    rollouts = read_rollouts(path, windows=windows, threshold=threshold)
    steps = {each.label: part for each, part in zip(rollouts.checkpoints, rollouts.steps, strict=True)}
    by_prompt = (
        "some rows name no question, so each of their prompts counts as a question: neighbors cannot be told "
        "from originals (give question_id and neighbor_id on every rollout)"
    )
    return Source(
        str(path),
        rollouts.checkpoints,
        lambda label, ids: rollout_texts(path, steps[label], ids, threshold=threshold),
        (by_prompt,) if rollouts.by_prompt else (),
    )


def read_rollouts(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> Rollouts:
    """Return the rollouts as checkpoints: stretches of steps with about equally many steps each.

    Responses to one question at one step are one group; the neighbors of a question are numbered by variant
    where rows have one, else in the order in which their ids appear.

    Raises:
        InputError: no such file, no rows, or a row that cannot be used; the message names file and line.
    """
    if windows < 1:
        raise InputError(f"--windows is {windows}; give 1 or more.")
    visits: dict[Step, dict[str, _Visit]] = {}
    variants: dict[str, dict[str, int]] = {}
    responses, by_prompt = 0, False
    for place, row, file_step in _rows(path):
        if "successes" in row:
            responses += _add_counts(visits, variants, row, place)
            continue
        rollout = read_rollout(row, place, threshold=threshold)
        step = rollout.step if rollout.step is not None else file_step
        visit = visits.setdefault(step, {}).setdefault(rollout.group_id, _Visit())
        _add(visit, _variant(variants, rollout, place), rollout)
        responses += 1
        by_prompt = by_prompt or rollout.by_prompt
    if not responses:
        raise InputError(f"{path}: there are no rollouts in it.")
    stretches = _stretches(list(visits), windows)
    ids = {group: {number: id for id, number in numbers.items()} for group, numbers in variants.items()}
    checkpoints = [
        CheckpointGroups(
            _label(steps),
            tuple(
                _group(group_id, visit, ids.get(group_id, {}))
                for step in steps
                for group_id, visit in visits[step].items()
            ),
        )
        for steps in stretches
    ]
    return Rollouts(tuple(checkpoints), tuple(map(tuple, stretches)), responses, by_prompt)


def rollout_texts(
    path: Path, steps: Collection[Step], group_ids: Sequence[str], *, threshold: float | None = None
) -> Iterator[GroupTexts]:
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
        rollout = read_rollout(row, place, threshold=threshold)
        variant = _variant(variants, rollout, place)
        step = rollout.step if rollout.step is not None else file_step
        if rollout.group_id not in wanted or step not in steps:
            continue
        if rollout.response is None:
            raise InputError(f'{place}: has no "response"; diversity needs the texts of responses.')
        wanted[rollout.group_id].setdefault(variant, []).append(rollout.response)
    for group_id, prompts in wanted.items():
        yield GroupTexts(group_id, {variant: tuple(texts) for variant, texts in prompts.items()})


def read_visits(path: Path) -> list[list[tuple[int, int]]]:
    """Return for each prompt of a file of visits its (successes, group size) in time order.

    Raises:
        InputError: as `read_rollouts`, or a row that is no row of visits.
    """
    visits = []
    for place, row, _ in _rows(path):
        if "successes" not in row:
            raise InputError(f'{place}: has no "successes"; this needs rows of visits in time order.')
        size, successes = _visits(row, place)
        visits.append([(count, size) for count in successes])
    if not visits:
        raise InputError(f"{path}: there are no rows in it.")
    return visits


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any], Step]]:
    """Yield (place, row, step by the file's name) of all files."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("*.parquet")) or sorted(path.glob("*.jsonl"), key=_by_number)
    if not files:
        raise InputError(f"{path}: this folder holds no .jsonl files and no .parquet files.")
    for file in files:
        if file.suffix == ".parquet":
            yield from _parquet_rows(file)
            continue
        step = int(file.stem) if path.is_dir() and file.stem.isdecimal() else None
        for number, row in read_objects(file, "with a question's id and a reward"):
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
        raise InputError(f"{file}: no whole parquet file ({first_line(error)}).") from error


def _by_number(path: Path) -> tuple[int, int, str]:
    return (0, int(path.stem), "") if path.stem.isdecimal() else (1, 0, path.stem)


def _visits(row: dict[str, Any], place: str) -> tuple[int, list[int]]:
    size, successes = row.get("group_size"), row["successes"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f'{place}: "group_size" is {size!r}; give the number of responses of a visit.')
    if not isinstance(successes, list) or not successes:
        raise InputError(
            f'{place}: "successes" is {successes!r}; give the successes of each visit in a list.'
        )
    for count in successes:
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= size:
            raise InputError(f"{place}: {count!r} successes of {size}; give whole numbers from 0 to {size}.")
    return size, successes


def _add_counts(
    visits: dict[Step, dict[str, _Visit]],
    variants: dict[str, dict[str, int]],
    row: dict[str, Any],
    place: str,
) -> int:
    """Add a prompt's visits, numbered in time as steps; return the number of responses."""
    size, successes = _visits(row, place)
    prompt = read_prompt(row, place, COUNT_COLUMNS)
    variant = _variant(variants, prompt, place)
    tokens = row.get("mean_tokens")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int | float) or tokens < 0):
        raise InputError(f'{place}: "mean_tokens" is {tokens!r}; give the mean tokens of a response.')
    for number, count in enumerate(successes, start=1):
        tallies = visits.setdefault(number, {}).setdefault(prompt.group_id, _Visit()).prompts
        if variant in tallies:
            raise InputError(
                f"{place}: variant {variant} of question {prompt.group_id} was there before; give one row a "
                "prompt."
            )
        tally = _Tally(correct=count, wrong=size - count, strategy=prompt.strategy)
        if tokens is not None:
            tally.tokens, tally.token_samples = round(tokens * size), size
        tallies[variant] = tally
    return size * len(successes)


def _variant(variants: dict[str, dict[str, int]], rollout: Prompt, place: str) -> int:
    if rollout.neighbor is None:
        return rollout.variant or ORIGINAL
    numbers = variants.setdefault(rollout.group_id, {})
    if rollout.variant is None:
        return numbers.setdefault(rollout.neighbor, len(numbers) + 1)
    before = numbers.setdefault(rollout.neighbor, rollout.variant)
    if before != rollout.variant:
        raise InputError(
            f"{place}: neighbor {rollout.neighbor} is variant {rollout.variant} here and {before} before."
        )
    return before


def _add(visit: _Visit, variant: int, rollout: Rollout) -> None:
    tally = visit.prompts.setdefault(variant, _Tally())
    if rollout.correct is None:
        tally.unknown += 1
    elif rollout.correct:
        tally.correct += 1
    else:
        tally.wrong += 1
    if rollout.tokens is not None:
        tally.tokens += rollout.tokens
        tally.token_samples += 1
    tally.strategy = tally.strategy or rollout.strategy


def _group(group_id: str, visit: _Visit, ids: dict[int, str]) -> QuestionGroup:
    return QuestionGroup(
        group_id,
        tuple(
            PromptSample(
                variant,
                tally.correct,
                tally.wrong,
                tally.unknown,
                tally.strategy,
                group_id if variant == ORIGINAL else ids.get(variant),
                tally.tokens,
                tally.token_samples,
            )
            for variant, tally in visit.prompts.items()
        ),
    )


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
