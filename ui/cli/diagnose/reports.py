"""What `tagrpo diagnose` prints: each table under the question it answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ui.cli import output

if TYPE_CHECKING:
    from evaluator.signal.cost import ChoiceRow, CostReport
    from evaluator.signal.difficulty import DifficultyAudit, NeighborRow
    from evaluator.signal.difficulty_tests import Homogeneity
    from evaluator.signal.diversity import Diversity
    from evaluator.signal.forecast import Check, Forecast, ForecastRow
    from evaluator.signal.zero_gradient import ShareRow, ZeroGradient

INTERVAL = "95%, new questions"
GRID_N, GRID_G = (0, 1, 3, 7), (4, 8, 16, 32)


def print_zero_gradient(results: "Sequence[ZeroGradient]") -> None:
    first = results[0]
    output.heading(
        f"What share of questions gives no gradient, because all rewards of its group are equal? "
        f"G={first.g}, N={first.n}"
    )
    bounds = any(row.bound_low is not None for result in results for row in result.shares)
    columns = ["checkpoint", "group", "responses", "share", INTERVAL, "questions"]
    output.table(
        columns + (["unknown grades", "share if they are known"] if bounds else []),
        [_share_cells(row, bounds) for result in results for row in result.shares],
    )
    gaps = [row for result in results for row in result.gaps]
    if gaps:
        output.say()
        output.heading("By how much is the share lower with neighbors? (paired over questions)")
        output.table(
            ["checkpoint", "group", "minus", "difference", INTERVAL, "questions"],
            [
                [
                    row.checkpoint,
                    row.group,
                    row.minus,
                    points(row.difference),
                    span(row.low, row.high),
                    row.questions,
                ]
                for row in gaps
            ],
        )
    for result in results:
        for remark in result.notes:
            output.note(f"{result.checkpoint}: {remark}")


def _share_cells(row: "ShareRow", bounds: bool) -> list[object]:
    cells: list[object] = [
        row.checkpoint,
        row.group,
        row.responses,
        percent(row.share),
        span(row.low, row.high),
        row.questions,
    ]
    if bounds:
        cells += [row.unknown, span(row.bound_low, row.bound_high)]
    return cells


def print_published() -> None:
    from evaluator.reports.published import PUBLISHED_SHARES, SHARES_SOURCE

    output.say()
    output.heading(f"What was published? {SHARES_SOURCE}")
    output.table(
        ["model", "checkpoint", "original, G", "neighbors, N*G", "difference"],
        [
            [
                row.model,
                row.checkpoint,
                f"{row.original:.1f}%",
                f"{row.neighbors:.1f}%",
                f"{-row.gap:+.1f} points",
            ]
            for row in PUBLISHED_SHARES
        ],
    )


def print_forecast(label: str, fitted: "Forecast", rows: "Sequence[ForecastRow]") -> None:
    from evaluator.signal.forecast import GroupShape

    model = fitted.model
    few, many = fitted.samples
    drawn = f"{few}" if few == many else f"{few} to {many}"
    output.heading(f"What share of questions will give no gradient? A forecast from {label}")
    output.say(
        f"pilot: {fitted.questions:,} questions, {drawn} graded responses a prompt; "
        f"success rates: {model.mixture.family}"
    )
    if model.shift is not None:
        source = "assumed" if model.shift.assumed else "fitted"
        output.say(
            f"neighbors ({source}): logit shift {model.shift.mean:+.2f}, sd {model.shift.sd:.2f} between "
            f"them, {percent(model.shift.stray)} unrelated to their question"
        )
        if model.shift.at_bound:
            output.say(model.shift.at_bound)
    output.table(
        ["group", "responses", "forecast", INTERVAL],
        [[row.shape.name, row.shape.responses, percent(row.share), span(row.low, row.high)] for row in rows],
    )
    output.say()
    output.heading("And for other N and G? (joint group of the original and N neighbors)")
    numbers = [n for n in GRID_N if n == 0 or model.shift is not None]
    output.table(
        ["N", *(f"G={g}" for g in GRID_G)],
        [
            [str(n), *(percent(fitted.share(GroupShape(f"N={n}, G={g}", n, g))) for g in GRID_G)]
            for n in numbers
        ],
    )
    largest = max(row.shape.g for row in rows)
    if largest > few:
        output.note(
            f"G={largest} is beyond the {few} responses of the pilot: it rests on the shape of the model, "
            "which the interval does not hold"
        )


def print_checks(checks: "Sequence[Check]") -> None:
    output.heading("Does the forecast hold? Fitted to one half of the visits, compared with the other")
    output.table(
        ["fitted to", "m", "G", "success rates", "forecast", INTERVAL, "seen later", INTERVAL, "error"],
        [
            [
                check.pilot,
                check.m,
                check.g,
                check.family,
                percent(check.predicted.share),
                span(check.predicted.low, check.predicted.high),
                percent(check.observed.value),
                span(check.observed.low, check.observed.high),
                points(check.error),
            ]
            for check in checks
        ],
    )


def print_difficulty(audit: "DifficultyAudit", limit: int) -> None:
    output.heading(f"Do rephrasings change how hard a question is? {audit.checkpoint}")
    output.table(
        [
            "prompts compared",
            "log-likelihood ratio",
            "expected by sampling alone",
            "p",
            "questions that can tell",
        ],
        [
            ["neighbors of a question", *_test_cells(audit.between_neighbors)],
            ["original and neighbors", *_test_cells(audit.with_original)],
        ],
    )
    spread = audit.spread
    output.say(
        f"a neighbor's logit is its original's {spread.shift.mean:+.2f}"
        f" [{spread.mean_low:+.2f}, {spread.mean_high:+.2f}], with sd {spread.shift.sd:.2f}"
        f" [{spread.sd_low:.2f}, {spread.sd_high:.2f}] between neighbors; "
        f"{percent(spread.shift.stray)} have a rate unrelated to their question's"
    )
    if spread.shift.at_bound:
        output.say(spread.shift.at_bound)
    output.say()
    output.heading("Which strategies shift difficulty? (above 0: easier than the original)")
    output.table(
        ["strategy", "neighbors", "questions", "logit shift", INTERVAL, "p (Holm)", "success rate", INTERVAL],
        [
            [
                row.strategy,
                row.neighbors,
                row.questions,
                None if row.logit_shift is None else f"{row.logit_shift:+.2f}",
                "-" if row.low is None else f"[{row.low:+.2f}, {row.high:+.2f}]",
                None if row.adjusted is None else f"{row.adjusted:.3g}",
                points(row.rate.value),
                span(row.rate.low, row.rate.high),
            ]
            for row in audit.strategies
        ],
    )
    flagged = audit.flagged
    output.say()
    output.heading(
        f"Which neighbors have an implausible success rate? (false discoveries at most {percent(audit.fdr)})"
    )
    if not flagged:
        output.say("none")
        return
    output.table(
        ["neighbor", "strategy", "correct", "original", "shrunken", "p", "adjusted", "flag"],
        [_flag_cells(row) for row in flagged[:limit]],
    )
    if len(flagged) > limit:
        output.say(f"and {len(flagged) - limit:,} more (--limit, --csv)")


def _test_cells(test: "Homogeneity") -> list[object]:
    if test.p_value is None:
        return [None, None, "-", 0]
    least = 1 / (test.draws + 1)
    shown = f"<= {least:.2g}" if test.p_value <= least else f"{test.p_value:.3g}"
    return [f"{test.statistic:.1f}", f"{test.expected:.1f}", shown, test.questions]


def _flag_cells(row: "NeighborRow") -> list[object]:
    return [
        row.source_id or f"{row.group_id}, neighbor {row.variant}",
        row.strategy or "-",
        f"{row.correct}/{row.known}",
        f"{row.original_correct}/{row.original_known}",
        percent(row.shrunken),
        f"{row.p_value:.2g}",
        f"{row.adjusted:.2g}",
        row.flag,
    ]


def print_diversity(results: "Sequence[Diversity]") -> None:
    first = results[0]
    output.heading(
        f"How far apart are responses? Mean cosine distance; {first.embedding}, G={first.g}, N={first.n}"
    )
    output.table(
        ["checkpoint", "pairs", "distance", INTERVAL, "minus original", INTERVAL, "questions"],
        [
            [
                result.checkpoint,
                name,
                f"{mean.value:.4f}",
                span(mean.low, mean.high, share=False),
                f"{difference.value:+.4f}" if (difference := result.differences.get(name)) else "-",
                span(difference.low, difference.high, share=False) if difference else "-",
                mean.questions,
            ]
            for result in results
            for name, mean in result.means.items()
        ],
    )
    for result in results:
        if result.left_out:
            output.note(f"{result.checkpoint}: {result.left_out:,} questions are left out: too few responses")
        if result.without_vector:
            output.note(
                f"{result.checkpoint}: {result.without_vector:,} responses are left out: the embedding finds "
                "nothing in them"
            )


def print_choices(rows: "Sequence[ChoiceRow]", g: int, questions: int) -> None:
    """Print what numbers of neighbors yield."""
    output.heading(f"What does each number of neighbors yield? {questions:,} questions, G={g}")
    output.table(
        [
            "neighbors",
            "questions with",
            "responses a question",
            "mixed groups",
            "mixed for 100 responses",
            f"mixed, all at {rows[0].equal_responses}",
            "for 100",
        ],
        [
            [
                row.choice,
                percent(row.with_neighbors),
                f"{row.responses:.1f}",
                percent(row.mixed),
                f"{row.per_hundred:.2f}",
                percent(row.equal_mixed),
                f"{row.equal_per_hundred:.2f}",
            ]
            for row in rows
        ],
    )


def print_cost(label: str, report: "CostReport") -> None:
    output.heading(f"What does a group with mixed rewards cost? {label}, G={report.g}, N={report.n}")
    money = report.tokens.usd_per_token is not None
    output.table(
        [
            "sampling",
            "responses a question",
            "mixed groups",
            INTERVAL,
            "groups drawn for a mixed one",
            "responses for a mixed one",
            "tokens",
        ]
        + (["USD"] if money else []),
        [
            [
                row.method,
                row.per_question,
                percent(row.mixed),
                span(row.mixed_low, row.mixed_high),
                _number(row.drawn_groups),
                _number(row.responses),
                None if row.tokens is None else round(row.tokens),
                *([f"{row.usd:.4g}" if row.usd is not None else "-"] if money else []),
            ]
            for row in report.rows
        ],
    )
    found = report.break_even
    if found is not None:
        output.say()
        output.heading("Where is the break-even with TA-GRPO?")
        if found.g_equal_share is None:
            output.say("- GRPO: at no G up to 4,096 has the original as many mixed groups as the joint group")
        else:
            output.say(
                f"- GRPO with larger G: as many mixed groups at G={found.g_equal_share:,}; the joint group "
                f"draws {found.joint_responses:,} responses"
            )
        if found.redraws is not None and found.redraw_responses is not None:
            output.say(
                f"- dynamic sampling: as many mixed groups a question as the joint group from "
                f"{found.redraws:.2f} groups of G={report.g}: {found.redraw_responses:.1f} responses against "
                f"{found.joint_responses:,}, on other questions"
            )
        if found.needed_share is None:
            output.say(
                "- TA-GRPO: at no share of mixed joint groups does one cost fewer responses than GRPO's"
            )
        else:
            output.say(
                f"- TA-GRPO: a mixed group costs no more responses than GRPO's once "
                f"{percent(found.needed_share)} of joint groups are mixed"
            )
    for assumption in report.assumptions:
        output.note(f"assumed: {assumption}")
    if report.tokens.original is None:
        output.note("tokens are not known: neither the run nor the rollouts say how long responses are")


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def points(difference: float) -> str:
    return f"{100 * difference:+.1f} points"


def span(low: float | None, high: float | None, *, share: bool = True) -> str:
    if low is None or high is None:
        return "-"
    return f"[{100 * low:.1f}, {100 * high:.1f}]" if share else f"[{low:.4f}, {high:.4f}]"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"
