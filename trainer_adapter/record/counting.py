"""The counts of a training: one row per step, question and variant, in `counts.parquet`.

Each row names the hash of the footer of the `step-N.parquet` that was counted. A step that was trained again
or copied later has another one, and is counted again.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer_adapter.record.files import (
    COUNTS_FILE,
    about_file,
    read_headers,
    step_path,
    steps_there,
)
from trainer_adapter.record.parquet import DamagedFileError, footer_hash, read_parquet

SUMS = (
    *("responses", "correct", "wrong", "unknown", "truncated", "timeouts", "tokens"),
    *("reward_sum", "weighed", "weight", "squares"),
)
"""Counts that are sums over the responses of a prompt.

`weighed` are responses of neighbors with a negative advantage and known log-probs, `weight` the sum of their
min(1, pi_old(o | question) / pi(o | neighbor)), `squares` that of its squares.
"""

_OTHERS = {"neighbor_id": "max", "strategy": "max", "reward_least": "min", "reward_most": "max"}
_KEYS = ("question_id", "variant")
_KINDS = {
    **dict.fromkeys(("question_id", "neighbor_id", "strategy", "content"), "string"),
    **dict.fromkeys(("reward_sum", "weight", "squares", "reward_least", "reward_most"), "double"),
}
COUNT_TYPES = {name: _KINDS.get(name, "int32") for name in ("step", *_KEYS, *SUMS, *_OTHERS, "content")}
"""Arrow's types of the columns of `counts.parquet`."""


def current_counts(folder: Path, run: str | None) -> tuple[Any, dict[int, str], list[str]]:
    """Return the counts of all steps, the footer's hash of each step with headers, and damaged files.

    Steps that the file lacks are counted now: a kill between a step and its counts leaves them out.
    """
    import numpy as np
    import pyarrow as pa

    contents: dict[int, str] = {}
    problems = []
    counts = pa.schema(COUNT_TYPES).empty_table()
    with suppress(FileNotFoundError):
        try:
            counts = read_parquet(folder / COUNTS_FILE, COUNT_TYPES, about_file(run))
        except DamagedFileError as error:
            problems.append(f"{error} tagrpo recounted the steps that have files.")
    steps, first = np.unique(counts["step"].to_numpy(), return_index=True)
    counted = dict(zip(steps.tolist(), counts["content"].take(first).to_pylist(), strict=True))
    for step in steps_there(folder):
        with suppress(FileNotFoundError):  # pruned meanwhile
            try:
                content = footer_hash(step_path(folder, step))
                if counted.get(step) != content:
                    of_step = count_prompts(step, read_headers(folder, run, step), content)
                    counts = replace_step(counts, step, of_step)
                contents[step] = content
            except DamagedFileError as error:
                problems.append(str(error))
    return counts, contents, problems


def count_prompts(step: int, headers: Any, content: str) -> Any:
    """Return the counts of each prompt of a step by question and variant, as in `counts.parquet`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def number(condition: Any) -> Any:
        return pc.cast(pc.fill_null(condition, fill_value=False), pa.int64())

    log_ratios = pc.subtract(headers["old_log_prob"], headers["sampling_log_prob"])
    lowered = pc.and_(pc.greater(headers["variant"], 0), pc.less(headers["advantage"], 0.0))
    weighed = pc.fill_null(pc.and_(lowered, pc.is_valid(log_ratios)), fill_value=False)
    weights = pc.if_else(weighed, pc.exp(pc.min_element_wise(log_ratios, 0.0, skip_nulls=False)), 0.0)
    columns = {name: headers[name] for name in (*_KEYS, "neighbor_id", "strategy", "tokens")}
    columns |= dict.fromkeys(("reward_sum", "reward_least", "reward_most"), headers["reward"])
    columns |= {
        "responses": pa.array([1] * len(headers), pa.int64()),
        "correct": number(headers["correct"]),
        "wrong": number(pc.invert(headers["correct"])),
        "unknown": number(pc.is_null(headers["correct"])),
        "truncated": number(headers["truncated"]),
        "timeouts": number(pc.equal(headers["reason"], "timeout")),
        "weighed": number(weighed),
        "weight": weights,
        "squares": pc.multiply(weights, weights),
    }
    names = [name for name in columns if name not in _KEYS]
    grouped = pa.table(columns).group_by(_KEYS, use_threads=False)
    counted = grouped.aggregate([(name, _OTHERS.get(name, "sum")) for name in names])
    counted = counted.rename_columns([*_KEYS, *names]).sort_by([(key, "ascending") for key in _KEYS])
    counted = counted.append_column("step", pa.array([step] * len(counted)))
    counted = counted.append_column("content", pa.array([content] * len(counted)))
    return counted.select(list(COUNT_TYPES)).cast(pa.schema(COUNT_TYPES))


def replace_step(counts: Any, step: int, counted: Any) -> Any:
    """Return counts with those of a step in the place of earlier ones; steps stay in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    steps = counts["step"]
    before, after = counts.filter(pc.less(steps, step)), counts.filter(pc.greater(steps, step))
    return pa.concat_tables([before, counted, after])
