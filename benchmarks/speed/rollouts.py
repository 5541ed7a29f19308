"""The rollout record: writing shards beside training, importing them, asking for pages and responses.

100,000 rollouts with responses of 2 KB stand in steps of 2,000, 250 questions of 8 responses each. Timed are:
how long `write` keeps training waiting (records at hand, a step at a time, none of it waited for in between),
the import into a fresh database, a second import that finds everything there, an import into another one that
copies the responses too, pages at random places, single responses, and pruning all but every 10th step.

    python -m benchmarks.speed.rollouts [--rollouts 100000] [--text-bytes 2048] [--folder DIR] [--writers 1]

With several writers they are as many trainings at once instead, each a process that also imports its record
meanwhile, all into one database: timed are the whole, and pages and responses afterwards.

The responses are sentences of common words in no order, with fresh numbers. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.database import Database

STEP, SESSIONS, PAGES = 2_000, 8, 60
# Filters of a page, and behind which rollout it begins.
Ways = Mapping[str, Callable[[], tuple[Any, int | None]]]


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--text-bytes", type=int, default=2_048, help="of a response")
    parser.add_argument("--folder", type=Path, help="where the files go (default: a temporary folder)")
    parser.add_argument("--writers", type=int, default=1, help="trainings at once")
    args = parser.parse_args()
    steps = max(1, args.rollouts // STEP // args.writers)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.writers == 1:
            report = measure(Path(folder), steps, args.text_bytes)
        else:
            report = measure_together(Path(folder), args.writers, steps, args.text_bytes)
        print(json.dumps(report))


def measure(folder: Path, steps: int, text_bytes: int) -> dict[str, Any]:
    """Write, import, page and prune; times in seconds, those of pages and responses in milliseconds."""
    from service.database import Database
    from trainer_adapter.record.browsing import RolloutFilters, choose_train_run
    from trainer_adapter.record.importing import import_rollouts, prune, steps_to_prune

    waits = write_steps(folder / "rollouts", "bench", steps, text_bytes)
    shards = list((folder / "rollouts").glob("*.parquet"))
    rows = steps * STEP
    report: dict[str, Any] = {
        "rollouts": rows,
        "steps": steps,
        "text_mb": round(rows * text_bytes / 2**20, 1),
        "shards_mb": round(sum(path.stat().st_size for path in shards) / 2**20, 1),
        "write_wait_ms_median": round(statistics.median(waits) * 1e3, 2),
        "write_wait_ms_worst": round(max(waits) * 1e3, 2),
    }
    with Database.open(folder / "bench.db") as db:
        for name in ("import_s", "import_again_s"):
            began = time.perf_counter()
            done = import_rollouts(db, folder / "rollouts")
            report[name] = round(time.perf_counter() - began, 2)
            print(f"{name:16} {report[name]:7.2f} s  {done}")
        report["import_per_s"] = round(rows / report["import_s"])
        chance = random.Random(0)
        with db.read() as session:
            run = choose_train_run(session, None).id
        ways: Ways = {
            "page_ms": lambda: (RolloutFilters(), chance.randint(1, rows)),
            "page_of_step_ms": lambda: (RolloutFilters(step=chance.randint(1, steps)), None),
            "page_of_question_ms": lambda: (
                RolloutFilters(question_id=f"q_{chance.randrange(250):024x}"),
                None,
            ),
            "page_of_wrong_ms": lambda: (RolloutFilters(grade="wrong", variant=1), None),
        }
        report |= ask(db, run, ways, rows)
    report["database_mb"] = megabytes(folder, "bench.db*")
    with Database.open(folder / "texts.db") as db:
        began = time.perf_counter()
        import_rollouts(db, folder / "rollouts", texts=True)
        report["import_with_texts_s"] = round(time.perf_counter() - began, 2)
    report["database_with_texts_mb"] = megabytes(folder, "texts.db*")
    with Database.open(folder / "bench.db") as db:
        with db.read() as session:
            leaving = steps_to_prune(session, run, keep_every=10)
        began = time.perf_counter()
        prune(db, run, leaving)
        report["pruned"] = sum(each.rollouts for each in leaving)
        report["prune_s"] = round(time.perf_counter() - began, 2)
    return report


def measure_together(folder: Path, writers: int, steps: int, text_bytes: int) -> dict[str, Any]:
    """Write as so many trainings and import beside them; times as in `measure`, sizes in MB."""
    from service.database import Database
    from trainer_adapter.record.browsing import RolloutFilters, list_train_runs

    Database.open(folder / "bench.db").close()
    began = time.perf_counter()
    with ProcessPoolExecutor(writers, mp_context=multiprocessing.get_context("spawn")) as pool:
        trainings = [pool.submit(train, folder, number, steps, text_bytes) for number in range(writers)]
        peaks = [training.result() for training in trainings]
    rows = writers * steps * STEP
    report: dict[str, Any] = {
        "rollouts": rows,
        "writers": writers,
        "text_mb": round(rows * text_bytes / 2**20, 1),
        "whole_s": round(time.perf_counter() - began, 1),
        "memory_mb_worst": round(max(peaks)),
        "shards_mb": megabytes(folder, "*/*.parquet"),
        "database_mb": megabytes(folder, "bench.db*"),
    }
    chance = random.Random(0)
    with Database.open(folder / "bench.db") as db:
        with db.read() as session:
            runs = list_train_runs(session)
        report["imported"] = sum(run.rollouts for run in runs)
        ways: Ways = {
            "page_of_step_ms": lambda: (RolloutFilters(step=chance.randint(1, steps)), None),
            "page_of_wrong_ms": lambda: (RolloutFilters(grade="wrong", variant=1), None),
        }
        report |= ask(db, runs[0].run.id, ways, rows)
    return report


def train(folder: Path, number: int, steps: int, text_bytes: int) -> float:
    """Write a training's record and import it meanwhile; return this process's largest memory in MB."""
    from service.database import Database
    from trainer_adapter.record.importing.meanwhile import ImportMeanwhile

    record = folder / f"training{number}"
    record.mkdir()
    with ImportMeanwhile(lambda: Database.open(folder / "bench.db"), record, print):
        write_steps(record, f"bench{number}", steps, text_bytes)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_steps(folder: Path, name: str, steps: int, text_bytes: int) -> list[float]:
    """Write a training's record; return how long each step waited, in seconds."""
    from trainer_adapter.record import RolloutWriter

    texts, waits = make_texts(text_bytes), []
    with RolloutWriter(folder, name, spec={"recipe": "ta_grpo"}) as writer:
        for step in range(1, steps + 1):
            records = list(make_step(step, texts))
            asked = time.perf_counter()
            writer.write(step, records)
            waits.append(time.perf_counter() - asked)
            writer.write_metrics(step, {"tagrpo/reward/mean": 0.5})
    return waits


def ask(db: Database, run: str, ways: Ways, rows: int) -> dict[str, float]:
    """Return the median times of pages and single responses, in ms."""
    from trainer_adapter.record.browsing import page_rollouts, read_rollout_texts

    medians: dict[str, float] = {}
    for name, choose in ways.items():
        taken = []
        for _ in range(PAGES):
            filters, after = choose()
            began = time.perf_counter()
            with db.read() as session:
                page_rollouts(session, run, filters, after=after)
            taken.append((time.perf_counter() - began) * 1e3)
        medians[name] = round(statistics.median(taken), 2)
        print(f"{name:20} {medians[name]:7.2f} ms")
    taken = []
    chance = random.Random(1)
    for _ in range(PAGES):
        began = time.perf_counter()
        with db.read() as session:
            read_rollout_texts(session, [chance.randint(1, rows)])
        taken.append((time.perf_counter() - began) * 1e3)
    return {**medians, "response_ms": round(statistics.median(taken), 2)}


def megabytes(folder: Path, names: str) -> float:
    """Return the size of the files of these names."""
    return round(sum(path.stat().st_size for path in folder.glob(names)) / 2**20, 1)


def make_texts(text_bytes: int) -> list[str]:
    """Responses to draw from; each gets a number of its own in front."""
    from benchmarks.speed.store import Writer

    writer, texts = Writer(0), []
    for number in range(1_000):
        text = writer.text(number)
        while len(text) < text_bytes:
            text += writer.text(number)
        texts.append(text[-(text_bytes - 12) :])
    return texts


def make_step(step: int, texts: list[str]) -> Iterator[Any]:
    """Records of a step: 250 questions, two prompts each."""
    from trainer_adapter.record import RolloutRecord

    chance = random.Random(step)
    for place in range(STEP):
        question, session = divmod(place, SESSIONS)
        variant = session // 4
        correct = chance.random() < 0.4
        yield RolloutRecord(
            step=step,
            question_id=f"q_{question:024x}",
            neighbor_id=f"c_{question:024x}" if variant else None,
            strategy="wording" if variant else None,
            variant=variant,
            group=question,
            session=session,
            prompt=f"A question of some length, number {question}, worded in way {variant}. " * 4,
            response=f"{step:05d}{place:06d} {texts[chance.randrange(len(texts))]}",
            tokens=500 + place % 100,
            truncated=False,
            reward=float(correct),
            correct=correct,
            reason="exact" if correct else "different",
            extracted=str(place),
            advantage=chance.gauss(0, 1),
            old_log_prob=-chance.random() * 100,
            sampling_log_prob=-chance.random() * 100,
            ref_log_prob=-chance.random() * 100,
            entropy=chance.random(),
            weights_version=step - 1,
        )


if __name__ == "__main__":
    main()
