"""The files of a training's record: a step's headers and texts, the counts of all steps.

`step-N.parquet` holds the headers of a step's rollouts by question and session. `texts-N.parquet` holds their
texts in the same order, `TEXTS_PER_GROUP` rows in a row group; the footer of `step-N` names the hash of its
footer. `counts.parquet` holds one row per step, question and variant (see `counting`).
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from service.errors import InputError
from service.hashing import canonical_json
from trainer_adapter.record.parquet import read_parquet
from trainer_adapter.record.rollout import RolloutHeader

FORMAT = "3"
FORMAT_KEY, RUN_KEY, STEP_KEY = b"tagrpo.rollouts", b"tagrpo.run", b"tagrpo.step"
TEXTS_KEY = b"tagrpo.texts"
TEXTS_PER_GROUP = 128
RUN_FILE, METRICS_FILE, COUNTS_FILE = "run.json", "metrics.jsonl", "counts.parquet"

_KINDS = {int: "int64", bool: "bool", float: "double", str: "string"}
HEADER_TYPES = {
    name: _KINDS[(get_args(kind) or (kind,))[0]] for name, kind in get_type_hints(RolloutHeader).items()
}
"""Arrow's types of the columns of `step-N.parquet`."""

_NAME = re.compile(r"(step|texts)-(\d{8,10})\.parquet")

FileState = tuple[int, int, int] | None
"""Time of the last change, size and inode; None for no file."""


@dataclass(frozen=True)
class FolderRun:
    """What `run.json` says of a folder's run; name None if there is no such file."""

    name: str | None
    spec: dict[str, Any]
    versions: dict[str, Any]


def step_path(folder: Path, step: int) -> Path:
    """Return the path of a step's headers; names sort as steps do."""
    return folder / f"step-{step:08d}.parquet"


def texts_path(folder: Path, step: int) -> Path:
    """Return the path of a step's texts."""
    return folder / f"texts-{step:08d}.parquet"


def steps_there(folder: Path, kind: str = "step") -> list[int]:
    """Return the steps that have a file of headers ("step") or of texts ("texts"), in order."""
    try:
        names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError as error:
        raise InputError(f"{folder}: the rollout folder cannot be read ({error.strerror}).") from error
    return sorted(int(match[2]) for match in names if match and match[1] == kind)


def file_state(path: Path) -> FileState:
    """Return what changes with a file; None if it is not there."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def about_file(run: str | None, step: int | None = None) -> dict[bytes, str]:
    """Return what the footer of a file of a run says."""
    about = {FORMAT_KEY: FORMAT, RUN_KEY: run, STEP_KEY: None if step is None else str(step)}
    return {key: text for key, text in about.items() if text is not None}


def read_headers(folder: Path, run: str | None, step: int) -> Any:
    """Return the headers of a step as a pyarrow table."""
    return read_parquet(step_path(folder, step), HEADER_TYPES, about_file(run, step))


def read_run(folder: Path) -> FolderRun:
    """Return what `run.json` says."""
    path = folder / RUN_FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        canonical_json(about)  # no database holds NaN and infinities
        return FolderRun(str(about["run"]), dict(about["spec"]), dict(about["versions"]))
    except FileNotFoundError:
        return FolderRun(None, {}, {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a valid run description ({error}).") from error


def read_metrics(folder: Path) -> tuple[dict[int, dict[str, float]], int]:
    """Return the finite metrics of each step, those recorded last, and the number of lines that hold none.

    A kill of the training leaves one such line, cut short; more of them mean that the file is damaged.
    """
    path = folder / METRICS_FILE
    metrics: dict[int, dict[str, float]] = {}
    unread = 0
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return metrics, unread
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    for line in lines:
        try:
            row = json.loads(line)
            step = int(row["step"])
            if not 0 <= step < 2**31 or b"\0" in "".join(row["metrics"]).encode():
                raise ValueError("invalid step or metric name")
            numbers = {sys.intern(name): float(value) for name, value in row["metrics"].items()}
            metrics[step] = {name: number for name, number in numbers.items() if math.isfinite(number)}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            unread += bool(line.strip())
    return dict(sorted(metrics.items())), unread
