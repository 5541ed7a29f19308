"""A diagnosis as a document: each table under the question that it answers, with notes."""

from collections.abc import Callable, Iterator, Sequence

from evaluator.reports.documents.document import (
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
from evaluator.signal.cost import BreakEven, ChoiceRow, CostReport, CostRow
from evaluator.signal.diagnosis import Diagnosis, Prediction
from evaluator.signal.difficulty import DifficultyAudit
from evaluator.signal.difficulty_tests import Homogeneity
from evaluator.signal.diversity import EMBEDDING, Diversity
from evaluator.signal.forecast import GroupShape
from evaluator.signal.zero_gradient import ShareRow, ZeroGradient

LIMIT = 20
GRID_N, GRID_G = (0, 1, 3, 7), (4, 8, 16, 32)
INTERVAL = "95%, new questions"


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return the tables of all parts, with notes."""
    blocks = list(_shares(diagnosis.shares))
    for prediction in diagnosis.predictions:
        blocks += _forecast(prediction)
    for choices in diagnosis.choices:
        blocks += choice_blocks(choices.rows, diagnosis.g, choices.questions)
    for audit in diagnosis.audits:
        blocks += _difficulty(audit)
    blocks += _diversity(diagnosis.diversities)
    for costs in diagnosis.costs:
        blocks += _cost(costs)
    return Document(blocks, diagnosis.remarks)


def choice_blocks(rows: Sequence[ChoiceRow], g: int, questions: int) -> list[Block]:
    """Return what numbers of neighbors yield."""
    heading = f"How many mixed groups does each number of neighbors give? {questions:,} questions, G={g}"
    table = table_of(
        rows,
        [
            ("neighbors", lambda row: row.choice),
            ("questions with", lambda row: percent(row.with_neighbors)),
            ("responses per question", lambda row: number(row.responses)),
            ("mixed groups", lambda row: percent(row.mixed)),
            ("mixed groups per 100 responses", lambda row: f"{row.per_hundred:.2f}"),
            (f"mixed groups, all at {rows[0].equal_responses}", lambda row: percent(row.equal_mixed)),
            ("per 100", lambda row: f"{row.equal_per_hundred:.2f}"),
        ],
    )
    return [Heading(heading), table]


def _shares(results: Sequence[ZeroGradient]) -> Iterator[Block]:
    if not results:
        return
    yield Heading(
        "What share of questions gives no gradient because all rewards in the group are equal? "
        f"G={results[0].g}, N={results[0].n}"
    )
    rows = [row for result in results for row in result.shares]
    columns: list[tuple[str, Callable[[ShareRow], str | int | None]]] = [
        ("checkpoint", lambda row: row.checkpoint),
        ("group", lambda row: row.group),
        ("responses", lambda row: row.responses),
        ("share", lambda row: percent(row.share)),
        (INTERVAL, lambda row: span(row.low, row.high)),
        ("questions", lambda row: row.questions),
    ]
    if any(row.bound_low is not None for row in rows):
        columns += [
            ("unknown grades", lambda row: row.unknown),
            ("share if all grades were known", lambda row: span(row.bound_low, row.bound_high)),
        ]
    yield table_of(rows, columns, words=2)
    gaps = [row for result in results for row in result.gaps]
    if gaps:
        yield Heading("How much lower is the share with neighbors? (paired over questions)")
        yield table_of(
            gaps,
            [
                ("checkpoint", lambda row: row.checkpoint),
                ("group", lambda row: row.group),
                ("minus", lambda row: row.minus),
                ("difference", lambda row: _points(row.difference)),
                (INTERVAL, lambda row: span(row.low, row.high)),
                ("questions", lambda row: row.questions),
            ],
            words=3,
        )


def _forecast(prediction: Prediction) -> Iterator[Block]:
    fitted = prediction.forecast
    shift, (few, many) = fitted.model.shift, fitted.samples
    drawn = f"{few}" if few == many else f"{few} to {many}"
    yield Heading(f"What share of questions will give no gradient? Forecast from {prediction.checkpoint}")
    yield Text(
        f"pilot: {fitted.questions:,} questions, {drawn} graded responses per prompt; success rates: "
        f"{fitted.model.mixture.family}"
    )
    if shift is not None:
        yield Text(
            f"neighbors ({'assumed' if shift.assumed else 'fitted'}): logit shift {shift.mean:+.2f}, "
            f"standard deviation {shift.sd:.2f} between neighbors; {percent(shift.stray)} of them have a "
            "success rate unrelated to their question's"
        )
        if shift.at_bound:
            yield Text(shift.at_bound)
    yield table_of(
        prediction.rows,
        [
            ("group", lambda row: row.group),
            ("responses", lambda row: row.responses),
            ("forecast", lambda row: percent(row.share)),
            (INTERVAL, lambda row: span(row.low, row.high)),
        ],
    )
    yield Heading("Other values of N and G (joint group: the original and N neighbors)")
    cells = tuple(
        (str(n), *(percent(fitted.share(GroupShape(f"N={n}, G={g}", n, g))) for g in GRID_G))
        for n in GRID_N
        if n == 0 or shift is not None
    )
    yield Table(("N", *(f"G={g}" for g in GRID_G)), cells)


def _difficulty(audit: DifficultyAudit) -> Iterator[Block]:
    yield Heading(f"Do rephrasings change the difficulty of a question? {audit.checkpoint}")
    yield table_of(
        (
            ("neighbors of a question", audit.between_neighbors),
            ("original and neighbors", audit.with_original),
        ),
        [
            ("prompts compared", lambda row: row[0]),
            ("log-likelihood ratio", lambda row: number(row[1].statistic) if row[1].questions else None),
            (
                "expected from sampling alone",
                lambda row: number(row[1].expected) if row[1].questions else None,
            ),
            ("p", lambda row: _p_value(row[1])),
            ("informative questions", lambda row: row[1].questions),
        ],
    )
    spread = audit.spread
    yield Text(
        f"logit of a neighbor = logit of its original {_logit(spread.shift.mean)} "
        f"{span(spread.mean_low, spread.mean_high, _logit)}, with standard deviation {spread.shift.sd:.2f} "
        f"{span(spread.sd_low, spread.sd_high, '{:.2f}'.format)} between neighbors; "
        f"{percent(spread.shift.stray)} of neighbors have a success rate unrelated to their question's"
    )
    if spread.shift.at_bound:
        yield Text(spread.shift.at_bound)
    yield Heading("Which strategies shift difficulty? (above 0: easier than the original)")
    yield table_of(
        audit.strategies,
        [
            ("strategy", lambda row: row.strategy),
            ("neighbors", lambda row: row.neighbors),
            ("questions", lambda row: row.questions),
            ("logit shift", lambda row: None if row.logit_shift is None else _logit(row.logit_shift)),
            (INTERVAL, lambda row: span(row.low, row.high, _logit)),
            ("p (Holm)", lambda row: None if row.adjusted is None else f"{row.adjusted:.3g}"),
            ("success rate", lambda row: _points(row.rate.value)),
            (INTERVAL, lambda row: span(row.rate.low, row.rate.high)),
        ],
    )
    flagged = audit.flagged
    false = percent(audit.fdr)
    yield Heading(f"Which neighbors have an implausible success rate? (false-discovery rate at most {false})")
    if not flagged:
        yield Text("none")
        return
    yield table_of(
        flagged[:LIMIT],
        [
            ("neighbor", lambda row: row.source_id or f"{row.group_id}, neighbor {row.variant}"),
            ("strategy", lambda row: row.strategy),
            ("correct", lambda row: f"{row.correct}/{row.known}"),
            ("original", lambda row: f"{row.original_correct}/{row.original_known}"),
            ("p", lambda row: f"{row.p_value:.2g}"),
            ("adjusted", lambda row: f"{row.adjusted:.2g}"),
            ("flag", lambda row: row.flag),
        ],
        words=2,
    )
    if len(flagged) > LIMIT:
        yield Text(f"and {len(flagged) - LIMIT:,} more (--out)")


def _p_value(test: Homogeneity) -> str | None:
    if test.p_value is None:
        return None
    least = 1 / (test.draws + 1)
    return f"<= {least:.2g}" if test.p_value <= least else f"{test.p_value:.3g}"


def _diversity(results: Sequence[Diversity]) -> Iterator[Block]:
    if not results:
        return
    first = results[0]
    yield Heading(f"How diverse are responses? Mean cosine distance; {EMBEDDING}, G={first.g}, N={first.n}")
    yield table_of(
        [
            (result.checkpoint, name, mean, result.differences.get(name))
            for result in results
            for name, mean in result.means.items()
        ],
        [
            ("checkpoint", lambda row: row[0]),
            ("pairs", lambda row: row[1]),
            ("distance", lambda row: f"{row[2].value:.4f}"),
            (INTERVAL, lambda row: span(row[2].low, row[2].high, "{:.4f}".format)),
            ("minus original", lambda row: f"{row[3].value:+.4f}" if row[3] else None),
            (INTERVAL, lambda row: span(row[3].low, row[3].high, "{:.4f}".format) if row[3] else None),
            ("questions", lambda row: row[2].questions),
        ],
        words=2,
    )


def _cost(report: CostReport) -> Iterator[Block]:
    yield Heading(
        f"How much does a group with mixed rewards cost? {report.checkpoint}, G={report.g}, N={report.n}"
    )
    columns: list[tuple[str, Callable[[CostRow], str | int | None]]] = [
        ("sampling", lambda row: row.method),
        ("responses per question", lambda row: row.per_question),
        ("mixed groups", lambda row: percent(row.mixed)),
        (INTERVAL, lambda row: span(row.mixed_low, row.mixed_high)),
        ("groups per mixed group", lambda row: number(row.drawn_groups)),
        ("responses per mixed group", lambda row: number(row.responses)),
        ("tokens", lambda row: None if row.tokens is None else round(row.tokens)),
    ]
    if report.tokens.usd_per_token is not None:
        columns.append(("USD", lambda row: None if row.usd is None else f"{row.usd:.4g}"))
    yield table_of(report.rows, columns)
    if report.break_even is not None:
        yield Heading("Where is the break-even with TA-GRPO?")
        yield Points(tuple(_break_even(report.break_even, report.g)))
    if report.rescue is not None:
        yield Heading("How well does it work to sample neighbors only for all-wrong questions?")
        yield Points(tuple(_rescue(report)))


def _rescue(report: CostReport) -> Iterator[str]:
    rescue, half = report.rescue, report.g // 2
    assert rescue is not None
    yield (
        f"{percent(rescue.dead)} of questions have only wrong responses in the first {half}. Among the next "
        f"{report.g - half} responses, at least one is correct for {percent(rescue.revived)} of them if "
        f"sampled for neighbors, and for {percent(rescue.unaided)} if sampled for the question again"
    )
    at_g = [row for row in report.rows if row.per_question == report.g]
    best = max(at_g, key=lambda row: row.mixed)
    yield (
        f"at {report.g} responses per question, {best.method} has the most mixed groups: "
        + ", ".join(f"{row.method} {percent(row.mixed)}" for row in at_g)
    )


def _break_even(even: BreakEven, g: int) -> Iterator[str]:
    if even.g_equal_share is None:
        yield "GRPO has fewer mixed groups than the joint group with any G up to 4,096"
    else:
        yield (
            f"GRPO needs G={even.g_equal_share:,} for as many mixed groups as the joint group, which has "
            f"{even.joint_responses:,} responses"
        )
    if even.redraws is not None and even.redraw_responses is not None:
        yield (
            "for as many mixed groups as the joint group, dynamic sampling needs "
            f"{even.redraws:.2f} groups of G={g} per question, {even.redraw_responses:.1f} responses "
            f"instead of {even.joint_responses:,}; the additional groups are for other questions"
        )
    if even.needed_share is None:
        yield (
            "TA-GRPO: a mixed group always costs more responses than with GRPO, even if all joint groups "
            "are mixed"
        )
    else:
        yield (
            "TA-GRPO: a mixed group costs no more responses than with GRPO if at least "
            f"{percent(even.needed_share)} of joint groups are mixed"
        )


def _points(difference: float) -> str:
    return f"{points(difference)} points"


def _logit(value: float) -> str:
    return f"{value:+.2f}"
