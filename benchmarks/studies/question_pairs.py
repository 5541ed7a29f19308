"""Files of question pairs: an original, a rewrite of it, and what the row says the rewrite is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data
from benchmarks.studies.verdict_simulation import CHANGED, HONEST, SAME_ANSWER, UNANSWERABLE

FILES = (
    "free_honest.jsonl",
    "free_broken.jsonl",
    "free_shifted.jsonl",
    "rephrase_gsm8k_decontaminator.jsonl",
    "math_natural_near_pairs.jsonl",
    "math_perturb_simple.jsonl",
    "gsm_hard.jsonl",
    "reliablemath_unsolvable.jsonl",
)
"""The usual files; each that a folder lacks, where it has others of them, is named."""
KEPT = ("preserving", "intended_preserving", "same", "unknown")  # relations that say or mean the same problem
NAMES = {"rephrased_question": "question", "solution": "original_answer"}  # Co-rewarding's columns
PLACEHOLDER = "<rewritten question>"  # what stands in some of its rows in place of a rewrite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files or folders to read, and how many rows of each."""
    parser.add_argument(
        "paths", nargs="*", type=Path, help="folders or files of pairs; by default those of --data"
    )
    add_data(parser, "folder read where no path is given")
    parser.add_argument("--rows", type=int, default=400, help="most rows of a file, drawn at random")
    parser.add_argument("--seed", type=int, default=0)


def sources(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Path]:
    """Return the files to read; what is missing is named on standard error, and all of it is an error."""
    found: list[Path] = []
    for path in args.paths or [args.data]:
        if not path.is_dir():
            found += [path] if path.exists() else _missing(path)
            continue
        inside = [one for one in sorted((*path.glob("*.jsonl"), *path.glob("*.parquet"))) if read_rows(one)]
        known = [one for name in FILES for one in inside if one.name == name]
        for name in FILES if known else ():
            if not (path / name).exists():
                _missing(path / name)
        found += [*known, *(one for one in inside if one not in known)]
    if not found:
        parser.error(
            f"no file of pairs in {', '.join(map(str, args.paths or [args.data]))}; name files or folders"
        )
    return found


def _missing(path: Path) -> list[Path]:
    print(f"{path} is not there and was left out", file=sys.stderr)
    return []


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that have both texts, by the usual names; none of another kind of file."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.ParquetFile(path)
        columns = {"original_question", "question", *NAMES} & set(table.schema_arrow.names)
        if "original_question" not in columns:
            return []
        rows = table.read(sorted(columns)).to_pylist()
    else:
        with path.open(encoding="utf-8") as lines:
            first = next(lines, "{}")
            if "original_question" not in json.loads(first):
                return []
            rows = [json.loads(line) for line in (first, *lines) if line.strip()]
    rows = [{NAMES.get(name, name): value for name, value in row.items()} for row in rows]
    return [
        row
        for row in rows
        if isinstance(row.get("original_question"), str)
        and isinstance(row.get("question"), str)
        and PLACEHOLDER not in row["question"].lower()
    ]


def truth_of(row: dict[str, Any]) -> str | None:
    """Return what a row is by its own fields; None where both texts are one.

    Rewrites without a label count as what they were meant to be.
    """
    relation = str(row.get("relation") or "")
    same = {"true": True, "1": True, "false": False, "0": False}.get(str(row.get("same_answer")).lower())
    if relation in ("identical", "unlinked"):
        return None
    if relation == "unanswerable":
        return UNANSWERABLE
    if relation in KEPT or not relation:
        return CHANGED if same is False else HONEST
    return SAME_ANSWER if same else CHANGED


def answer_of(row: dict[str, Any]) -> str | None:
    """Return the original's answer, where the row has it."""
    answer = row.get("original_answer") or row.get("answer")
    return str(answer) if answer else None


def kind_of(row: dict[str, Any]) -> str:
    """Return what was changed, in the row's own words."""
    return str(
        row.get("fault") or row.get("style") or row.get("perturbation") or row.get("relation") or "all"
    )
