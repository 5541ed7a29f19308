"""Responses to diagnose: of eval runs over a neighbor set, or training rollouts from files.

A run without neighbors gives originals only. A file of rollouts has one row per response, as JSON Lines or
parquet. A folder holds parquet files, or JSON Lines as verl 0.9 writes them to `trainer.rollout_data_dir`
(`STEP.jsonl` with input, output, gts, score, step and what the reward function adds). If there are both, the
parquet files are read. Records of tagrpo's own trainings have their own reader (`trainer_adapter.record`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.evals.counts import count_samples, count_tokens
from evaluator.evals.overview import choose_version
from evaluator.evals.runs import find_eval_run
from evaluator.evals.tables import RunProblemRow, SampleRow, SampleTextRow
from evaluator.grading.versions import find_grader
from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    PromptSample,
    QuestionGroup,
    ResponseSource,
    Texts,
)
from service.database import Database, in_parts
from service.errors import InputError
from service.hashing import content_id
from service.questions.files import open_file, read_objects
from service.runs.store import Run

_GROUPS_AT_ONCE = 20
_COUNTED = ("variant", "correct", "wrong", "unknown", "strategy", "source_id")


def eval_source(database: Database, references: Sequence[str]) -> ResponseSource:
    """Return the responses of eval runs, a checkpoint each, cut down to the questions that all of them hold.

    Their texts are read while the database is open.
    """
    with database.read() as session:
        runs = load_runs(session, references)
    held = [{group.group_id for group in run.groups} for run in runs]
    common, every = set.intersection(*held), set.union(*held)
    if not common:
        labels = ", ".join(run.label for run in runs)
        raise InputError(f"{labels} have no common question. Use runs over the same questions.")
    checkpoints = tuple(
        CheckpointGroups(run.label, tuple(group for group in run.groups if group.group_id in common))
        for run in runs
    )
    left_out = len(every) - len(common)
    notes = (f"questions that some of the runs lack, excluded: {left_out:,}",) if left_out else ()
    return ResponseSource(
        ", ".join(references), checkpoints, lambda label, ids: _read_texts(database, label, ids), notes
    )


def load_runs(session: Session, references: Sequence[str]) -> list[CheckpointGroups]:
    """Return a checkpoint for each eval run, in the order given, labelled by the run's name.

    All are graded by one version of the grader that graded every sample of all runs.
    """
    runs = [find_eval_run(session, reference) for reference in references]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise InputError(f"a run appears twice in {', '.join(names)}. Give each run once.")
    grader = find_grader(session, choose_version(session, runs))
    return [_load(session, run, grader) for run in runs]


def _read_texts(database: Database, reference: str, group_ids: Sequence[str]) -> Iterator[Texts]:
    """Yield the responses of these questions of a run, some questions at a time."""
    with database.read() as session:
        run = find_eval_run(session, reference)
    for part in in_parts(group_ids, _GROUPS_AT_ONCE):
        by_group: dict[str, dict[int, list[str]]] = {group_id: {} for group_id in part}
        with database.read() as session:
            rows = session.execute(
                select(RunProblemRow.group_id, RunProblemRow.variant, SampleTextRow.text)
                .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
                .join(SampleTextRow, SampleTextRow.sample_id == SampleRow.id)
                .where(RunProblemRow.run_id == run.id, RunProblemRow.group_id.in_(part))
                .order_by(RunProblemRow.position, SampleRow.ordinal)
            )
            for group_id, variant, text in rows:
                by_group[group_id].setdefault(variant, []).append(text)
        yield from by_group.items()


def _load(session: Session, run: Run, grader: int | None) -> CheckpointGroups:
    counts = count_samples(session, run.id, grader, "grader")  # as a reward, which no person gives
    tokens = count_tokens(session, run.id, counts)
    groups: dict[str, list[PromptSample]] = {}
    for problem in counts:
        total, counted = tokens.get(problem.id, (0, 0))
        of_problem = {name: getattr(problem, name) for name in _COUNTED}
        prompt = PromptSample(**of_problem, tokens=total, token_samples=counted)
        groups.setdefault(problem.group_id, []).append(prompt)
    if all(prompt.variant != ORIGINAL for prompts in groups.values() for prompt in prompts):
        raise InputError(f"run {run.name} contains no original questions to compare with.")
    return CheckpointGroups(
        run.name, tuple(QuestionGroup(group_id, tuple(prompts)) for group_id, prompts in groups.items())
    )


WINDOWS = 5
"""Stretches of training: the paper's Figure 3 shows the base model and four checkpoints."""

Step = int | str | None

_LONGEST_ID = 80
_REWARDS = ("correct", "reward", "score", "grade")
_BY_PROMPT = (
    "some rows have no question id, so each of their prompts counts as a separate question and "
    "neighbors look like originals. Add question_id and neighbor_id to every row."
)


def _column(*names: str, **constraints: Any) -> Any:
    """Return a field read from the first of these columns that has a value."""
    return Field(None, validation_alias=AliasChoices(*names), **constraints)


class _RolloutRow(BaseModel):
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


def file_source(path: Path, *, windows: int = WINDOWS, threshold: float | None = None) -> ResponseSource:
    """Return the rollouts as checkpoints: stretches of steps with about equally many steps each.

    Responses to one question at one step are one group. Neighbors of a question are numbered by variant if
    rows have one, otherwise in the order in which their ids appear. A reward is 0 or 1, -1 or 1, true or
    false, a grade (correct, wrong, unknown), or null for unknown. Any other number needs a `threshold`: above
    it the response is correct.
    """
    visits: dict[Step, dict[str, dict[int, PromptSample]]] = {}
    by_prompt = False
    for _, step, group_id, sample, row in _read(path, threshold):
        prompts = visits.setdefault(step, {}).setdefault(group_id, {})
        before = prompts.get(sample.variant)
        prompts[sample.variant] = sample if before is None else before + sample
        by_prompt = by_prompt or row.question is None
    if not visits:
        raise InputError(f"{path}: contains no rollouts.")
    groups = {
        step: [QuestionGroup(group_id, tuple(prompts.values())) for group_id, prompts in by_question.items()]
        for step, by_question in visits.items()
    }
    stretches = {_label(steps): steps for steps in _stretches(list(visits), windows)}
    checkpoints = tuple(
        CheckpointGroups(label, tuple(group for step in steps for group in groups[step]))
        for label, steps in stretches.items()
    )

    def read_texts(label: str, group_ids: Sequence[str]) -> Iterator[Texts]:
        texts: dict[str, dict[int, list[str]]] = {group_id: {} for group_id in group_ids}
        for place, step, group_id, sample, row in _read(path, threshold):
            if group_id in texts and step in stretches[label]:
                if row.response is None:
                    raise InputError(f'{place}: has no "response". Diversity needs the response texts.')
                texts[group_id].setdefault(sample.variant, []).append(row.response)
        yield from texts.items()

    return ResponseSource(str(path), checkpoints, read_texts, (_BY_PROMPT,) if by_prompt else ())


def _read(path: Path, threshold: float | None) -> Iterator[tuple[str, Step, str, PromptSample, _RolloutRow]]:
    """Yield place, step, question, counts and row of each response."""
    variants: dict[str, dict[str, int]] = {}
    for place, values, file_step in _rows(path):
        row = _parse(values, place)
        if row.question is not None and str(row.question).strip():
            name = str(row.question)
            group_id = name if len(name) <= _LONGEST_ID else content_id("question", name)
        elif row.prompt is not None and row.prompt.strip():
            group_id = content_id("prompt", row.prompt)
        else:
            raise InputError(f'{place}: the row has no question. Add "question_id" or "prompt".')
        if not values.keys() & set(_REWARDS):
            raise InputError(f"{place}: has no reward. Add one of {', '.join(_REWARDS)}.")
        variant = _number_variant(variants.setdefault(group_id, {}), row, place)
        grade = _grade(row.reward, threshold, place)
        sample = PromptSample(
            variant,
            **{name: int(grade == name) for name in ("correct", "wrong", "unknown")},
            strategy=row.strategy,
            source_id=group_id if not variant else None if row.neighbor is None else str(row.neighbor),
            tokens=row.tokens or 0,
            token_samples=int(row.tokens is not None),
        )
        yield place, file_step if row.step is None else row.step, group_id, sample, row


def _parse(values: Mapping[str, Any], place: str) -> _RolloutRow:
    reward = next((name for name in _REWARDS if name in values), None)
    filled = {
        name: value
        for name, value in values.items()
        if value is not None and (name == reward or name not in _REWARDS)
    }
    try:
        return _RolloutRow.model_validate(filled)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        name, value = problems[0]["loc"][0], problems[0]["input"]
        wishes = "; or ".join(dict.fromkeys(each["msg"] for each in problems if each["loc"][0] == name))
        raise InputError(f'{place}: "{name}" is {value!r}: {wishes}.') from None


def _number_variant(numbers: dict[str, int], row: _RolloutRow, place: str) -> int:
    """Return the variant of a row's prompt; `numbers` has those of the question's neighbors so far."""
    if row.neighbor is None or row.variant == ORIGINAL:
        return row.variant or ORIGINAL
    before = numbers.setdefault(str(row.neighbor), row.variant or len(numbers) + 1)
    if row.variant not in (None, before):
        raise InputError(
            f"{place}: neighbor {row.neighbor} is variant {row.variant} here but {before} in an earlier row."
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


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any], Step]]:
    """Yield place, row and the step in the file's name. Columns of verl's `extra_info` join the row's."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    files = [path]
    if path.is_dir():
        by_number = sorted(path.glob("*.jsonl"), key=lambda file: (len(file.stem), file.stem))
        files = sorted(path.glob("*.parquet")) or by_number
    if not files:
        raise InputError(f"{path}: the folder contains no .jsonl or .parquet files.")
    for file in files:
        step = int(file.stem) if path.is_dir() and file.stem.isdecimal() else None
        rows: Iterator[tuple[str, Mapping[str, Any]]] = (
            ((row.place, row.values) for row in open_file(file).rows)
            if file.suffix == ".parquet"
            else ((f"{file}:{number}", row) for number, row in read_objects(file, "with a reward"))
        )
        for place, row in rows:
            inner = row.get("extra_info")
            yield place, {**inner, **row} if isinstance(inner, Mapping) else row, step


def _stretches(steps: list[Step], windows: int) -> list[list[Step]]:
    """Return the steps in order, cut into `windows` stretches; names keep the order they were read in."""
    numbered = sorted(step for step in steps if isinstance(step, int))
    if len(numbered) < len(steps):  # each checkpoint with a name is a stretch
        return [[step] for step in (*numbered, *(step for step in steps if not isinstance(step, int)))]
    return [part.tolist() for part in np.array_split(numbered, min(windows, len(numbered)))]


def _label(steps: Sequence[Step]) -> str:
    if steps == [None]:
        return "all"
    if not isinstance(steps[0], int):
        return str(steps[0])
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
