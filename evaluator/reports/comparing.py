"""Compare two methods on the same problems: paired differences by benchmark, k and problem."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.tables import RunProblemRow
from evaluator.passk import Comparison, compare, holm, pass_at_k
from evaluator.passk.comparison import FLIPS, SEED
from evaluator.passk.curves import check_ks
from evaluator.reports.documents.document import (
    Document,
    Table,
    hundredths,
    joined,
    points,
    span,
    table_of,
)
from evaluator.reports.layout import human_notes, judge_notes, run_notes
from evaluator.reports.methods import Entry, Method, differing_settings
from evaluator.reports.published import in_order
from evaluator.reports.report import curve_ks, usual_k
from service.errors import InputError

CHANGES_SHOWN = 5
Which = Literal["first only", "second only", "both", "neither", "all"]
SOLVED = 0.5
"""A run solves a problem if at least this share of the draws of k samples has a correct one."""
_WHICH: dict[tuple[bool, bool], Which] = {
    (True, True): "both",
    (True, False): "first only",
    (False, True): "second only",
    (False, False): "neither",
}


@dataclass(frozen=True)
class BenchmarkComparison:
    """A and B on one benchmark.

    `rows` have a row per k at full precision: shares, and differences A minus B. `changes` have a row per
    compared problem, A's largest gain in its success rate first.
    """

    benchmark: str
    a: Entry
    b: Entry
    comparison: Comparison
    rows: list[dict[str, Any]]
    changes: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class MethodComparison:
    """A and B on every benchmark that both have."""

    label_a: str
    label_b: str
    ks: tuple[int, ...]  # ascending
    parts: tuple[BenchmarkComparison, ...]
    only_a: tuple[str, ...]  # benchmarks of one side only
    only_b: tuple[str, ...]
    remarks: tuple[str, ...]  # on the choice of k

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in part.rows]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [row for part in self.parts for row in part.changes]


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
        ks: By default the powers of two up to 32 or to what every problem has samples for.
        allow_missing: Leave out problems with fewer than max(ks) samples on either side.
        common_only: If the problems differ, compare those that both have.
    """
    shared = in_order(name for name in a.entries if name in b.entries)
    if not shared:
        raise InputError(
            f"{a.label} and {b.label} have no common benchmark: {a.label} has {', '.join(a.entries)}, "
            f"{b.label} has {', '.join(b.entries)}."
        )
    if ks is None:
        most, chosen = usual_k((side.label, side.entries[name]) for side in (a, b) for name in shared)
        wanted = curve_ks(most)
    else:
        wanted, chosen = check_ks(ks), []
    compared: dict[str, Comparison] = {}
    for name in shared:
        counts = a.entries[name].counts, b.entries[name].counts
        try:
            compared[name] = compare(*counts, wanted, allow_missing=allow_missing, common_only=common_only)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    by_k = {k: holm([each.points[k].p_value for each in compared.values()]) for k in wanted}
    parts = []
    for place, (name, comparison) in enumerate(compared.items()):
        entry_a, entry_b = a.entries[name], b.entries[name]
        common: dict[str, Any] = {
            "a": a.label,
            "b": b.label,
            "run_a": "+".join(entry_a.runs),
            "run_b": "+".join(entry_b.runs),
            "benchmark": name,
        }
        rows: list[dict[str, Any]] = [
            {
                **common,
                "k": point.k,
                "problems": len(comparison.problem_ids),
                **vars(point),
                "p_holm": float(by_k[point.k][place]),
            }
            for point in comparison.points.values()
        ]
        changes = [
            {"benchmark": name, **change} for change in _changes(entry_a, entry_b, comparison.problem_ids)
        ]
        parts.append(BenchmarkComparison(name, entry_a, entry_b, comparison, rows, changes))
    only_a, only_b = (tuple(name for name in side.entries if name not in shared) for side in (a, b))
    return MethodComparison(
        label_a=a.label,
        label_b=b.label,
        ks=wanted,
        parts=tuple(parts),
        only_a=only_a,
        only_b=only_b,
        remarks=tuple(chosen),
    )


def _changes(entry_a: Entry, entry_b: Entry, ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return each problem's correct samples, its place in the (first) run of A and of B, and the change."""
    a, b = entry_a.counts, entry_b.counts
    at_a, at_b = ({id: place for place, id in enumerate(side.problem_ids)} for side in (a, b))
    changes: list[dict[str, Any]] = [
        {
            "problem_id": id,
            "position": entry_a.positions[i],
            "position_b": entry_b.positions[j],
            "correct_a": int(a.correct[i]),
            "n_a": int(a.n[i]),
            "correct_b": int(b.correct[j]),
            "n_b": int(b.n[j]),
            "change": float(a.correct[i] / a.n[i] - b.correct[j] / b.n[j]),
        }
        for id, i, j in ((id, at_a[id], at_b[id]) for id in ids)
    ]
    return sorted(changes, key=lambda change: (-change["change"], change["position"]))


def comparison_document(
    comparison: MethodComparison, extra_notes: Sequence[str] = (), *, changes: int = CHANGES_SHOWN
) -> Document:
    """Return the table of differences, the `changes` largest gains and losses by benchmark, and notes."""
    columns = [
        ("benchmark", "benchmark"),
        ("k", "k"),
        ("A", "value_a", hundredths),
        ("B", "value_b", hundredths),
        ("A - B", _difference),
        ("95%, new problems", _new_problems),
        ("p", "p_value", _p),
        ("p (Holm)", "p_holm", _p),
        ("wins/losses/ties", lambda row: f"{row['wins']}/{row['losses']}/{row['ties']}"),
        ("95%, same problems", lambda row: span(row["same_low"], row["same_high"], points)),
        ("z", "same_z", "{:+.2f}".format),
        ("p", "same_p_value", _p),
    ]
    title = f"pass@k, A = {comparison.label_a}, B = {comparison.label_b}; percent, differences in points"
    breaks = range(0, len(comparison.rows), len(comparison.ks))
    tables = [table_of(comparison.rows, columns, title=title, breaks=breaks)]
    if changes:
        tables.append(_changes_table(comparison, changes))
    notes = (*comparison_notes(comparison), *_reading(comparison), *extra_notes)
    return Document(tuple(tables), notes)


def ahead(comparison: MethodComparison) -> str:
    """Say at which k one side is ahead as far as the 95% intervals can tell; of one benchmark."""
    ks: dict[str, list[str]] = {comparison.label_a: [], comparison.label_b: [], "": []}
    for row in comparison.rows:
        side = comparison.label_a if row["low"] > 0 else comparison.label_b if row["high"] < 0 else ""
        ks[side].append(str(row["k"]))
    clauses = [f"**{name}** is ahead at k = {joined(at)}" for name, at in ks.items() if name and at]
    if not clauses:
        return "no significant difference at any k"
    if ks[""]:
        clauses.append(f"the interval contains 0 at k = {joined(ks[''])}")
    return "; ".join(clauses)


def _difference(row: Mapping[str, Any]) -> str:
    low, high = (points(row[bound], 2) for bound in ("lowest", "highest"))
    return points(row["difference"], 2) + (f"\n({low} to {high})" if low != high else "")


def _new_problems(row: Mapping[str, Any]) -> str:
    return span(row["low"], row["high"], points) + (" (!)" if row["warning"] else "")


def _changes_table(comparison: MethodComparison, most: int) -> Table:
    rows: list[dict[str, Any]] = []
    breaks = []
    for part in comparison.parts:
        breaks.append(len(rows))
        rows += [change for change in part.changes if change["change"] > 0][:most]
        rows += [change for change in part.changes if change["change"] < 0][-most:]
    columns = [
        *(("benchmark", "benchmark"), ("problem", "problem_id"), ("place", "position")),
        ("A correct", lambda row: f"{row['correct_a']}/{row['n_a']}"),
        ("B correct", lambda row: f"{row['correct_b']}/{row['n_b']}"),
        ("A - B", "change", points),
    ]
    return table_of(rows, columns, title="problems with the largest changes", words=2, breaks=breaks)


def comparison_notes(comparison: MethodComparison) -> list[str]:
    """Return what has to be said of these runs and of what was compared, in sentences."""
    notes = [*comparison.remarks]
    sides = [
        pair
        for part in comparison.parts
        for pair in ((comparison.label_a, part.a), (comparison.label_b, part.b))
    ]
    notes += run_notes([entry for _, entry in sides]) + human_notes(sides) + judge_notes(sides)
    warned: dict[str, dict[str, list[str]]] = {}
    for row in comparison.rows:
        if row["warning"]:
            where = warned.setdefault(row["warning"], {})
            where.setdefault(row["benchmark"], []).append(str(row["k"]))
    for warning, where in warned.items():
        places = ", ".join(f"{benchmark} at k = {', '.join(ks)}" for benchmark, ks in where.items())
        notes.append(f"(!) {places}: {warning}.")
    for part in comparison.parts:
        compared = part.comparison
        shared = [run for run in part.a.runs if run in part.b.runs]
        if shared:
            notes.append(
                f"(!) {part.benchmark}: {', '.join(shared)} is on both sides. The sides share samples, but "
                "intervals and p-values assume independent samples."
            )
        if compared.only_a or compared.only_b:
            notes.append(
                f"{part.benchmark}: {len(compared.only_a)} problems only in A and {len(compared.only_b)} "
                f"only in B are excluded; {len(compared.problem_ids)} are compared."
            )
        if compared.left_out:
            notes.append(
                f"{part.benchmark}: {len(compared.left_out)} problems with too few samples are excluded."
            )
        if compared.thinned:
            notes.append(
                f"{part.benchmark}: {compared.thinned} problems have more samples on one side. For p, wins "
                "and losses, tagrpo uses equally many random samples from both sides, because the "
                "variance of an estimate depends on its sample size. Values and intervals use all samples."
            )
        specs = {f"A ({comparison.label_a})": part.a.spec, f"B ({comparison.label_b})": part.b.spec}
        differing = differing_settings(specs, among=("prompt.", "sampling."))
        if differing:
            notes.append(f"{part.benchmark}: sampled with different settings: {'; '.join(differing)}.")
    for label, names in ((comparison.label_a, comparison.only_a), (comparison.label_b, comparison.only_b)):
        if names:
            notes.append(f"Not compared, because only {label} has results: {', '.join(names)}.")
    return notes


def _reading(comparison: MethodComparison) -> list[str]:
    """Say how the table was made, and what its brackets are."""
    several = len(comparison.parts) > 1
    corrected = f", Holm-corrected over the {len(comparison.parts)} benchmarks at each k" if several else ""
    paired = (
        "Differences are paired by problem. The interval for new problems is a t interval; p comes from "
        f"{FLIPS:,} sign flips (seed {SEED}){corrected}. The last three columns cover new "
        "samples on the same problems only, not other problems."
    )
    if any(row["lowest"] < row["highest"] for row in comparison.rows):
        brackets = (
            "If grades are unknown or requested samples are missing, brackets show the lowest and "
            "highest possible difference; the intervals cover both."
        )
        return [paired, brackets]
    return [paired]


def _p(value: float) -> str:
    return "<.001" if value < 0.001 else f"{value:.3f}"


def contrast_problems(a: Entry, b: Entry, k: int) -> tuple[list[dict[str, Any]], int]:
    """Return the common problems of two entries with pass@k in each, and how many have fewer samples.

    Those with the largest difference come first. Unknown grades count as wrong.
    """
    if k < 1:
        raise InputError(f"k is {k}, but must be at least 1.")
    samples = [dict(zip(of.counts.problem_ids, of.counts.n, strict=True)) for of in (a, b)]
    common = [id for id in samples[0] if id in samples[1]]
    rows = _changes(a, b, (id for id in common if min(samples[0][id], samples[1][id]) >= k))
    columns = {name: [row[name] for row in rows] for name in ("n_a", "correct_a", "n_b", "correct_b")}
    values = (pass_at_k(columns[f"n_{side}"], columns[f"correct_{side}"], k).tolist() for side in "ab")
    for row, value_a, value_b in zip(rows, *values, strict=True):
        which = _WHICH[value_a >= SOLVED, value_b >= SOLVED]
        row |= {"value_a": value_a, "value_b": value_b, "which": which}
    rows.sort(key=lambda row: (-abs(row["value_b"] - row["value_a"]), -abs(row["change"]), row["position"]))
    return rows, len(common) - len(rows)


def contrast_texts(session: Session, run_id: str, positions: Sequence[int]) -> dict[int, RunProblem]:
    """Return problems of a run with their texts, by position."""
    chosen = (RunProblemRow.run_id == run_id) & RunProblemRow.position.in_(positions)
    return {problem.position: problem for problem in read_problems(session, chosen)}
