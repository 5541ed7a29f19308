"""What the benchmarks share: the data folder, clocks, memory, and themselves run again in another process."""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TAGRPO_DATA", ROOT.parent / "shared" / "data"))


def add_data(parser: argparse.ArgumentParser, help: str = "folder of public data sets") -> None:
    """Add `--data DIR`, by default TAGRPO_DATA."""
    parser.add_argument("--data", type=Path, default=DATA, help=help)


def run_apart(file: str, *arguments: object) -> dict[str, Any]:
    """Run the benchmark in `file` in a process of its own; return the JSON object of its last line."""
    module = ".".join(Path(file).resolve().relative_to(ROOT).with_suffix("").parts)
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def peak_mb() -> float:
    """Return the most memory that this process held, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def rounded(value: Any, digits: int = 5) -> Any:
    """Return a report with its numbers rounded."""
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner, digits) for inner in value]
    return round(value, digits) if isinstance(value, float) else value
