"""The files of a training's record: a step's headers and texts, the counts of all steps.

`step-N.parquet` holds the headers of a step's rollouts by question and session. `texts-N.parquet` holds their
texts in the same order, `TEXTS_PER_GROUP` rows in a row group; the footer of `step-N` names the hash of its
footer. `counts.parquet` holds one row per step, question and variant, and the hash of the footer of the
`step-N` that was counted.
"""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.errors import InputError
from service.hashing import canonical_json
from service.parquet import DamagedFileError, footer_hash, read_parquet
from trainer_adapter.record.rollout import HEADERS, NUMBERS

FORMAT = "2"
FORMAT_KEY, RUN_KEY, STEP_KEY = b"tagrpo.rollouts", b"tagrpo.run", b"tagrpo.step"
TEXTS_KEY = b"tagrpo.texts"
TEXTS_PER_GROUP = 128
RUN_FILE, METRICS_FILE, COUNTS_FILE = "run.json", "metrics.jsonl", "counts.parquet"
SUMS = (
    *("responses", "correct", "wrong", "unknown", "truncated", "timeouts", "tokens"),
    *("reward_sum", "weighed", "weight", "squares"),
)
"""Counts that are sums over the responses of a prompt.

`weighed` are responses of neighbors with a negative advantage and known log-probs, `weight` the sum of their
min(1, pi_old(o | question) / pi(o | neighbor)), `squares` that of its squares.
"""

_NAME = re.compile(r"(step|texts)-(\d{8,10})\.parquet")


@dataclass(frozen=True)
class FolderRun:
    """What `run.json` says of a folder's run; name None if there is no such file."""

    name: str | None
    spec: dict[str, Any]
    versions: dict[str, Any]


@dataclass(frozen=True)
class StepHeaders:
    """The headers of a step as a pyarrow table, and the hash that its texts file must have."""

    step: int
    table: Any
    texts: str


def step_path(folder: Path, step: int) -> Path:
    """Return the path of a step's headers; names sort as steps do."""
    return folder / f"step-{step:08d}.parquet"


def texts_path(folder: Path, step: int) -> Path:
    """Return the path of a step's texts."""
    return folder / f"texts-{step:08d}.parquet"


def steps_there(folder: Path, kind: str = "step") -> list[int]:
    """Return the steps that have a file of headers ("step") or of texts ("texts"), in order.

    Raises:
        InputError: there is no such folder.
    """
    try:
        names = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError as error:
        raise InputError(f"{folder}: this folder of rollouts cannot be read ({error.strerror}).") from error
    return sorted(int(match[2]) for match in names if match and match[1] == kind)


def header_types() -> dict[str, Any]:
    """Return the pyarrow types of the columns of `step-N.parquet`."""
    import pyarrow as pa

    whole = ("step", "variant", "group", "session", "tokens", "weights_version")
    kinds = {
        **dict.fromkeys(whole, pa.int64()),
        **dict.fromkeys(("truncated", "correct"), pa.bool_()),
        **dict.fromkeys(NUMBERS, pa.float64()),
    }
    return {name: kinds.get(name, pa.string()) for name in HEADERS}


def count_schema() -> Any:
    """Return the pyarrow schema of `counts.parquet`."""
    import pyarrow as pa

    texts = ("question_id", "neighbor_id", "strategy", "content")
    numbers = ("reward_sum", "weight", "squares", "reward_least", "reward_most")
    names = (
        "step",
        "question_id",
        "variant",
        "neighbor_id",
        "strategy",
        *SUMS,
        "reward_least",
        "reward_most",
    )
    kinds = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.float64())}
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in (*names, "content")])


def about_file(run: str | None, step: int | None = None) -> dict[bytes, str]:
    """Return what the footer of a file of a run says."""
    about = {FORMAT_KEY: FORMAT}
    if run is not None:
        about[RUN_KEY] = run
    if step is not None:
        about[STEP_KEY] = str(step)
    return about


def read_headers(folder: Path, run: str | None, step: int) -> StepHeaders:
    """Return the headers of a step.

    Raises:
        FileNotFoundError: the step has no file.
        DamagedFileError: the file is damaged, or another run's or step's.
    """
    table = read_parquet(step_path(folder, step), header_types(), about_file(run, step))
    texts = table.schema.metadata.get(TEXTS_KEY, b"").decode()
    return StepHeaders(step, table, texts)


def read_texts(folder: Path, headers: StepHeaders, rows: Sequence[int], column: str) -> dict[int, str]:
    """Return a column of texts in these rows of a step, by row; only their row groups are read.

    Rows without a text are left out.

    Raises:
        DamagedFileError: the file is damaged, missing, or was written with other headers.
    """
    import pyarrow as pa

    path = texts_path(folder, headers.step)
    texts: dict[int, str] = {}
    try:
        if footer_hash(path) != headers.texts:
            raise DamagedFileError(
                f"{path}: is damaged, or not of the same time as {step_path(folder, headers.step).name}. "
                "Copy both again, or resume the training."
            )
        for group in sorted({row // TEXTS_PER_GROUP for row in rows}):
            first = group * TEXTS_PER_GROUP
            part = read_parquet(path, {column: pa.string()}, about_file(None, headers.step), [group])
            values = part.column(column).to_pylist()
            texts.update(
                (row, values[row - first])
                for row in rows
                if row // TEXTS_PER_GROUP == group and values[row - first] is not None
            )
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: is missing. Copy it again or put it back.") from error
    return texts


def read_counts(folder: Path, run: str | None) -> Any:
    """Return the counts of a folder as a pyarrow table; an empty one if there is no file.

    Raises:
        DamagedFileError: the file is damaged or another run's.
    """
    schema = count_schema()
    try:
        types = dict(zip(schema.names, schema.types, strict=True))
        return read_parquet(folder / COUNTS_FILE, types, about_file(run))
    except FileNotFoundError:
        return schema.empty_table()


def count_prompts(headers: StepHeaders, content: str) -> Any:
    """Return the counts of each prompt of a step by question and variant, as in `counts.parquet`.

    Args:
        content: the hash of the footer of the step's file.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = headers.table

    def number(condition: Any) -> Any:
        return pc.cast(pc.fill_null(condition, fill_value=False), pa.int64())

    log_ratios = pc.subtract(table["old_log_prob"], table["sampling_log_prob"])
    lowered = pc.and_(pc.greater(table["variant"], 0), pc.less(table["advantage"], 0.0))
    weighed = pc.fill_null(pc.and_(lowered, pc.is_valid(log_ratios)), fill_value=False)
    weights = pc.if_else(weighed, pc.exp(pc.min_element_wise(log_ratios, 0.0, skip_nulls=False)), 0.0)
    sums = {
        "responses": pa.array([1] * len(table), pa.int64()),
        "correct": number(table["correct"]),
        "wrong": number(pc.invert(table["correct"])),
        "unknown": number(pc.is_null(table["correct"])),
        "truncated": number(table["truncated"]),
        "timeouts": number(pc.equal(table["reason"], "timeout")),
        "tokens": table["tokens"],
        "reward_sum": table["reward"],
        "weighed": number(weighed),
        "weight": weights,
        "squares": pc.multiply(weights, weights),
    }
    others = {
        "neighbor_id": (table["neighbor_id"], "max"),
        "strategy": (table["strategy"], "max"),
        "reward_least": (table["reward"], "min"),
        "reward_most": (table["reward"], "max"),
    }
    keys = ["question_id", "variant"]
    columns = {name: table[name] for name in keys} | sums | {name: of[0] for name, of in others.items()}
    ways = [*((name, "sum") for name in SUMS), *((name, of[1]) for name, of in others.items())]
    grouped = pa.table(columns).group_by(keys, use_threads=False).aggregate(ways)
    grouped = grouped.sort_by([(name, "ascending") for name in keys])
    counted = {
        name: grouped.column(name if name in keys else f"{name}_{dict(ways)[name]}") for name in columns
    }
    counted["step"] = pa.array([headers.step] * len(grouped), pa.int64())
    counted["content"] = pa.array([content] * len(grouped))
    return pa.table(counted).select(count_schema().names).cast(count_schema())


def replace_step(counts: Any, step: int, counted: Any) -> Any:
    """Return counts with those of a step in the place of earlier ones; steps stay in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    steps = counts["step"]
    before, behind = counts.filter(pc.less(steps, step)), counts.filter(pc.greater(steps, step))
    return pa.concat_tables([before, counted, behind])


def counted_contents(counts: Any) -> dict[int, str]:
    """Return for each counted step the hash of the footer of the file that was counted."""
    import numpy as np

    steps, first = np.unique(counts["step"].to_numpy(), return_index=True)
    return dict(zip(steps.tolist(), counts["content"].take(first).to_pylist(), strict=True))


def bring_up_to_date(
    folder: Path, run: str | None, counts: Any, contents: Mapping[int, str]
) -> tuple[Any, dict[int, str]]:
    """Return counts that hold all steps with files, and what is wrong with files that cannot be counted.

    A kill between a step and its counts leaves them behind; so does a step that was copied later.

    Args:
        contents: for each step with a file the hash of its footer.
    """
    counted, damaged = counted_contents(counts), {}
    for step, content in contents.items():
        if counted.get(step) == content:
            continue
        try:
            counts = replace_step(counts, step, count_prompts(read_headers(folder, run, step), content))
        except FileNotFoundError:
            continue
        except DamagedFileError as error:
            damaged[step] = str(error)
    return counts, damaged


def read_run(folder: Path) -> FolderRun:
    """Return what `run.json` says.

    Raises:
        InputError: it is there and is not the description of a run.
    """
    path = folder / RUN_FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        canonical_json(about)  # no database holds NaN and infinities
        return FolderRun(str(about["run"]), dict(about["spec"]), dict(about["versions"]))
    except FileNotFoundError:
        return FolderRun(None, {}, {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the description of a run ({error}).") from error


def read_metrics(folder: Path) -> tuple[dict[int, dict[str, float]], int]:
    """Return the metrics of each step, those recorded last, and the number of lines that hold none.

    A kill of the training leaves one such line, cut short; more of them mean that the file is damaged.

    Raises:
        InputError: the file cannot be read.
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
            step, of_step = _metrics_of(line)
            metrics[step] = of_step
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            unread += bool(line.strip())
    return dict(sorted(metrics.items())), unread


def _metrics_of(line: str) -> tuple[int, dict[str, float]]:
    """Return step and metrics of a line, without values that are not finite."""
    row = json.loads(line)
    step = int(row["step"])
    if not 0 <= step < 2**31 or b"\0" in "".join(row["metrics"]).encode():
        raise ValueError("not a step, or not a name of a metric")
    numbers = {sys.intern(name): float(value) for name, value in row["metrics"].items()}
    return step, {name: number for name, number in numbers.items() if math.isfinite(number)}
