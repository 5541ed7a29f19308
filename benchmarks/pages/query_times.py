"""How long every query of the pages takes on a warm connection."""

import math
import random
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages.places import read_world
from benchmarks.pages.queries import Ask, page_queries
from service.database import Database

TARGET_MS = 100.0


def measure(path: Path, *, repeats: int) -> dict[str, Any]:
    """Ask every query so many times; return milliseconds.

    The queries wait for nothing, so `cpu_p95` says what `p95` would be on a machine that does nothing else.
    """
    with Database.open(path, create=False, read_only=True) as db:
        queries = {name: _times(db, ask, repeats) for name, ask in page_queries(read_world(db)).items()}
    slow = [name for name, times in queries.items() if times["p95"] > TARGET_MS]
    return {"queries": queries, "target_ms": TARGET_MS, "over_target": slow}


def print_table(report: Mapping[str, Any]) -> None:
    """Print the measurements."""
    print(f"{'query':48} {'p50':>9} {'p95':>8} {'cpu p95':>8}  (ms)")
    for name, times in report["queries"].items():
        mark = " over the target" if name in report["over_target"] else ""
        print(f"{name:48} {times['p50']:9.1f} {times['p95']:8.1f} {times['cpu_p95']:8.1f}{mark}")


def _times(db: Database, ask: Ask, repeats: int) -> dict[str, float]:
    chance = random.Random(1)
    with db.read() as session:
        ask(session, chance)
    taken, cpu = [], []
    for _ in range(repeats):
        began, began_cpu = time.perf_counter(), time.process_time()
        with db.read() as session:
            ask(session, chance)
        taken.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - began_cpu) * 1000)
    return {
        "p50": round(statistics.median(taken), 2),
        "p95": round(_percentile(taken), 2),
        "cpu_p95": round(_percentile(cpu), 2),
    }


def _percentile(taken: list[float]) -> float:
    return sorted(taken)[math.ceil(0.95 * len(taken)) - 1]
