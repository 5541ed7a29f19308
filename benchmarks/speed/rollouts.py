"""The rollout record: its size, the time to open it, and the time to read a group with its responses.

Each step has 128 of 2,000 questions with 32 responses each, as in `pages/database.py`. Groups are read at
random places; the first read and the median and the worst of the others count.

    python -m benchmarks.speed.rollouts [--rollouts 100000] [--text-bytes 2700] [--folder DIR]

With `--folder` the record is kept, and read again if it is there. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pages.database import STEP, Texts, write_training
from service.questions.question import make_question
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.reading import Record

QUESTIONS, RESPONSES, REPEATS = 2_000, 4_000, 40


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--text-bytes", type=int, default=2_700, help="of a response")
    parser.add_argument("--folder", type=Path, help="of the record (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if not (folder / "run.json").exists():
            write_record(folder, max(1, args.rollouts // STEP), args.text_bytes)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(json.dumps({"megabytes": round(size / 1e6, 1), **measure_reads(folder)}))


def write_record(folder: Path, steps: int, text_bytes: int) -> None:
    """Write the record of a training."""
    chance = random.Random(0)
    texts = Texts(chance)
    questions = [make_question(f"{texts.prose(80, 420)} ({number})", "1") for number in range(QUESTIONS)]
    rates = {question.id: chance.random() ** 2 for question in questions}
    pool = [texts.prose(text_bytes, text_bytes) for _ in range(RESPONSES)]
    write_training(folder, questions, rates, pool, steps, chance)


def measure_reads(folder: Path) -> dict[str, Any]:
    """Open the record in a folder and read groups with their responses."""
    began = time.perf_counter()
    record = Record(folder)
    counts = record.counts()
    opened_s = time.perf_counter() - began
    chance, steps, times = random.Random(0), record.steps(), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        group = chance.choice(record.counts().page_groups(GroupFilters(step=chance.choice(steps)), limit=200))
        found = record.joint_group(group.step, group.question_id)
        headers = record.headers(group.step)
        rows = [int(one.id.partition(":")[2]) for column in found.columns for one in column.rollouts]
        record.texts(headers, rows)
        times.append(round((time.perf_counter() - began) * 1e3, 2))
    return {
        "rollouts": int(counts.prompts["responses"].sum()),
        "open_ms": round(opened_s * 1e3, 1),
        "group_ms": {"first": times[0], "median": statistics.median(times[1:]), "worst": max(times[1:])},
    }


if __name__ == "__main__":
    main()
