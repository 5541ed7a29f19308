"""Compare two methods on the same problems: paired differences by benchmark, k and problem."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.tables import RunProblemRow
from evaluator.passk import Comparison, compare, holm, pass_at_k
from evaluator.passk.comparison import FLIPS, SEED
from evaluator.passk.counts import check_ks
from evaluator.reports.document import Document, Table, hundredths, joined, points, span, table_of
from evaluator.reports.layout import human_notes, judge_notes, run_notes
from evaluator.reports.methods import Entry, Method, settings_that_differ_in_effect
from evaluator.reports.published import in_order
from evaluator.reports.report import curve_ks, usual_k
from service.errors import InputError

Which = Literal["first only", "second only", "both", "neither", "all"]
SOLVED = 0.5
"""A run solves a problem if at least this share of the draws of k samples has a correct one."""
_WHICH: dict[tuple[bool, bool], Which] = {
    (True, True): "both",
    (True, False): "first only",
    (False, True): "second only",
    (False, False): "neither",
}


@dataclass(frozen=True, kw_only=True)
class MethodComparison:
    """A and B on every benchmark that both have.

    `rows` have a row per benchmark and k at full precision: shares, and differences A minus B. `changes` have
    a row per compared problem, A's largest gain in its success rate first.
    """

    label_a: str
    label_b: str
    ks: tuple[int, ...]  # ascending
    compared: Mapping[str, Comparison]  # by benchmark
    entries: Mapping[str, tuple[Entry, Entry]]
    rows: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    remarks: list[str]  # on the choice of k, and on benchmarks of one side only


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
        most, remarks = usual_k((side.label, side.entries[name]) for side in (a, b) for name in shared)
        wanted = curve_ks(most)
    else:
        wanted, remarks = check_ks(ks), []
    entries = {name: (a.entries[name], b.entries[name]) for name in shared}
    compared: dict[str, Comparison] = {}
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    options = {"allow_missing": allow_missing, "common_only": common_only}
    for name, (entry_a, entry_b) in entries.items():
        try:
            comparison = compare(entry_a.counts, entry_b.counts, wanted, **options)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        compared[name], ids = comparison, comparison.problem_ids
        run_a, run_b = ("+".join(entry.runs) for entry in (entry_a, entry_b))
        about = {"a": a.label, "b": b.label, "run_a": run_a, "run_b": run_b, "benchmark": name}
        rows += [
            {**about, "k": k, "problems": len(ids), **vars(point)} for k, point in comparison.points.items()
        ]
        changes += [{"benchmark": name, **change} for change in _changes(entry_a, entry_b, ids)]
    for k in wanted:
        at_k = [row for row in rows if row["k"] == k]
        for row, p_holm in zip(at_k, holm([row["p_value"] for row in at_k]), strict=True):
            row["p_holm"] = float(p_holm)
    for side in (a, b):
        if alone := [name for name in side.entries if name not in shared]:
            remarks.append(f"Not compared, because only {side.label} has results: {', '.join(alone)}.")
    return MethodComparison(
        label_a=a.label,
        label_b=b.label,
        ks=wanted,
        compared=compared,
        entries=entries,
        rows=rows,
        changes=changes,
        remarks=remarks,
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
    comparison: MethodComparison, extra_notes: Sequence[str] = (), *, changes: int = 5
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
    if changes and any(change["change"] for change in comparison.changes):
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
    for benchmark in comparison.compared:
        breaks.append(len(rows))
        changes = [change for change in comparison.changes if change["benchmark"] == benchmark]
        rows += [change for change in changes if change["change"] > 0][:most]
        rows += [change for change in changes if change["change"] < 0][-most:]
    columns = [
        *(("benchmark", "benchmark"), ("problem", "problem_id"), ("place", "position")),
        ("A correct", lambda row: f"{row['correct_a']}/{row['n_a']}"),
        ("B correct", lambda row: f"{row['correct_b']}/{row['n_b']}"),
        ("A - B", "change", points),
    ]
    return table_of(rows, columns, title="problems with the largest changes", words=2, breaks=breaks)


def comparison_notes(comparison: MethodComparison) -> Iterator[str]:
    """Yield notes on the runs and on the problems that were compared."""
    yield from comparison.remarks
    labels = comparison.label_a, comparison.label_b
    sides = [pair for pairs in comparison.entries.values() for pair in zip(labels, pairs, strict=True)]
    yield from run_notes([entry for _, entry in sides])
    yield from human_notes(sides)
    yield from judge_notes(sides)
    warned: dict[str, dict[str, list[str]]] = {}
    for row in comparison.rows:
        if row["warning"]:
            where = warned.setdefault(row["warning"], {})
            where.setdefault(row["benchmark"], []).append(str(row["k"]))
    for warning, where in warned.items():
        places = ", ".join(f"{benchmark} at k = {', '.join(ks)}" for benchmark, ks in where.items())
        yield f"(!) {places}: {warning}."
    for name, compared in comparison.compared.items():
        a, b = comparison.entries[name]
        if shared := [run for run in a.runs if run in b.runs]:
            yield (
                f"(!) {name}: {', '.join(shared)} is on both sides. The sides share samples, but intervals "
                "and p-values assume independent samples."
            )
        if compared.only_a or compared.only_b:
            yield (
                f"{name}: {len(compared.only_a)} problems only in A and {len(compared.only_b)} only in B are "
                f"excluded; {len(compared.problem_ids)} are compared."
            )
        if compared.left_out:
            yield f"{name}: problems with too few samples, excluded: {len(compared.left_out):,}."
        if compared.thinned:
            yield (
                f"{name}: {compared.thinned} problems have more samples on one side. For p, wins and losses, "
                "tagrpo uses equally many random samples from both sides, because the variance of an "
                "estimate depends on its sample size. Values and intervals use all samples."
            )
        specs = {f"{side} ({label})": of.spec for side, label, of in zip("AB", labels, (a, b), strict=True)}
        if differing := settings_that_differ_in_effect(specs, among=("prompt.", "sampling.")):
            yield f"{name}: sampled with different settings: {'; '.join(differing)}."


def _reading(comparison: MethodComparison) -> Iterator[str]:
    """Say how the table was made, and what its brackets are."""
    number = len(comparison.compared)
    corrected = f", Holm-corrected over the {number} benchmarks at each k" if number > 1 else ""
    yield (
        "Differences are paired by problem. The interval for new problems is a t interval; p comes from "
        f"{FLIPS:,} sign flips (seed {SEED}){corrected}. The last three columns cover new "
        "samples on the same problems only, not other problems."
    )
    if any(row["lowest"] < row["highest"] for row in comparison.rows):
        yield (
            "If grades are unknown or requested samples are missing, brackets show the lowest and "
            "highest possible difference; the intervals cover both."
        )


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
