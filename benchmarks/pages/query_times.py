"""How long every query of the pages takes, warm and cold, and beside another way."""

import math
import os
import random
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages.places import read_world
from benchmarks.pages.queries import Ask, other_ways, page_queries
from service.database import Database

TARGET_MS = 100.0


def measure(path: Path, *, warm: int, cold: int) -> dict[str, Any]:
    """Ask every query `warm` times on a warm connection and `cold` times on new ones; return milliseconds.

    Warm queries wait for nothing, so `cpu_p95` says what `p95` would be on a machine that does nothing else.
    Cold is a new connection, whose cache is empty, after the system was told to drop the file from its own
    cache; a slow disk shows here.
    """
    with Database.open(path, create=False, read_only=True) as db:
        world = read_world(db)
        queries = page_queries(world)
        found = {name: {"warm": _times(db, ask, warm)} for name, ask in queries.items()}
        others = {
            name: {"ours": _times(db, ours, warm), "other": _times(db, other, max(3, warm // 10))}
            for name, (ours, other) in other_ways(world).items()
        }
    for name, ask in queries.items():
        found[name]["cold"] = _cold_times(path, ask, cold)
    for pair in others.values():
        pair["ratio"] = round(pair["other"]["p50"] / pair["ours"]["p50"], 1)
    slow = [name for name, times in found.items() if times["warm"]["p95"] > TARGET_MS]
    return {"queries": found, "other_ways": others, "target_ms": TARGET_MS, "over_target_warm": slow}


def print_table(found: Mapping[str, Any]) -> None:
    """Print the measurements as two tables."""
    print(f"{'query':48} {'warm p50':>9} {'p95':>8} {'cpu p95':>8} {'cold p50':>9} {'p95':>8}  (ms)")
    for name, times in found["queries"].items():
        warm, cold = times["warm"], times["cold"]
        mark = " over the target" if warm["p95"] > found["target_ms"] else ""
        print(
            f"{name:48} {warm['p50']:9.1f} {warm['p95']:8.1f} {warm['cpu_p95']:8.1f} "
            f"{cold['p50']:9.1f} {cold['p95']:8.1f}{mark}"
        )
    print(f"\n{'beside another way':48} {'ours p50':>9} {'other':>8} {'ratio':>9}")
    for name, pair in found["other_ways"].items():
        print(f"{name:48} {pair['ours']['p50']:9.1f} {pair['other']['p50']:8.1f} {pair['ratio']:9.1f}")


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
    return {**_percentiles(taken), "cpu_p95": _percentiles(cpu)["p95"]}


def _cold_times(path: Path, ask: Ask, repeats: int) -> dict[str, float]:
    chance = random.Random(2)
    taken = []
    for _ in range(repeats):
        _forget(path)
        with Database.open(path, create=False, read_only=True) as db:
            began = time.perf_counter()
            with db.read() as session:
                ask(session, chance)
            taken.append((time.perf_counter() - began) * 1000)
    return _percentiles(taken)


def _forget(path: Path) -> None:
    """Ask the system to drop the file from its cache; it keeps what others have open for writing."""
    for name in (path, path.with_name(path.name + "-wal")):
        if name.exists() and hasattr(os, "posix_fadvise"):
            handle = os.open(name, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _percentiles(taken: list[float]) -> dict[str, float]:
    taken.sort()
    place = math.ceil(0.95 * len(taken)) - 1
    return {"p50": round(statistics.median(taken), 2), "p95": round(taken[place], 2)}
