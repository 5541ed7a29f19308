"""The rollout record: writing shards beside training, importing them, asking for pages and responses.

100,000 rollouts with responses of 2 KB stand in steps of 2,000, 250 questions of 8 responses each. Timed are:
how long `write` keeps training waiting (records at hand, a step at a time, none of it waited for in between),
the import into a fresh database, a second import that finds everything there, an import into another one that
copies the responses too, pages at random places, single responses, and pruning all but every 10th step.

    python -m benchmarks.speed.rollouts [--rollouts 100000] [--text-bytes 2048] [--folder DIR]

The responses are sentences of common words in no order, with fresh numbers. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEP, SESSIONS, PAGES = 2_000, 8, 60


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--text-bytes", type=int, default=2_048, help="of a response")
    parser.add_argument("--folder", type=Path, help="where the files go (default: a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        print(json.dumps(measure(Path(folder), max(1, args.rollouts // STEP), args.text_bytes)))


def measure(folder: Path, steps: int, text_bytes: int) -> dict[str, Any]:
    """Write, import, page and prune; times in seconds, those of pages and responses in milliseconds."""
    from service.database import Database
    from trainer_adapter.record import RolloutWriter
    from trainer_adapter.record.browsing import (
        RolloutFilters,
        choose_train_run,
        page_rollouts,
        read_rollout_texts,
    )
    from trainer_adapter.record.importing import import_rollouts, prune, steps_to_prune

    texts = make_texts(text_bytes)
    waits, began = [], 0.0
    with RolloutWriter(folder / "rollouts", "bench", spec={"recipe": "ta_grpo"}) as writer:
        for step in range(1, steps + 1):
            records = list(make_step(step, texts))
            began = began or time.perf_counter()
            asked = time.perf_counter()
            writer.write(step, records)
            waits.append(time.perf_counter() - asked)
            writer.write_metrics(step, {"tagrpo/reward/mean": 0.5})
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
            last = page_rollouts(session, run, RolloutFilters(step=steps), limit=1)[0].id
        ways = {
            "page_ms": lambda: (RolloutFilters(), chance.randint(1, last)),
            "page_of_step_ms": lambda: (RolloutFilters(step=chance.randint(1, steps)), None),
            "page_of_question_ms": lambda: (
                RolloutFilters(question_id=f"q_{chance.randrange(250):024x}"),
                None,
            ),
            "page_of_wrong_ms": lambda: (RolloutFilters(grade="wrong", variant=1), None),
        }
        for name, choose in ways.items():
            taken = []
            for _ in range(PAGES):
                filters, after = choose()
                began = time.perf_counter()
                with db.read() as session:
                    page_rollouts(session, run, filters, after=after)
                taken.append((time.perf_counter() - began) * 1e3)
            report[name] = round(statistics.median(taken), 2)
            print(f"{name:20} {report[name]:7.2f} ms")
        taken = []
        for _ in range(PAGES):
            began = time.perf_counter()
            with db.read() as session:
                read_rollout_texts(session, [chance.randint(1, rows)])
            taken.append((time.perf_counter() - began) * 1e3)
        report["response_ms"] = round(statistics.median(taken), 2)
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
