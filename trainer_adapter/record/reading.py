"""The record of a training, read where it is: counts in memory, headers and texts from the files when asked.

A file that is damaged, half copied or missing is named; the rest answers. Queries of one file raise
`DamagedFileError`, queries of many leave the file out and name it in their result.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evaluator.evals.samples import shorten_answer
from service.errors import InputError, NotFoundError
from trainer_adapter.record.counting import current_counts
from trainer_adapter.record.files import (
    COUNTS_FILE,
    METRICS_FILE,
    STEP_KEY,
    TEXTS_KEY,
    TEXTS_PER_GROUP,
    FileState,
    about_file,
    file_state,
    read_headers,
    read_metrics,
    read_run,
    step_path,
    steps_there,
    texts_path,
)
from trainer_adapter.record.groups import RolloutGroup, TrainingCounts
from trainer_adapter.record.parquet import DamagedFileError, footer_hash, read_parquet
from trainer_adapter.record.rollout import TEXTS, RolloutHeader, RolloutRecord

_MISSING = "is missing. Copy it again or restore it."


@dataclass(frozen=True, kw_only=True)
class FoundRollout(RolloutHeader):
    """A rollout of the record; `id` is "STEP:ROW", its place there."""

    id: str


@dataclass(frozen=True)
class GroupColumn:
    """One prompt of a joint group with its responses."""

    variant: int  # 0 for the original
    strategy: str | None
    prompt: str | None  # None if prompts were not kept
    rollouts: tuple[FoundRollout, ...]


@dataclass(frozen=True)
class JointGroup:
    """A question's group at a step."""

    group: RolloutGroup
    columns: tuple[GroupColumn, ...]
    has_tokens: bool  # log-ratios of single tokens were recorded
    problem: str | None  # why texts cannot be read


class Record:
    """The record in one folder. Safe for threads."""

    _last: ClassVar["Record | None"] = None
    """The record whose counts were asked last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = read_run(folder)
        if self.run.name is None and not steps_there(folder) and not (folder / METRICS_FILE).is_file():
            raise InputError(f"{folder}: contains no rollouts (step-*.parquet) and no {METRICS_FILE}.")
        self._lock = threading.Lock()
        self._state: list[FileState] = []
        self._contents: dict[int, str] = {}
        self._problems: tuple[str, ...] = ()
        self._questions = frozenset[str]()
        self._counts: TrainingCounts | None = None
        self._metrics: tuple[FileState, dict[int, dict[str, float]], int] = (None, {}, 0)

    def stamp(self) -> str:
        """Return a text that changes whenever the record does."""
        self._refresh()
        return repr((self._state, self._problems, file_state(self.folder / METRICS_FILE)))

    def counts(self) -> TrainingCounts:
        """Return the counts of all steps, also of those whose responses were pruned."""
        self._refresh()
        with _holding:  # one record keeps its counts in memory: 12 MB for 500,000 responses
            if Record._last is not None and Record._last is not self:
                Record._last._counts = None
            Record._last = self
        with self._lock:
            if self._counts is None:
                self._counts = TrainingCounts(current_counts(self.folder, self.run.name)[0])
            return self._counts

    def questions(self) -> frozenset[str]:
        """Return the ids of all questions."""
        self._refresh()
        return self._questions

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with files, as far as it shows without reading all of them."""
        self._refresh()
        return self._problems

    def contents(self) -> dict[int, str]:
        """Return the steps that have headers in order, with a hash that changes with any of their values."""
        self._refresh()
        return self._contents

    def steps(self) -> list[int]:
        """Return the steps that have headers, in order."""
        return list(self.contents())

    def metrics(self) -> dict[int, dict[str, float]]:
        """Return the metrics of each step, those recorded last."""
        state = file_state(self.folder / METRICS_FILE)
        if state != self._metrics[0]:
            self._metrics = (state, *read_metrics(self.folder))
        return self._metrics[1]

    def unread_metrics(self) -> int:
        """Return the number of lines in `metrics.jsonl` that hold no metrics."""
        self.metrics()
        return self._metrics[2]

    def headers(self, step: int) -> Any:
        """Return the headers of a step as a pyarrow table."""
        try:
            return read_headers(self.folder, self.run.name, step)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{step_path(self.folder, step)}: is missing. Step {step} was pruned or never recorded."
            ) from error

    def texts(self, headers: Any, rows: Sequence[int], column: str = "response") -> dict[int, str]:
        """Return the texts in these rows of a step, by row; rows without one are left out."""
        about = headers.schema.metadata
        step = int(about[STEP_KEY])
        path = texts_path(self.folder, step)
        texts: dict[int, str] = {}
        try:
            if footer_hash(path) != about.get(TEXTS_KEY, b"").decode():
                raise DamagedFileError(
                    f"{path}: is damaged, or does not match {step_path(self.folder, step).name}. Copy both "
                    "again, or resume the training."
                )
            for group in sorted({row // TEXTS_PER_GROUP for row in rows}):
                part = read_parquet(path, {column: "string"}, about_file(None, step), [group])
                first = group * TEXTS_PER_GROUP
                there = [row for row in rows if first <= row < first + len(part)]
                values = part.column(column).take([row - first for row in there]).to_pylist()
                texts |= {row: text for row, text in zip(there, values, strict=True) if text is not None}
        except FileNotFoundError as error:
            raise DamagedFileError(f"{path}: {_MISSING}") from error
        return texts

    def joint_group(self, step: int, question_id: str) -> JointGroup:
        """Return a question's group at a step, one column per prompt, the original first."""
        groups = [group for group in self.counts().question_history(question_id) if group.step == step]
        if not groups:
            raise NotFoundError(f"step {step} has no responses to question {question_id}.")
        headers = self.headers(step)
        rows = np.flatnonzero(headers["question_id"].to_numpy() == question_id).tolist()
        by_variant: dict[int, list[FoundRollout]] = {}
        for rollout in found_rollouts(headers, rows):
            by_variant.setdefault(rollout.variant, []).append(rollout)
        first = {variant: place_of(drawn[0].id)[1] for variant, drawn in sorted(by_variant.items())}
        prompts, ratios, problem = dict[int, str](), dict[int, str](), None
        try:
            prompts = self.texts(headers, list(first.values()), "prompt")
            ratios = self.texts(headers, list(first.values()), "token_ratios")
        except DamagedFileError as error:
            problem = str(error)
        columns = tuple(
            GroupColumn(
                variant, by_variant[variant][0].strategy, prompts.get(row), tuple(by_variant[variant])
            )
            for variant, row in first.items()
        )
        return JointGroup(groups[0], columns, bool(ratios), problem)

    def rollout(self, rollout_id: str) -> RolloutRecord:
        """Return a rollout with its texts."""
        step, row = place_of(rollout_id)
        headers = self.headers(step)
        if row >= len(headers):
            raise NotFoundError(f"there is no rollout {rollout_id}: step {step} has {len(headers):,}.")
        [values] = headers.slice(row, 1).to_pylist()
        values |= {name: self.texts(headers, [row], name).get(row) for name in TEXTS}
        return RolloutRecord(**_shortened(values))

    def prune(self, *, keep_every: int, keep_last: int, remove: bool) -> dict[str, Any]:
        """Remove the responses of all but every `keep_every`-th and the last `keep_last` steps.

        Return the steps, rollouts, files and bytes; without `remove` nothing is removed. Counts and metrics
        stay.
        """
        steps = self.steps()
        steps = [step for step in steps[: max(0, len(steps) - keep_last)] if step % keep_every]
        # texts last, since texts without headers are never read
        paths = [path(self.folder, step) for step in steps for path in (step_path, texts_path)]
        paths = [path for path in paths if path.is_file()]
        pruned = {
            "removed": remove,
            "steps": steps,
            "rollouts": sum(s.responses for s in self.counts().page_steps() if s.step in steps),
            "files": [str(path) for path in paths],
            "bytes": sum(path.stat().st_size for path in paths),
        }
        for path in paths if remove else ():
            path.unlink(missing_ok=True)
        return pruned

    def _refresh(self) -> None:
        """Read counts and footers again if the folder or its counts have changed, or a damaged file has."""
        with self._lock:
            damaged = bool(self._problems)  # a file may be copied again at any time
            files = self.folder.glob("*.parquet") if damaged else [self.folder / COUNTS_FILE]
            state = [file_state(each) for each in (self.folder, *sorted(files))]
            if state == self._state:
                return
            table, self._contents, problems = current_counts(self.folder, self.run.name)
            self._questions = frozenset(table["question_id"].unique().to_pylist())
            texts = set(steps_there(self.folder, "texts"))  # written before headers, so looked for later
            missing = [texts_path(self.folder, step) for step in self._contents if step not in texts]
            self._problems = (*problems, *(f"{path}: {_MISSING}" for path in missing))
            self._counts = None
            self._state = state if bool(self._problems) == damaged else []  # what to look at has changed


_holding = threading.Lock()


def place_of(rollout_id: str) -> tuple[int, int]:
    """Return step and row of a rollout's id."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", rollout_id, re.ASCII)
    if match is None:
        raise InputError(
            f"{rollout_id!r} is not a rollout id. Give STEP:ROW, as `tagrpo train rollouts` shows it."
        )
    return int(match[1]), int(match[2])


def found_rollouts(headers: Any, rows: Sequence[int]) -> list[FoundRollout]:
    """Return these rows of a step as values."""
    values = headers.take(rows).to_pylist() if len(rows) else []
    return [
        FoundRollout(**_shortened(row), id=f"{row['step']}:{place}")
        for place, row in zip(rows, values, strict=True)
    ]


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "extracted": shorten_answer(row["extracted"])}
