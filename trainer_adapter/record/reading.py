"""The record of a training, read where it is: counts in memory, headers and texts from the files when asked.

A file that is damaged, half copied or missing is named; the rest answers. Queries of one file raise
`DamagedFileError`, queries of many leave the file out and name it in their result.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.evals.grading import shorten_answer
from evaluator.grading import GradeValue
from service.errors import InputError, NotFoundError
from service.parquet import DamagedFileError, footer_hash
from trainer_adapter.record.files import (
    COUNTS_FILE,
    METRICS_FILE,
    StepHeaders,
    bring_up_to_date,
    count_schema,
    read_counts,
    read_headers,
    read_metrics,
    read_run,
    read_texts,
    step_path,
    steps_there,
    texts_path,
)
from trainer_adapter.record.groups import Counts, RolloutGroup
from trainer_adapter.record.rollout import TEXTS, RolloutRecord, TokenRatios, grade_name

HEADERS_READ, TEXTS_READ = 200_000, 20_000
"""Maximum rollouts that a page of a list, and of a search for a text, looks at."""

RECORDS_OPEN = 4
"""Trainings whose counts stay in memory."""

TEXTS_TOGETHER = 1024
"""Texts that a search holds at a time."""

FileState = tuple[int, int, int] | None
"""Time of the last change, size and inode; None for no file."""


@dataclass(frozen=True)
class RolloutHeader:
    """A rollout without its texts; fields as in `RolloutRecord`.

    `id` is "STEP:ROW", its place in the record; `grade` is correct, wrong or unknown.
    """

    id: str
    step: int
    question_id: str
    variant: int
    neighbor_id: str | None
    strategy: str | None
    group: int
    session: int
    tokens: int
    truncated: bool
    reward: float
    grade: str
    reason: str
    extracted: str | None
    advantage: float | None
    old_log_prob: float | None
    sampling_log_prob: float | None
    ref_log_prob: float | None
    entropy: float | None
    weights_version: int | None

    @property
    def log_ratio(self) -> float | None:
        """Log-ratio in nats, anchor over sampling prompt; None if it was not recorded."""
        if self.old_log_prob is None or self.sampling_log_prob is None:
            return None
        return self.old_log_prob - self.sampling_log_prob

    @property
    def mean_log_ratio(self) -> float | None:
        """Mean log-ratio of a token."""
        return None if self.log_ratio is None or not self.tokens else self.log_ratio / self.tokens


@dataclass(frozen=True)
class GroupColumn:
    """One prompt of a joint group: the original (variant 0) or a neighbor, with its responses.

    `prompt` is None if prompts were not kept.
    """

    variant: int
    neighbor_id: str | None
    strategy: str | None
    prompt: str | None
    rollouts: tuple[RolloutHeader, ...]


@dataclass(frozen=True)
class JointGroup:
    """A question's group at a step.

    `has_tokens`: log-ratios of single tokens were recorded. `problem` says why texts cannot be read.
    """

    group: RolloutGroup
    columns: tuple[GroupColumn, ...]
    has_tokens: bool
    problem: str | None


@dataclass(frozen=True)
class WholeRollout:
    """A rollout with its texts; None for those that were not kept."""

    header: RolloutHeader
    prompt: str | None
    response: str
    token_ratios: TokenRatios | None


@dataclass(frozen=True)
class RolloutFilters:
    """Which rollouts to return; None does not restrict.

    Attributes:
        step: from this step; only this step without `last_step`.
        last_step: to this step.
        question_id: an id, or its beginning.
        variant: 0 for the question's own prompt.
        grade: correct, wrong or unknown.
        least_reward: rewards of this or more.
        most_reward: rewards of this or less.
        text: part of the response; case is ignored.
    """

    step: int | None = None
    last_step: int | None = None
    question_id: str | None = None
    variant: int | None = None
    grade: str | None = None
    least_reward: float | None = None
    most_reward: float | None = None
    truncated: bool | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        if self.grade is not None and self.grade not in list(GradeValue):
            raise InputError(f"{self.grade!r} is not a grade. Choose from {', '.join(GradeValue)}.")


@dataclass(frozen=True)
class RolloutsPage:
    """Some rollouts in order; `after` is the id to continue after, None at the end.

    `problems` name the files that were left out.
    """

    rollouts: tuple[RolloutHeader, ...]
    after: str | None
    problems: tuple[str, ...]


class Record:
    """The record in one folder. Safe for threads.

    Raises:
        InputError: there is no such folder, it holds no record, or its `run.json` cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = read_run(folder)
        if self.run.name is None and not steps_there(folder) and not (folder / METRICS_FILE).is_file():
            raise InputError(f"{folder}: holds no rollouts (step-*.parquet) and no {METRICS_FILE}.")
        self._lock = threading.Lock()
        self._state: tuple[FileState, FileState, list[FileState]] | None = None
        self._contents: dict[int, tuple[FileState, str]] = {}
        self._damaged: dict[int, tuple[FileState, str]] = {}
        self._problems: tuple[str, ...] = ()
        self._counts = Counts(count_schema().empty_table())
        self._metrics: tuple[FileState, dict[int, dict[str, float]], int] = (None, {}, 0)

    def stamp(self) -> str:
        """Return a text that changes whenever the record does."""
        return repr((self._state_now(), file_state(self.folder / METRICS_FILE)))

    def counts(self) -> Counts:
        """Return the counts of all steps, also of those whose responses were pruned."""
        self._refresh()
        return self._counts

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with files, as far as it shows without reading all of them."""
        self._refresh()
        return self._problems

    def steps(self) -> list[int]:
        """Return the steps that have headers, in order."""
        self._refresh()
        return sorted(self._contents)

    def contents(self, first: int, last: int) -> list[str]:
        """Return the hashes of the footers of these steps: other ones if any value changed."""
        return [self._contents[step][1] for step in self.steps() if first <= step <= last]

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

    def headers(self, step: int) -> StepHeaders:
        """Return the headers of a step.

        Raises:
            NotFoundError: the step has none; they may have been pruned.
            DamagedFileError: its file is damaged.
        """
        try:
            return read_headers(self.folder, self.run.name, step)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{step_path(self.folder, step)}: is missing. Step {step} was pruned, or was not recorded."
            ) from error

    def texts(self, headers: StepHeaders, rows: Sequence[int]) -> dict[int, str]:
        """Return the responses in these rows of a step, by row.

        Raises:
            DamagedFileError: the file of texts is damaged or missing.
        """
        return read_texts(self.folder, headers, rows, "response")

    def joint_group(self, step: int, question_id: str) -> JointGroup:
        """Return a question's group at a step, one column per prompt, the original first.

        Raises:
            NotFoundError: there are no responses to the question at this step.
            DamagedFileError: the step's headers are damaged.
        """
        groups = [group for group in self.counts().question_history(question_id) if group.step == step]
        if not groups:
            raise NotFoundError(f"step {step} has no responses to question {question_id}.")
        headers = self.headers(step)
        rows = matching_rows(headers, RolloutFilters(question_id=question_id))
        rollouts = [header for header in to_headers(headers, rows) if header.question_id == question_id]
        first = {header.variant: place_of(header.id)[1] for header in reversed(rollouts)}
        prompts, ratios, problem = dict[int, str](), dict[int, str](), None
        try:
            prompts = read_texts(self.folder, headers, list(first.values()), "prompt")
            ratios = read_texts(self.folder, headers, list(first.values()), "token_ratios")
        except DamagedFileError as error:
            problem = str(error)
        columns = []
        for variant, row in sorted(first.items()):
            drawn = tuple(header for header in rollouts if header.variant == variant)
            prompt = prompts.get(row)
            columns.append(GroupColumn(variant, drawn[0].neighbor_id, drawn[0].strategy, prompt, drawn))
        return JointGroup(groups[0], tuple(columns), bool(ratios), problem)

    def rollout(self, rollout_id: str) -> WholeRollout:
        """Return a rollout with its texts.

        Raises:
            InputError: this is not the id of a rollout, or its log-ratios of tokens cannot be used.
            NotFoundError: there is no such rollout.
            DamagedFileError: its files are damaged.
        """
        step, row = place_of(rollout_id)
        headers = self.headers(step)
        if row >= len(headers.table):
            raise NotFoundError(f"there is no rollout {rollout_id}: step {step} has {len(headers.table):,}.")
        [header] = to_headers(headers, [row])
        prompt, response, ratios = (
            read_texts(self.folder, headers, [row], name).get(row)
            for name in ("prompt", "response", "token_ratios")
        )
        try:
            tokens = None if ratios is None else TokenRatios.from_text(ratios)
        except ValueError as error:
            raise InputError(
                f"rollout {rollout_id}: cannot read the log-ratios of its tokens ({error})."
            ) from error
        return WholeRollout(header, prompt, response or "", tokens)

    def rollouts(
        self, filters: RolloutFilters = RolloutFilters(), *, after: str | None = None, limit: int = 25
    ) -> RolloutsPage:
        """Return up to `limit` rollouts after the rollout `after`, by step, question and session.

        A page looks at about `HEADERS_READ` rollouts at most, or at `TEXTS_READ` texts. So it may be short,
        even empty, and still have an `after`.

        Raises:
            InputError: `after` is not the id of a rollout.
        """
        matches: list[RolloutHeader] = []
        problems: list[str] = []
        looked, most = 0, HEADERS_READ if filters.text is None else TEXTS_READ
        for headers, rows, matching in self._look_at(
            filters, place_of(after or "0:0"), after is None, problems
        ):
            matches += to_headers(headers, matching[: limit + 1 - len(matches)])
            if len(matches) > limit:
                return RolloutsPage(tuple(matches[:limit]), matches[limit - 1].id, tuple(problems))
            looked += len(rows)
            if looked >= most:
                return RolloutsPage(tuple(matches), f"{headers.step}:{rows[-1]}", tuple(problems))
        return RolloutsPage(tuple(matches), None, tuple(problems))

    def _look_at(
        self, filters: RolloutFilters, start: tuple[int, int], from_start: bool, problems: list[str]
    ) -> Iterator[tuple[StepHeaders, Sequence[int], Sequence[int]]]:
        """Yield headers of a step, the rows that were looked at, and those that match, part by part."""
        for step in self._steps_with(filters):
            if step < start[0]:
                continue
            try:
                headers = self.headers(step)
                rows = matching_rows(headers, filters)
                if step == start[0] and not from_start:
                    rows = [row for row in rows if row > start[1]]
                if filters.text is None:
                    yield headers, range(len(headers.table)), rows
                    continue
                sought = filters.text.casefold()
                for first in range(0, len(rows), TEXTS_TOGETHER):
                    part = rows[first : first + TEXTS_TOGETHER]
                    texts = self.texts(headers, part)
                    yield headers, part, [row for row in part if sought in texts.get(row, "").casefold()]
            except NotFoundError:  # pruned after the folder was listed
                continue
            except DamagedFileError as error:
                problems.append(str(error))

    def _steps_with(self, filters: RolloutFilters) -> list[int]:
        """Return the steps with files whose counts allow rollouts that match; those without counts too."""
        counts, there = self.counts(), set(self.steps())
        prompts = counts.prompts
        matching = np.ones(len(prompts["step"]), bool)
        if filters.question_id is not None:
            ids = counts.texts["question_id"]
            matching &= np.array([id.startswith(filters.question_id) for id in ids], bool)[
                prompts["question_id"]
            ]
        if filters.variant is not None:
            matching &= prompts["variant"] == filters.variant
        if filters.grade is not None:
            matching &= prompts[filters.grade] > 0
        if filters.truncated is not None:
            matching &= (
                prompts["truncated"] if filters.truncated else prompts["responses"] - prompts["truncated"]
            ) > 0
        if filters.least_reward is not None:
            matching &= prompts["reward_most"] >= filters.least_reward
        if filters.most_reward is not None:
            matching &= prompts["reward_least"] <= filters.most_reward
        uncounted = there - set(np.unique(prompts["step"]).tolist())
        steps = (there & set(np.unique(prompts["step"][matching]).tolist())) | uncounted
        first = -1 if filters.step is None else filters.step
        last = filters.last_step if filters.last_step is not None else filters.step
        return sorted(step for step in steps if first <= step and (last is None or step <= last))

    def _state_now(self) -> tuple[FileState, FileState, list[FileState]]:
        damaged = [file_state(step_path(self.folder, step)) for step in sorted(self._damaged)]
        return file_state(self.folder), file_state(self.folder / COUNTS_FILE), damaged

    def _refresh(self) -> None:
        """Read what changed since the last look: counts, and steps that these do not hold."""
        with self._lock:
            state = self._state_now()
            if state == self._state:
                return
            steps, texts = steps_there(self.folder), set(steps_there(self.folder, "texts"))
            problems = []
            try:
                table = read_counts(self.folder, self.run.name)
            except DamagedFileError as error:
                problems.append(f"{error} The steps that have files were counted again.")
                table = count_schema().empty_table()
            contents, damaged = self._look_at_footers(steps)
            hashes = {step: content for step, (_, content) in contents.items()}
            table, uncounted = bring_up_to_date(self.folder, self.run.name, table, hashes)
            damaged |= {step: (contents[step][0], words) for step, words in uncounted.items()}
            problems += [damaged[step][1] for step in sorted(damaged)]
            problems += [
                f"{texts_path(self.folder, step)}: is missing. Copy it again or put it back."
                for step in steps
                if step not in texts and step in contents
            ]
            self._contents = {step: content for step, content in contents.items() if step not in damaged}
            self._damaged, self._problems = damaged, tuple(problems)
            self._counts = Counts(table)
            self._state = (*state[:2], [damaged[step][0] for step in sorted(damaged)])

    def _look_at_footers(
        self, steps: Sequence[int]
    ) -> tuple[dict[int, tuple[FileState, str]], dict[int, tuple[FileState, str]]]:
        """Return the hashes of the footers of steps, and what is wrong with files that have none."""
        contents, damaged = {}, {}
        for step in steps:
            path = step_path(self.folder, step)
            state = file_state(path)
            earlier = self._contents.get(step)
            try:
                if earlier is not None and earlier[0] == state:
                    contents[step] = earlier
                else:
                    contents[step] = state, footer_hash(path)
            except FileNotFoundError:  # pruned meanwhile
                continue
            except DamagedFileError as error:
                damaged[step] = state, str(error)
        return contents, damaged


def file_state(path: Path) -> FileState:
    """Return what changes with a file; None if it is not there."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def place_of(rollout_id: str) -> tuple[int, int]:
    """Return step and row of a rollout's id.

    Raises:
        InputError: this is not the id of a rollout.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", rollout_id, re.ASCII)
    if match is None:
        raise InputError(
            f"{rollout_id!r} is not the id of a rollout: STEP:ROW, as `tagrpo rollouts list` shows it."
        )
    return int(match[1]), int(match[2])


def matching_rows(headers: StepHeaders, filters: RolloutFilters) -> list[int]:
    """Return the rows of a step that match the filters, whatever their texts."""
    import pyarrow.compute as pc

    table = headers.table
    conditions = []
    if filters.question_id is not None:
        conditions.append(pc.starts_with(table["question_id"], filters.question_id))
    if filters.grade is not None:
        correct = table["correct"]
        of_grade = {"correct": correct, "wrong": pc.invert(correct), "unknown": pc.is_null(correct)}
        conditions.append(pc.fill_null(of_grade[filters.grade], fill_value=False))
    for name in ("variant", "truncated"):
        if (value := getattr(filters, name)) is not None:
            conditions.append(pc.equal(table[name], value))
    if filters.least_reward is not None:
        conditions.append(pc.greater_equal(table["reward"], filters.least_reward))
    if filters.most_reward is not None:
        conditions.append(pc.less_equal(table["reward"], filters.most_reward))
    matching = np.ones(len(table), bool)
    for condition in conditions:
        matching &= condition.to_numpy()
    rows: list[int] = np.flatnonzero(matching).tolist()
    return rows


def to_headers(headers: StepHeaders, rows: Sequence[int]) -> list[RolloutHeader]:
    """Return these rows of a step as values."""
    return [
        RolloutHeader(
            id=f"{headers.step}:{row}",
            grade=grade_name(values.pop("correct")),
            extracted=shorten_answer(values.pop("extracted")),
            **values,
        )
        for row, values in zip(rows, headers.table.take(rows).to_pylist() if len(rows) else [], strict=True)
    ]


def read_rollouts(folder: Path, *, steps: Collection[int] | None = None) -> Iterator[RolloutRecord]:
    """Yield the rollouts of a folder by step, question and session, with all their texts.

    Args:
        steps: yield only these; None for all.

    Raises:
        InputError: there is no such folder, no rollouts are in it, or a file is damaged.
    """
    record = Record(folder)
    if not record.steps() and not record.problems():
        raise InputError(f"{folder}: holds no rollouts (step-*.parquet).")
    for problem in record.problems():
        raise DamagedFileError(problem)
    for step in record.steps():
        if steps is None or step in steps:
            headers = record.headers(step)
            rows = range(len(headers.table))
            texts = {name: read_texts(folder, headers, rows, name) for name in TEXTS}
            for row, values in enumerate(headers.table.to_pylist()):
                yield RolloutRecord(**(values | {name: texts[name].get(row) for name in TEXTS}))


_records: OrderedDict[Path, Record] = OrderedDict()
_records_lock = threading.Lock()


def record_in(folder: Path) -> Record:
    """Return the record in a folder; those used last stay open, at most `RECORDS_OPEN`.

    Raises:
        InputError: as `Record`.
    """
    with _records_lock:
        record = _records.pop(folder, None) or Record(folder)
        _records[folder] = record
        while len(_records) > RECORDS_OPEN:
            _records.popitem(last=False)
        return record
