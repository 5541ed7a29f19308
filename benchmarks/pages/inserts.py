"""What it costs to keep the counts of pages: CPU time of the product's own writing with and without them.

Both ways take turns in the same run, and the smallest of several times counts. Without: the triggers
are dropped, there are two indices by which samples and grades can be counted, and groups of rollouts are not
counted.
"""

import random
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import text

from benchmarks.pages.database import make_questions
from benchmarks.pages.made_candidates import make_candidates
from benchmarks.pages.made_texts import Texts
from benchmarks.speed import store
from rephraser.checks import check_candidate
from service.database import Database
from trainer_adapter.record import RolloutRecord, RolloutWriter, importing

COUNTED_BY = (
    "CREATE INDEX old_samples ON samples (run_problem_id) WHERE stop_reason = 'length'",
    "CREATE INDEX old_grades ON grades (run_problem_id, grader_id, value)",
)
STEPS, QUESTIONS, RESPONSES = 2, 64, 32


def measure_inserts(*, repeats: int) -> dict[str, Any]:
    """Return CPU seconds with and without counts and their ratio, for each kind of writing."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shards = _write_shards(place / "rollouts")
        works = {
            "evaluation samples (planned, stored, graded)": _samples,
            "rollouts (imported)": lambda db, counted, number: _rollouts(db, counted, shards),
            "candidates (stored, judged twice)": _candidates,
        }
        found: dict[str, Any] = {}
        for name, work in works.items():
            times: dict[bool, list[float]] = {True: [], False: []}
            for number in range(repeats):
                for counted in (True, False) if number % 2 else (False, True):
                    path = place / f"{len(found)}-{number}-{counted}.db"
                    with Database.open(path) as db:
                        if not counted:
                            _drop(db)
                        times[counted].append(work(db, counted, number))
                    path.unlink()
            with_counts, without = min(times[True]), min(times[False])
            found[name] = {
                "with_s": round(with_counts, 3),
                "without_s": round(without, 3),
                "ratio": round(with_counts / without, 3),
            }
    stored = found["candidates (stored, judged twice)"]
    added = stored["with_s"] - stored["without_s"]
    stored["added_to_check_ratio"] = round(1 + added / _checking_s(), 3)
    return found


def print_inserts(found: dict[str, Any]) -> None:
    """Print the measurements as a table."""
    print(f"{'writing':48} {'with s':>8} {'without':>8} {'ratio':>8}  (CPU)")
    for name, one in found.items():
        print(f"{name:48} {one['with_s']:8.3f} {one['without_s']:8.3f} {one['ratio']:8.3f}")
        if "added_to_check_ratio" in one:
            print(f"{'  beside their structural checks':48} {'':8} {'':8} {one['added_to_check_ratio']:8.3f}")


def _drop(db: Database) -> None:
    with db.write() as session:
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql NOT LIKE '%RAISE(ABORT%'"
        for name in session.scalars(text(triggers)).all():
            session.execute(text(f"DROP TRIGGER {name}"))
        for index in COUNTED_BY:
            session.execute(text(index))


def _samples(db: Database, counted: bool, number: int) -> float:
    writer, filling = store.Writer(1), store.Filling()
    run, spec = store.make_run(db, 0, neighbors=False)
    if not counted:  # what the triggers would have made with the problems
        with db.write() as session:
            session.execute(text("INSERT INTO sample_counts SELECT id, 0, 0, 0, 0, 0 FROM run_problems"))
    with mock.patch.object(store.time, "perf_counter", time.process_time):
        store.fill_run(db, run, spec, 16, writer, filling)
    return sum(filling.seconds.values())


def _rollouts(db: Database, counted: bool, folder: Path) -> float:
    began = time.process_time()
    if counted:
        importing.import_rollouts(db, folder)
    else:
        with mock.patch.object(importing.shards, "store_groups"):
            importing.import_rollouts(db, folder)
    return time.process_time() - began


def _candidates(db: Database, counted: bool, number: int) -> float:
    texts = Texts(random.Random(3))
    questions = make_questions(db, texts, 500)
    began = time.process_time()
    make_candidates(db, texts, questions)
    return time.process_time() - began


def _checking_s() -> float:
    """Return the CPU seconds of the structural checks of as many candidates as `_candidates` stores."""
    texts = Texts(random.Random(4))
    pairs = [(texts.prose(80, 420), texts.prose(80, 420)) for _ in range(300)]
    began = time.process_time()
    for question, candidate in pairs:
        check_candidate(question, candidate, answer="12")
    return (time.process_time() - began) * 5


def _write_shards(folder: Path) -> Path:
    texts = Texts(random.Random(5))
    responses = [texts.prose(400, 2000) for _ in range(500)]
    with RolloutWriter(folder, "r", background=False) as writer:
        for step in range(1, STEPS + 1):
            writer.write(
                step,
                [
                    _record(step, question, number, responses)
                    for question in range(QUESTIONS)
                    for number in range(RESPONSES)
                ],
            )
    return folder


def _record(step: int, question: int, number: int, responses: list[str]) -> RolloutRecord:
    variant, correct = number // 8, (question + number) % 3 == 0
    return RolloutRecord(
        step=step,
        question_id=f"q_{question:024x}",
        neighbor_id=None if variant == 0 else f"c_{question:023x}{variant}",
        strategy=None if variant == 0 else "format",
        variant=variant,
        group=question,
        session=number,
        prompt=responses[question],
        response=responses[(question * RESPONSES + number) % len(responses)],
        tokens=500,
        truncated=False,
        reward=float(correct),
        correct=correct,
        reason="exact" if correct else "different",
        extracted="7",
        advantage=0.5,
        old_log_prob=-80.0,
        sampling_log_prob=-79.0,
        ref_log_prob=None,
        entropy=0.5,
        weights_version=step - 1,
    )
