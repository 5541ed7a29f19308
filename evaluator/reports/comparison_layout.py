"""A comparison as a document: differences by benchmark and k, the problems that changed most, notes."""

from collections.abc import Sequence

from evaluator.passk import ComparisonPoint
from evaluator.reports.comparing import BenchmarkComparison, MethodComparison
from evaluator.reports.documents.document import Document, Table, hundredths, joined, points, span
from evaluator.reports.methods import differing_settings
from evaluator.reports.notes import human_notes, judge_notes, run_notes

CHANGES_SHOWN = 5


def comparison_document(
    comparison: MethodComparison, extra_notes: Sequence[str] = (), *, changes: int = CHANGES_SHOWN
) -> Document:
    """Return the table of differences, the `changes` largest gains and losses by benchmark, and notes."""
    columns = (
        "benchmark",
        "k",
        "A",
        "B",
        "A - B",
        "95%, new problems",
        "p",
        "p (Holm)",
        "wins/losses/ties",
        "95%, same problems",
        "z",
        "p",
    )
    rows: list[tuple[str, ...]] = []
    breaks = []
    for part in comparison.parts:
        breaks.append(len(rows))
        rows += [_row(comparison, part, point) for point in part.comparison.points]
    title = f"pass@k, A = {comparison.label_a}, B = {comparison.label_b}; percent, differences in points"
    tables = [Table(columns, tuple(rows), title, breaks=tuple(breaks))]
    if changes:
        tables.append(_changes_table(comparison, changes))
    return Document(tuple(tables), (*comparison_notes(comparison), *_reading(comparison), *extra_notes))


def ahead(comparison: MethodComparison) -> str:
    """Say at which k one side is ahead as far as the 95% intervals can tell, and where they cannot.

    The comparison is of one benchmark.
    """
    [part] = comparison.parts
    ks: dict[str, list[str]] = {comparison.label_a: [], comparison.label_b: [], "": []}
    for point in part.comparison.points:
        low, high = point.interval.low, point.interval.high
        side = comparison.label_a if low > 0 else comparison.label_b if high < 0 else ""
        ks[side].append(str(point.k))
    clauses = [f"**{name}** is ahead at k = {joined(at)}" for name, at in ks.items() if name and at]
    if not clauses:
        return "no significant difference at any k"
    if ks[""]:
        clauses.append(f"the interval contains 0 at k = {joined(ks[''])}")
    return "; ".join(clauses)


def _row(comparison: MethodComparison, part: BenchmarkComparison, point: ComparisonPoint) -> tuple[str, ...]:
    difference = points(point.difference, 2)
    lowest, highest = (points(bound, 2) for bound in point.bounds)
    if lowest != highest:
        difference += f"\n({lowest} to {highest})"
    mark = " (!)" if point.warning else ""
    return (
        part.benchmark,
        str(point.k),
        hundredths(point.value_a),
        hundredths(point.value_b),
        difference,
        span(point.interval.low, point.interval.high, points) + mark,
        _p(point.p_value),
        _p(comparison.adjusted[part.benchmark, point.k]),
        f"{point.wins}/{point.losses}/{point.ties}",
        span(point.same_interval.low, point.same_interval.high, points),
        f"{point.same_z:+.2f}",
        _p(point.same_p_value),
    )


def _changes_table(comparison: MethodComparison, most: int) -> Table:
    rows: list[tuple[str, ...]] = []
    breaks = []
    for part in comparison.parts:
        breaks.append(len(rows))
        gains = [change for change in part.changes if change["change"] > 0][:most]
        losses = [change for change in part.changes if change["change"] < 0][-most:]
        rows += [
            (
                part.benchmark,
                change["problem_id"],
                str(change["position"]),
                f"{change['correct_a']}/{change['n_a']}",
                f"{change['correct_b']}/{change['n_b']}",
                points(change["change"]),
            )
            for change in (*gains, *losses)
        ]
    columns = ("benchmark", "problem", "place", "A correct", "B correct", "A - B")
    return Table(columns, tuple(rows), "problems with the largest changes", words=2, breaks=tuple(breaks))


def comparison_notes(comparison: MethodComparison) -> list[str]:
    """Return what has to be said of these runs and of what was compared, in sentences."""
    notes = [comparison.chosen] if comparison.chosen else []
    sides = [
        pair
        for part in comparison.parts
        for pair in ((comparison.label_a, part.a), (comparison.label_b, part.b))
    ]
    notes += run_notes([entry for _, entry in sides]) + human_notes(sides) + judge_notes(sides)
    warned: dict[str, list[str]] = {}
    for part in comparison.parts:
        ks: dict[str, list[str]] = {}
        for point in part.comparison.points:
            if point.warning is not None:
                ks.setdefault(point.warning, []).append(str(point.k))
        for warning, at in ks.items():
            warned.setdefault(warning, []).append(f"{part.benchmark} at k = {', '.join(at)}")
    notes += [f"(!) {', '.join(where)}: {warning}." for warning, where in warned.items() if warning]
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
    first = comparison.parts[0].comparison
    several = len(comparison.parts) > 1
    corrected = f", Holm-corrected over the {len(comparison.parts)} benchmarks at each k" if several else ""
    paired = (
        "Differences are paired by problem. The interval for new problems is a t interval; p comes from "
        f"{first.flips:,} sign flips (seed {first.seed}){corrected}. The last three columns cover new "
        "samples on the same problems only, not other problems."
    )
    if any(
        point.bounds[0] < point.bounds[1] for part in comparison.parts for point in part.comparison.points
    ):
        brackets = (
            "If grades are unknown or requested samples are missing, brackets show the lowest and "
            "highest possible difference; the intervals cover both."
        )
        return [paired, brackets]
    return [paired]


def _p(value: float) -> str:
    return "<.001" if value < 0.001 else f"{value:.3f}"
