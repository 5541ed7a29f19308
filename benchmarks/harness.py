"""What the benchmarks share: the data folder, files of rows, tables, intervals."""

import argparse
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TAGRPO_DATA", ROOT.parent / "shared" / "data"))


def add_data(parser: argparse.ArgumentParser, help: str = "folder of public data sets") -> None:
    """Add `--data DIR`, by default TAGRPO_DATA."""
    parser.add_argument("--data", type=Path, default=DATA, help=help)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def training_overrides(*, questions: int, rate: float, seed: int, steps: int, save: int) -> tuple[str, ...]:
    """Return the overrides of a study's training by verl: two updates per step at a constant rate."""
    actor = "actor_rollout_ref.actor"
    return (
        f"verl.data.train_batch_size={questions}",
        f"verl.{actor}.ppo_mini_batch_size={questions // 2}",
        f"verl.{actor}.optim.lr={rate:g}",
        f"verl.{actor}.optim.lr_scheduler_type=constant",
        f"verl.{actor}.optim.lr_warmup_steps_ratio=0",
        f"verl.{actor}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        "verl.trainer.total_epochs=100",
        f"verl.trainer.total_training_steps={steps}",
        f"verl.trainer.save_freq={save}",
        "verl.trainer.max_actor_ckpt_to_keep=100",
        f"verl.data.seed={seed}",
        f"run.seed={seed}",
    )


def print_report(report: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Print each table of a report, by its title, and all as one JSON object in the last line."""
    for title, rows in report.items():
        print_table(title, rows)
    print(json.dumps(rounded(report)))


def print_table(title: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a Markdown table; its columns are the keys of the first row."""
    rows = list(rows)
    heads = list(rows[0]) if rows else []
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for row in rows:
        cells = (f"{cell:.5g}" if isinstance(cell, float) else str(cell) for cell in row.values())
        print(f"| {' | '.join(cells)} |")


def interval(mean: float, samples: Iterable[Any], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return a mean with its t interval; the variances of the samples' means add up (Satterthwaite)."""
    import numpy as np
    from scipy.special import stdtrit

    variances = [(float(np.var(sample, ddof=1)) / len(sample), len(sample) - 1) for sample in samples]
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return mean, mean, mean
    freedom = total**2 / sum(variance**2 / size for variance, size in variances)
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(total)
    return mean, mean - half, mean + half


def rounded(value: Any, digits: int = 5) -> Any:
    """Return a report with its numbers rounded."""
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    return round(value, digits) if isinstance(value, float) else value
