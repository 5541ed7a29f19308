"""Rollouts made of nothing: records, and folders of files as training writes them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from service.database import Database
from service.errors import InputError
from service.runs.store import Run
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.parquet import DamagedFileError
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rollout import TEXTS
from trainer_adapter.record.runs import register


def make_record(step: int = 1, question: int = 0, session: int = 0, **changes: Any) -> RolloutRecord:
    """Return a record: two prompts a question, four sessions each, every third response correct."""
    variant = session // 4
    correct = (question + session) % 3 == 0
    fields: dict[str, Any] = {
        "step": step,
        "question_id": f"q_{question:024x}",
        "neighbor_id": None if variant == 0 else f"c_{question:023x}{variant}",
        "strategy": None if variant == 0 else "wording",
        "variant": variant,
        "group": question,
        "session": session,
        "prompt": f"What is {question} + 1? ({variant})",
        "response": f"Step {step}: it is \\boxed{{{question + (1 if correct else 2)}}}.",
        "tokens": 10 + session,
        "truncated": session == 7,
        "reward": 1.0 if correct else 0.0,
        "correct": correct,
        "reason": "exact" if correct else "different",
        "extracted": str(question + (1 if correct else 2)),
        "advantage": 1.5 if correct else -0.5,
        "old_log_prob": -20.0 - session,
        "sampling_log_prob": -21.0,
        "ref_log_prob": None,
        "entropy": 0.7,
        "weights_version": step - 1,
    }
    return RolloutRecord(**{**fields, **changes})


def make_step(step: int, questions: int = 2, sessions: int = 8) -> list[RolloutRecord]:
    """Return the records of a step."""
    return [
        make_record(step, question, session) for question in range(questions) for session in range(sessions)
    ]


def write_run(folder: Path, steps: Sequence[int] = (1, 2), *, run: str = "ta", **sizes: int) -> Path:
    """Write a run's folder with its metrics; return it."""
    with RolloutWriter(folder, run, spec={"recipe": "ta_grpo"}, versions={"tagrpo": "0"}) as writer:
        for step in steps:
            writer.write(step, make_step(step, **sizes))
            writer.write_metrics(step, {"tagrpo/reward/mean": step / 10, "actor/lr": 1e-6})
    return folder


def add_training(db: Database, folder: Path, name: str | None = None) -> Run:
    """Add a training's folder to the database; return its run."""
    with db.write() as session:
        return register(session, Record(folder), name)


def read_rollouts(folder: Path) -> Iterator[RolloutRecord]:
    """Yield the rollouts of a folder by step, question and session, with all their texts."""
    record = Record(folder)
    for problem in record.problems():
        raise DamagedFileError(problem)
    if not record.steps():
        raise InputError(f"{folder}: contains no rollouts (step-*.parquet).")
    for step in record.steps():
        headers = record.headers(step)
        texts = {name: record.texts(headers, range(len(headers)), name) for name in TEXTS}
        for row, values in enumerate(headers.to_pylist()):
            values |= {name: texts[name].get(row) for name in TEXTS}
            yield RolloutRecord(**values)
