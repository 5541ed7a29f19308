"""Measure the structural checks on every file of question pairs in a folder.

    python benchmarks/structural_checks.py [--data DIR] [--show FILE [--passed]] [--half even|odd]

A file of pairs is a `*.jsonl` file whose rows have `original_question` and `question`. `flagged` is the
share of its rows with at least one fatal finding; rows whose `same_answer` differs are counted apart as
well, and so are the even and the odd rows. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rephraser.checks import Severity, check_candidate

ROOT = Path(__file__).resolve().parents[1]


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of pairs that have both texts; empty for a file of another kind."""
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row, dict) or "original_question" not in row or "question" not in row:
                return []
            if isinstance(row["original_question"], str) and isinstance(row["question"], str):
                rows.append(row)
    return rows


def share(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0


def measure(rows: list[dict[str, Any]]) -> tuple[list[bool], Counter[str], list[list[str]]]:
    """For every row whether it is flagged; how many rows each fatal finding names; each row's findings."""
    flags, names, details = [], Counter[str](), []
    for row in rows:
        findings = check_candidate(row["original_question"], row["question"])
        fatal = [f for f in findings if f.severity is Severity.FATAL]
        flags.append(bool(fatal))
        names.update({f.name for f in fatal})
        details.append([f"{f.name}: {f.detail}" for f in fatal])
    return flags, names, details


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT / ".." / "shared" / "data", help="folder of *.jsonl files"
    )
    parser.add_argument("--show", metavar="FILE", help="print the flagged rows of this file")
    parser.add_argument(
        "--passed", action="store_true", help="with --show: print the rows that are not flagged"
    )
    parser.add_argument("--half", choices=["even", "odd"], help="with --show: only these rows")
    options = parser.parse_args()
    files = sorted(options.data.glob("*.jsonl"))
    if not files:
        parser.error(f"no *.jsonl files in {options.data}; give the folder with --data")
    result: dict[str, dict[str, float | int]] = {}
    pairs, seconds = 0, 0.0
    for path in files:
        rows = read_pairs(path)
        if not rows:
            continue
        started = time.perf_counter()
        flags, names, details = measure(rows)
        seconds += time.perf_counter() - started
        pairs += len(rows)
        entry: dict[str, float | int] = {"rows": len(rows), "flagged": share(flags)}
        for key, wanted in (("same_answer_true", True), ("same_answer_false", False)):
            chosen = [flag for flag, row in zip(flags, rows, strict=True) if row.get("same_answer") is wanted]
            if chosen and len(chosen) < len(rows):
                entry |= {f"{key}_rows": len(chosen), f"{key}_flagged": share(chosen)}
        entry |= {"even_flagged": share(flags[::2]), "odd_flagged": share(flags[1::2])}
        result[path.stem] = entry
        print(f"{path.stem}: {entry['flagged']:.1%} of {len(rows)} rows flagged")
        print(
            "  "
            + ", ".join(f"{key} {value}" for key, value in entry.items() if key not in {"rows", "flagged"})
        )
        print("  " + ", ".join(f"{name} {count}" for name, count in names.most_common(12)))
        if options.show == path.stem:
            for i, (row, flag) in enumerate(zip(rows, flags, strict=True)):
                if flag is options.passed or (options.half and options.half != ("even", "odd")[i % 2]):
                    continue
                print(f"--- {row.get('id', i)} same_answer={row.get('same_answer')}")
                print(f"  original:  {row['original_question']}\n  candidate: {row['question']}")
                print("".join(f"    {detail}\n" for detail in details[i]), end="")
    if not result:
        parser.error(f"no file in {options.data} has rows with original_question and question")
    print(f"{pairs / seconds:.0f} pairs per second")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
