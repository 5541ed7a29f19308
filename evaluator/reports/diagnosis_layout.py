"""A diagnosis as a document: each table under the question that it answers, with notes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluator.reports.document import (
    Block,
    Document,
    Heading,
    Points,
    Table,
    Text,
    number,
    percent,
    points,
    span,
    table_of,
)
from evaluator.signal.diagnosis import Diagnosis
from evaluator.signal.difficulty import FDR
from evaluator.signal.diversity import EMBEDDING
from evaluator.signal.shapes import GroupShape

Row = Mapping[str, Any]
Columns = list[tuple[Any, ...]]

LIMIT = 20
GRID_N, GRID_G = (0, 1, 3, 7), (4, 8, 16, 32)
INTERVAL = "95%, new questions"


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return the tables of all parts, with notes."""
    blocks: list[Block] = []
    if diagnosis.tables.get("zero_gradient"):
        blocks += _shares(diagnosis)
    labels = list(dict.fromkeys(row["checkpoint"] for rows in diagnosis.tables.values() for row in rows))
    for label in labels:
        tables = _tables_of(diagnosis, label)
        if rows := tables.get("forecast"):
            blocks += _forecast(diagnosis, label, rows)
        if rows := tables.get("choices"):
            blocks += _choices(diagnosis, label, rows)
        if tables.get("difficulty_tests"):
            blocks += _difficulty(diagnosis, label, tables)
    if diagnosis.tables.get("diversity"):
        blocks += _diversity(diagnosis)
    for label in labels:
        if (tables := _tables_of(diagnosis, label)).get("cost"):
            blocks += _cost(diagnosis, label, tables)
    return Document(blocks, diagnosis.remarks)


def _tables_of(diagnosis: Diagnosis, label: str) -> dict[str, list[Row]]:
    return {
        name: [row for row in rows if row["checkpoint"] == label] for name, rows in diagnosis.tables.items()
    }


def _choices(diagnosis: Diagnosis, label: str, rows: Sequence[Row]) -> Iterator[Block]:
    questions = diagnosis.forecasts[label].questions
    yield Heading(
        f"How many mixed groups does each number of neighbors give? {questions:,} questions, G={diagnosis.g}"
    )
    columns: Columns = [
        ("neighbors", "choice"),
        ("questions with", "with_neighbors", percent),
        ("responses per question", "responses", number),
        ("mixed groups", "mixed", percent),
        ("mixed groups per 100 responses", "per_hundred_responses", "{:.2f}".format),
        (f"mixed groups, all at {rows[0]['equal_responses']}", "equal_mixed", percent),
        ("per 100", "equal_per_hundred_responses", "{:.2f}".format),
    ]
    yield table_of(rows, columns)


def _shares(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Heading(
        "What share of questions gives no gradient because all rewards in the group are equal? "
        f"G={diagnosis.g}, N={diagnosis.n}"
    )
    rows, gaps = diagnosis.tables["zero_gradient"], diagnosis.tables["zero_gradient_gaps"]
    columns: Columns = [
        *(("checkpoint", "checkpoint"), ("group", "group"), ("responses", "responses")),
        *(("share", "share", percent), (INTERVAL, _interval), ("questions", "questions")),
    ]
    if any(row["bound_low"] is not None for row in rows):
        columns += [
            ("unknown grades", "unknown"),
            ("share if all grades were known", lambda row: span(row["bound_low"], row["bound_high"])),
        ]
    yield table_of(rows, columns, words=2)
    if gaps:
        yield Heading("How much lower is the share with neighbors? (paired over questions)")
        columns = [
            *(("checkpoint", "checkpoint"), ("group", "group"), ("minus", "minus")),
            *(("difference", "difference", _points), (INTERVAL, _interval), ("questions", "questions")),
        ]
        yield table_of(gaps, columns, words=3)


def _forecast(diagnosis: Diagnosis, label: str, rows: Sequence[Row]) -> Iterator[Block]:
    fitted = diagnosis.forecasts[label]
    shift, (few, many) = fitted.model.shift, fitted.samples
    drawn = f"{few}" if few == many else f"{few} to {many}"
    yield Heading(f"What share of questions will give no gradient? Forecast from {label}")
    yield Text(
        f"pilot: {fitted.questions:,} questions, {drawn} graded responses per prompt; success rates: "
        f"{fitted.model.family}"
    )
    if shift is not None:
        yield Text(
            f"neighbors ({'assumed' if shift.assumed else 'fitted'}): {percent(shift.stray)} have a success "
            f"rate unrelated to their question's; mean logit shift of the others {shift.mean:+.2f}, standard "
            f"deviation {shift.sd:.2f}"
        )
        if shift.at_bound:
            yield Text(shift.at_bound)
    columns = [("group", "group"), ("responses", "responses"), ("forecast", "share", percent)]
    yield table_of(rows, [*columns, (INTERVAL, _interval)])
    yield Heading("Other values of N and G (joint group: the original and N neighbors)")
    cells = tuple(
        (str(n), *(percent(fitted.share(GroupShape(f"N={n}, G={g}", n, g))) for g in GRID_G))
        for n in GRID_N
        if n == 0 or shift is not None
    )
    yield Table(("N", *(f"G={g}" for g in GRID_G)), cells)


def _difficulty(diagnosis: Diagnosis, label: str, tables: Mapping[str, Sequence[Row]]) -> Iterator[Block]:
    yield Heading(f"Do rephrasings change the difficulty of a question? {label}")
    names = {"neighbors": "neighbors of a question"}
    columns: Columns = [
        ("prompts compared", lambda row: names.get(row["prompts"], row["prompts"])),
        ("log-likelihood ratio", lambda row: number(row["statistic"]) if row["questions"] else None),
        ("expected from sampling alone", lambda row: number(row["expected"]) if row["questions"] else None),
        ("p", _p_value),
        ("informative questions", "questions"),
    ]
    yield table_of(tables["difficulty_tests"], columns)
    [spread] = tables["difficulty_spread"]
    yield Text(
        f"{percent(spread['stray_share'])} of neighbors have a success rate unrelated to their question's; "
        f"mean logit shift of the others {_logit(spread['mean'])} "
        f"{span(spread['mean_low'], spread['mean_high'], _logit)}, standard deviation "
        f"{spread['sd']:.2f} {span(spread['sd_low'], spread['sd_high'], '{:.2f}'.format)}"
    )
    if spread["at_bound"]:
        yield Text(spread["at_bound"])
    yield Heading("Which strategies shift difficulty? (all neighbors; above 0: easier than the original)")
    columns = [
        ("strategy", "strategy"),
        ("neighbors", "neighbors"),
        ("questions", "questions"),
        ("log odds ratio", "logit_shift", _logit),
        (INTERVAL, lambda row: span(row["low"], row["high"], _logit)),
        ("p (Holm)", "adjusted", "{:.3g}".format),
        ("success rate", "rate_value", _points),
        (INTERVAL, lambda row: span(row["rate_low"], row["rate_high"])),
    ]
    yield table_of(tables["difficulty_strategies"], columns)
    flagged = [row for row in diagnosis.flagged if row["checkpoint"] == label]
    rate = f"false-discovery rate at most {percent(FDR)}"
    yield Heading(f"Which neighbors have an implausible success rate? ({rate})")
    if not flagged:
        yield Text("none")
        return
    columns = [
        ("neighbor", lambda row: row["source_id"] or f"{row['group_id']}, neighbor {row['variant']}"),
        ("strategy", "strategy"),
        ("correct", lambda row: f"{row['correct']}/{row['known']}"),
        ("original", lambda row: f"{row['original_correct']}/{row['original_known']}"),
        ("p", "p_value", "{:.2g}".format),
        ("adjusted", "adjusted", "{:.2g}".format),
        ("flag", "flag"),
    ]
    yield table_of(flagged[:LIMIT], columns, words=2)
    if len(flagged) > LIMIT:
        yield Text(f"and {len(flagged) - LIMIT:,} more (--json)")


def _p_value(test: Row) -> str | None:
    if test["p_value"] is None:
        return None
    least = 1 / (test["draws"] + 1)
    return f"<= {least:.2g}" if test["p_value"] <= least else f"{test['p_value']:.3g}"


def _diversity(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Heading(
        f"How diverse are responses? Mean cosine distance; {EMBEDDING}, G={diagnosis.g}, N={diagnosis.n}"
    )
    means = diagnosis.tables["diversity_means"]
    differences = {(row["checkpoint"], row["series"]): row for row in means if row["minus"]}

    def minus(row: Row, name: str) -> float | None:
        return differences.get((row["checkpoint"], row["series"]), {}).get(name)

    columns: Columns = [
        ("checkpoint", "checkpoint"),
        ("pairs", "series"),
        ("distance", "value", "{:.4f}".format),
        (INTERVAL, lambda row: span(row["low"], row["high"], "{:.4f}".format)),
        ("minus original", lambda row: minus(row, "value"), "{:+.4f}".format),
        (INTERVAL, lambda row: span(minus(row, "low"), minus(row, "high"), "{:.4f}".format)),
        ("questions", "questions"),
    ]
    yield table_of([row for row in means if not row["minus"]], columns, words=2)


def _cost(diagnosis: Diagnosis, label: str, tables: Mapping[str, Sequence[Row]]) -> Iterator[Block]:
    rows, g = tables["cost"], diagnosis.g
    yield Heading(f"How much does a group with mixed rewards cost? {label}, G={g}, N={diagnosis.n}")
    columns: Columns = [
        ("sampling", "method"),
        ("responses per question", "per_question"),
        ("mixed groups", "mixed", percent),
        (INTERVAL, lambda row: span(row["mixed_low"], row["mixed_high"])),
        ("groups per mixed group", "drawn_groups", number),
        ("responses per mixed group", "responses", number),
        ("tokens", "tokens", "{:,.0f}".format),
    ]
    if diagnosis.settings.usd_per_gpu_hour is not None:
        columns.append(("USD", "usd", "{:.4g}".format))
    yield table_of(rows, columns)
    for even in tables.get("cost_break_even", ()):
        yield Heading("Where is the break-even with TA-GRPO?")
        yield Points(tuple(_break_even(even, g)))
        yield Heading("How well does it work to sample neighbors only for all-wrong questions?")
        yield Points(tuple(_rescue(even, rows, g)))


def _rescue(even: Row, rows: Sequence[Row], g: int) -> Iterator[str]:
    yield (
        f"{percent(even['dead'])} of questions have only wrong responses in the first {g // 2}. Among the "
        f"next {g - g // 2} responses, at least one is correct for {percent(even['revived'])} of them if "
        f"sampled for neighbors, and for {percent(even['unaided'])} if sampled for the question again"
    )
    at_g = [row for row in rows if row["per_question"] == g]
    best = max(at_g, key=lambda row: row["mixed"])
    yield (
        f"at {g} responses per question, {best['method']} has the most mixed groups: "
        + ", ".join(f"{row['method']} {percent(row['mixed'])}" for row in at_g)
    )


def _break_even(even: Row, g: int) -> Iterator[str]:
    if even["g_equal_share"] is None:
        yield "GRPO has fewer mixed groups than the joint group with any G up to 4,096"
    else:
        yield (
            f"GRPO needs G={even['g_equal_share']:,} for as many mixed groups as the joint group, which has "
            f"{even['joint_responses']:,} responses"
        )
    if even["redraws"] is not None:
        yield (
            "for as many mixed groups as the joint group, dynamic sampling needs "
            f"{even['redraws']:.2f} groups of G={g} per question, {even['redraw_responses']:.1f} responses "
            f"instead of {even['joint_responses']:,}; the additional groups are for other questions"
        )
    if even["needed_share"] is None:
        yield (
            "TA-GRPO: a mixed group always costs more responses than with GRPO, even if all joint groups "
            "are mixed"
        )
    else:
        yield (
            "TA-GRPO: a mixed group costs no more responses than with GRPO if at least "
            f"{percent(even['needed_share'])} of joint groups are mixed"
        )


def _interval(row: Row) -> str:
    return span(row["low"], row["high"])


def _points(difference: float) -> str:
    return f"{points(difference)} points"


def _logit(value: float) -> str:
    return f"{value:+.2f}"
