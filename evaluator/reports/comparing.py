"""Compare two methods on the same problems: paired differences by benchmark, k and problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluator.passk import Comparison, compare, holm
from evaluator.reports.methods import Entry, Method
from evaluator.reports.published import in_order
from evaluator.reports.report import DEFAULT_K
from service.errors import InputError


@dataclass(frozen=True)
class BenchmarkComparison:
    """A and B on one benchmark; `changes` are rows of all compared problems, A's largest gain first."""

    benchmark: str
    a: Entry
    b: Entry
    comparison: Comparison
    changes: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class MethodComparison:
    """A and B on every benchmark that both have."""

    label_a: str
    label_b: str
    ks: tuple[int, ...]  # ascending
    parts: tuple[BenchmarkComparison, ...]
    # p-values by (benchmark, k), by Holm's method over the benchmarks of that k
    adjusted: dict[tuple[str, int], float]
    only_a: tuple[str, ...]  # benchmarks of one side only
    only_b: tuple[str, ...]
    chosen: str


def compare_methods(
    a: Method,
    b: Method,
    *,
    ks: Sequence[int] | None = None,
    allow_missing: bool = False,
    common_only: bool = False,
) -> MethodComparison:
    """Compare A with B on each benchmark that both have, problem by problem.

    Args:
        ks: by default the powers of two up to 32 or to what every problem has samples for.
        allow_missing: leave out problems with fewer than max(ks) samples on either side.
        common_only: where the problems differ compare those that both have.
    """
    shared = in_order(name for name in a.entries if name in b.entries)
    if not shared:
        raise InputError(
            f"{a.label} and {b.label} have no common benchmark: {a.label} has {', '.join(a.entries)}, "
            f"{b.label} has {', '.join(b.entries)}."
        )
    wanted, chosen = _choose_ks([side.entries[name] for side in (a, b) for name in shared], ks)
    parts = []
    for name in shared:
        entry_a, entry_b = a.entries[name], b.entries[name]
        try:
            comparison = compare(
                entry_a.counts,
                entry_b.counts,
                wanted,
                allow_missing=allow_missing,
                common_only=common_only,
            )
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        parts.append(
            BenchmarkComparison(name, entry_a, entry_b, comparison, _changes(entry_a, entry_b, comparison))
        )
    adjusted = {
        (part.benchmark, k): float(p)
        for k in wanted
        for part, p in zip(parts, holm([part.comparison.at(k).p_value for part in parts]), strict=True)
    }
    only_a, only_b = (tuple(name for name in side.entries if name not in shared) for side in (a, b))
    return MethodComparison(
        label_a=a.label,
        label_b=b.label,
        ks=wanted,
        parts=tuple(parts),
        adjusted=adjusted,
        only_a=only_a,
        only_b=only_b,
        chosen=chosen,
    )


def comparison_records(comparison: MethodComparison) -> list[dict[str, Any]]:
    """Return one row a benchmark and k, at full precision; shares, differences A minus B."""
    return [
        {
            "a": comparison.label_a,
            "b": comparison.label_b,
            "run_a": "+".join(part.a.runs),
            "run_b": "+".join(part.b.runs),
            "benchmark": part.benchmark,
            "k": point.k,
            "problems": len(part.comparison.problem_ids),
            "value_a": point.value_a,
            "value_b": point.value_b,
            "difference": point.difference,
            "lowest": point.bounds[0],
            "highest": point.bounds[1],
            "low": point.interval.low,
            "high": point.interval.high,
            "interval": point.interval.question,
            "p_value": point.p_value,
            "p_holm": comparison.adjusted[part.benchmark, point.k],
            "same_low": point.same_interval.low,
            "same_high": point.same_interval.high,
            "same_interval": point.same_interval.question,
            "same_z": point.same_z,
            "same_p_value": point.same_p_value,
            "wins": point.wins,
            "losses": point.losses,
            "ties": point.ties,
            "warning": point.warning,
        }
        for part in comparison.parts
        for point in part.comparison.points
    ]


def change_records(comparison: MethodComparison) -> list[dict[str, Any]]:
    """Return one row a benchmark and problem, A's largest gain first."""
    return [{"benchmark": part.benchmark, **change} for part in comparison.parts for change in part.changes]


def _changes(entry_a: Entry, entry_b: Entry, compared: Comparison) -> tuple[dict[str, Any], ...]:
    """Return each problem's correct samples on both sides, its place in the (first) run of A, and the change.

    The change is A's success rate minus B's.
    """
    a, b, positions = entry_a.counts, entry_b.counts, entry_a.positions
    at_a = {id: place for place, id in enumerate(a.problem_ids)}
    at_b = {id: place for place, id in enumerate(b.problem_ids)}
    changes: list[dict[str, Any]] = [
        {
            "problem_id": id,
            "position": positions[i],
            "correct_a": int(a.correct[i]),
            "n_a": int(a.n[i]),
            "correct_b": int(b.correct[j]),
            "n_b": int(b.n[j]),
            "change": float(a.correct[i] / a.n[i] - b.correct[j] / b.n[j]),
        }
        for id, i, j in ((id, at_a[id], at_b[id]) for id in compared.problem_ids)
    ]
    return tuple(sorted(changes, key=lambda change: (-change["change"], change["position"])))


def _choose_ks(entries: Sequence[Entry], ks: Sequence[int] | None) -> tuple[tuple[int, ...], str]:
    if ks is not None:
        return tuple(sorted(set(ks))), ""
    least = max(1, min(int(np.min(entry.counts.n)) for entry in entries))
    most = min(DEFAULT_K, least)
    powers = tuple(2**power for power in range(most.bit_length()))
    note = (
        f"k goes up to {powers[-1]}, because some problems have only {least} graded samples."
        if least < DEFAULT_K
        else ""
    )
    return powers, note
