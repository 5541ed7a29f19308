"""Speed of `tagrpo eval serve` against the grader in a process of one's own, in batches of 256.

Each round grades responses that neither has seen, first by one of the two, then by the other, and the next
round the other way about; the server's time holds making, sending and reading the JSON, its client being on
the same machine. A batch is sent when the one before has been answered. Medians over rounds.

    python -m benchmarks.speed.grading_server [--rows 3072 --rounds 6]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from benchmarks.harness import add_data
from evaluator.grading import GradeCase, Grader

FILE = "rho_responses.jsonl"
BATCH = 256
WARM_UP = GradeCase(r"\boxed{\sin(x)+\sin(x)}", r"2\sin(x)")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--rows", type=int, default=3072, help="responses, drawn at random (seed 0)")
    parser.add_argument("--rounds", type=int, default=6, help="parts that they are graded in")
    parser.add_argument("--workers", type=int, default=2, help="grading processes of either")
    args = parser.parse_args()

    with (args.data / FILE).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = random.Random(0).sample(rows, min(args.rows, len(rows)))
    cases = [GradeCase(row["response"], row["answer"]) for row in rows]
    size = -(-len(cases) // args.rounds)
    parts = [cases[start : start + size] for start in range(0, len(cases), size)]
    with Grader(args.workers) as grader, server(args.workers) as client:
        print(json.dumps(compare(grader, client, parts)))


@contextmanager
def server(workers: int) -> Iterator[httpx.Client]:
    """Run a server; yield a client of it."""
    command = [sys.executable, "-m", "tagrpo", "eval", "serve", "--port", "0", "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        try:
            with httpx.Client(base_url=url, timeout=300) as client:
                yield client
        finally:
            process.terminate()


def compare(grader: Grader, client: httpx.Client, parts: Sequence[Sequence[GradeCase]]) -> dict[str, Any]:
    """Return responses per second of both, and whether they gave the same grades."""

    def by_pool(cases: Sequence[GradeCase]) -> list[str]:
        return [grade.value.value for grade in grader.grade_many(cases)]

    def by_server(cases: Sequence[GradeCase]) -> list[str]:
        sent = {"cases": [{"response": case.response, "gold": case.gold} for case in cases]}
        answer = client.post("/grade", json=sent).raise_for_status().json()
        return [grade["value"] for grade in answer["grades"]]

    sides = {"pool": by_pool, "server": by_server}
    for grade in sides.values():
        grade([WARM_UP])
    per_s: dict[str, list[float]] = {name: [] for name in sides}
    grades: dict[str, list[str]] = {name: [] for name in sides}
    for round_number, part in enumerate(parts):
        for name in sorted(sides, reverse=bool(round_number % 2)):
            began = time.perf_counter()
            for start in range(0, len(part), BATCH):
                grades[name] += sides[name](part[start : start + BATCH])
            per_s[name].append(len(part) / (time.perf_counter() - began))
    differing = sum(ours != theirs for ours, theirs in zip(grades["pool"], grades["server"], strict=True))
    ratios = [server / pool for pool, server in zip(per_s["pool"], per_s["server"], strict=True)]
    return {
        "responses": sum(map(len, parts)),
        "pool_per_s": round(statistics.median(per_s["pool"]), 1),
        "server_per_s": round(statistics.median(per_s["server"]), 1),
        "server_to_pool": round(statistics.median(ratios), 3),
        "differing_grades": differing,
    }


if __name__ == "__main__":
    main()
