"""Assignment of a step's rows to updates: whole questions, on several ranks as on one."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_ONE_TOKEN = 24_576
"""Workload of a token apart from attention, in that of a pair of tokens; verl's constant for a 7B model."""


def order_updates(batch: Any, keys: Sequence[str], *, mini_batch: int, ranks: int) -> dict[str, float]:
    """Reorder the rows of verl's padded batch by `order_rows`; return metrics of the ranks' tokens."""
    padding = [bool(tag.get("is_padding")) for tag in batch.tags]
    places = {key: place for place, key in enumerate(keys)}
    order = [
        (is_padding, places.get(key, len(keys))) for is_padding, key in zip(padding, batch.keys, strict=True)
    ]
    batch.reorder(sorted(range(len(order)), key=lambda row: order[row]))
    real = len(padding) - sum(padding)
    questions = [*(place_of(key)[0] for key in batch.keys[:real]), *([None] * sum(padding))]
    lengths = [tag["seq_len"] for tag in batch.tags]
    workloads = [_ONE_TOKEN * length + length**2 for length in lengths]
    parts = order_rows(questions, workloads, mini_batch=mini_batch, ranks=ranks)
    batch.reorder([row for part in parts for row in part])
    tokens = [float(sum(lengths[row] for row in part)) for part in parts]
    return {"global_seqlen/balanced_min": min(tokens), "global_seqlen/balanced_max": max(tokens)}


def place_of(key: str) -> tuple[str, int, int]:
    """Return the question, the session and the output in a row's key."""
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)


def order_rows(
    questions: Sequence[str | None], workloads: Sequence[int], *, mini_batch: int, ranks: int
) -> list[list[int]]:
    """Return the rows of each rank, those of its first update first, and so on.

    By default verl balances ranks over the whole step, which scatters a question's rows over updates. Here
    each update has whole questions and nearly the same number of rows, and is balanced by itself. A question
    is split only if it would not fit otherwise.
    """
    rows = len(questions)
    real = questions.index(None) if None in questions else rows
    cuts = _cuts(questions[:real], rows // mini_batch, mini_batch)
    parts: list[list[int]] = [[] for _ in range(ranks)]
    padding = real
    for start, end in pairwise(cuts):
        missing = mini_batch - (end - start)
        update = [*range(start, end), *range(padding, padding + missing)]
        padding += missing
        for part, rows_of_rank in zip(parts, _balance(update, workloads, ranks), strict=True):
            part += rows_of_rank
    return parts


def _balance(update: Sequence[int], workloads: Sequence[int], ranks: int) -> list[list[int]]:
    """Give each rank as many rows: the heaviest first, each to the rank with the least work."""
    parts: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in sorted(update, key=lambda row: -workloads[row]):
        free = [rank for rank in range(ranks) if len(parts[rank]) < len(update) // ranks]
        rank = min(free, key=loads.__getitem__)
        parts[rank].append(row)
        loads[rank] += workloads[row]
    return [sorted(part) for part in parts]


def _cuts(questions: Sequence[str | None], updates: int, most: int) -> list[int]:
    """Return the boundaries of the updates, each of at most `most` rows."""
    rows = len(questions)
    starts = [row for row in range(rows) if row == 0 or questions[row] != questions[row - 1]]
    cuts = [0]
    for number in range(1, updates):
        target = rows * number / updates
        place = bisect_left(starts, target)
        near = min((*starts[max(place - 1, 0) : place + 1], rows), key=lambda start: abs(start - target))
        cuts.append(min(max(near, rows - (updates - number) * most), cuts[-1] + most))
    return [*cuts, rows]
