"""Recorded rollouts for the diagnostics: counts of each visit of a question, and texts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evaluator.signal.groups import CheckpointGroups, PromptSample, QuestionGroup, ResponseSource, Texts
from evaluator.signal.sources import eval_source, file_source
from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import list_runs
from trainer_adapter.record.files import RUN_FILE
from trainer_adapter.record.groups import TrainingCounts
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import open_record
from trainer_adapter.record.tables import TRAIN


def training_source(record: Record, name: str, stretches: Sequence[tuple[int, int]]) -> ResponseSource:
    """Return the responses of a training as checkpoints, one per stretch of steps (first, last)."""
    counts = record.counts()
    checkpoints = tuple(_load_visits(counts, name, stretch) for stretch in stretches)
    by_label = {checkpoint.label: stretch for checkpoint, stretch in zip(checkpoints, stretches, strict=True)}
    return ResponseSource(
        name,
        checkpoints,
        lambda label, ids: _visit_texts(record, by_label[label], ids),
        record.problems(),
    )


def run_source(database: Database, names: Sequence[str], windows: int) -> ResponseSource:
    """Return the responses of eval runs, or of one training run in so many stretches of its steps."""
    with database.read() as session:
        trained = [run for run in list_runs(session) if run.kind == TRAIN and run.name in names]
        records = [open_record(session, run) for run in trained]
    if not records:
        return eval_source(database, names)
    if len(names) > 1:
        raise InputError(f"{trained[0].name} is a training run. Pass it without other runs.")
    return windows_source(records[0], trained[0].name, windows)


def path_source(path: Path, windows: int, threshold: float | None) -> ResponseSource:
    """Return the responses in files, or in the folder of a training run."""
    if (path / RUN_FILE).is_file():
        return windows_source(Record(path), str(path), windows)
    return file_source(path, windows=windows, threshold=threshold)


def windows_source(record: Record, name: str, windows: int) -> ResponseSource:
    """Return all responses of a training as up to so many stretches of about equally many steps."""
    steps = np.array([step.step for step in record.counts().page_steps()])
    if windows < 1 or not len(steps):
        raise InputError(
            f"--windows is {windows}, but must be at least 1." if windows < 1 else f"{name}: no rollouts."
        )
    parts = np.array_split(steps, min(windows, len(steps)))
    return training_source(record, name, [(int(part[0]), int(part[-1])) for part in parts])


def _load_visits(counts: TrainingCounts, name: str, stretch: tuple[int, int]) -> CheckpointGroups:
    """Return the groups of a stretch, one per visit of a question."""
    first, last = stretch
    prompts, ids = counts.prompts, counts.texts["question_id"]
    visits: dict[int, list[PromptSample]] = {}
    for place in np.flatnonzero((prompts["step"] >= first) & (prompts["step"] <= last)).tolist():
        variant = int(prompts["variant"][place])
        numbers = {
            name: int(prompts[name][place]) for name in ("correct", "wrong", "unknown", "tokens", "responses")
        }
        sample = PromptSample(
            variant,
            strategy=counts.text("strategy", place),
            source_id=counts.text("neighbor_id" if variant else "question_id", place),
            token_samples=numbers.pop("responses"),
            **numbers,
        )
        visits.setdefault(int(counts.group_of[place]), []).append(sample)
    if not visits:
        raise InputError(f"run {name} has no rollouts at steps {first} to {last}.")
    groups = tuple(
        QuestionGroup(ids[int(counts.groups["question_id"][group])], tuple(samples))
        for group, samples in visits.items()
    )
    label = f"{name}, step {first}" if first == last else f"{name}, steps {first}-{last}"
    return CheckpointGroups(label, groups)


def _visit_texts(record: Record, stretch: tuple[int, int], question_ids: Sequence[str]) -> Iterator[Texts]:
    """Yield the responses to these questions in a stretch; visits of a question are pooled by step."""
    by_question: dict[str, dict[int, list[str]]] = {question: {} for question in question_ids}
    for step in record.steps():
        if not stretch[0] <= step <= stretch[1]:
            continue
        try:
            headers = record.headers(step)
        except NotFoundError:  # pruned after the folder was listed
            continue
        questions, variants = (headers[name].to_pylist() for name in ("question_id", "variant"))
        rows = [row for row, question in enumerate(questions) if question in by_question]
        for row, text in record.texts(headers, rows).items():
            by_question[questions[row]].setdefault(variants[row], []).append(text)
    yield from by_question.items()
