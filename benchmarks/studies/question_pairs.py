"""Files of question pairs: an original, a rewrite of it, and what the row says the rewrite is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import add_data
from benchmarks.studies.verdict_simulation import CHANGED, HONEST, SAME_ANSWER, UNANSWERABLE

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
    """Return the files to read; missing ones are named on standard error, and it is an error if all are."""
    found: list[Path] = []
    for path in args.paths or [args.data]:
        if path.is_dir():
            inside = sorted((*path.glob("*.jsonl"), *path.glob("*.parquet")))
            found += [each for each in inside if read_rows(each)]
        elif path.exists():
            found.append(path)
        else:
            print(f"{path} is not there and was left out", file=sys.stderr)
    if not found:
        places = ", ".join(map(str, args.paths or [args.data]))
        parser.error(f"no file of pairs in {places}; name files or folders")
    return found


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
