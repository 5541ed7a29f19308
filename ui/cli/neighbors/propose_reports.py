"""What `tagrpo neighbors propose`, `resume` and `runs show` say of a run."""

from typing import TYPE_CHECKING

from ui.cli import output
from ui.cli.questions.reports import plural

if TYPE_CHECKING:
    from rephraser.run.engine import Outcome
    from rephraser.views.runs import RunSummary

UNFINISHED_SHOWN = 5


def print_summary(summary: "RunSummary") -> None:
    """Print where a run stands, in words and small tables."""
    kind = "accepted neighbors"
    if not summary.compared_answers:
        kind = "neighbors that passed the structural checks"
    output.say(
        f"run {summary.run}: {summary.complete:,} of {summary.questions:,} questions have all "
        f"{summary.wanted} {kind}"
    )
    output.say()
    spread = [[count, questions] for count, questions in summary.questions_by_neighbors.items()]
    output.table(["neighbors", "questions"], spread)
    for title, counts in (
        ("candidates", summary.candidates),
        ("structural finding", summary.findings),
        ("unusable answer of the proposer", summary.unreadable),
        ("failed request", summary.errors),
    ):
        if counts:
            output.say()
            output.table([title, "count"], [[name, count] for name, count in counts.items()])
    if summary.ledger:
        output.say()
        output.table(
            ["requests for", "model", "requests", "prompt tokens", "answer tokens", "USD"],
            [
                [
                    line.kind,
                    line.model,
                    line.requests,
                    line.prompt_tokens,
                    line.completion_tokens,
                    f"{line.usd:.4f}"
                    if not line.unpriced
                    else f"{line.usd:.4f} + {line.unpriced:,} unpriced",
                ]
                for line in summary.ledger
            ],
        )
    if summary.tops_up:
        both = " ".join(f"--run {name}" for name in (*summary.tops_up, summary.run))
        output.say()
        output.say(f"Neighbors of {' and '.join(summary.tops_up)} count, which this run tops up; publish all")
        output.say(f"with `tagrpo sets publish NAME {both}`.")
    if summary.suspects:
        output.say()
        output.say(
            f"{plural(summary.suspects, 'question')} with a suspect gold, which the solvers contradict: "
            f"`tagrpo questions suspects --run {summary.run}`"
        )
    if not summary.compared_answers:
        output.say()
        output.say(
            "Answers were not compared, since no --solver was given: these neighbors are unverified. "
            "Publish them with --include unverified, or name a solver."
        )
    if summary.unfinished:
        output.say()
        missing = len(summary.unfinished)
        cut = ""
        if missing > UNFINISHED_SHOWN:
            cut = f"; the first {UNFINISHED_SHOWN} (`tagrpo runs show {summary.run} --json` has all)"
        output.say(f"{plural(missing, 'question')} with fewer than {summary.wanted} neighbors{cut}:")
        output.table(
            ["question", "neighbors", "candidates so far"],
            [[q.question_id, q.neighbors, q.reason] for q in summary.unfinished[:UNFINISHED_SHOWN]],
        )


def run_problems(outcome: "Outcome", summary: "RunSummary") -> list[str]:
    """Say what of a run needs attention, each with the way out."""
    problems = []
    if outcome.stopped:
        problems.append(
            f"stopped: {outcome.message or outcome.stopped}; continue with "
            f"`tagrpo neighbors resume {summary.run}` and the same addresses and prices"
        )
    elif summary.open_requests:
        problems.append(
            f"{plural(summary.open_requests, 'request')} wait in a batch job; `tagrpo neighbors resume "
            f"{summary.run} --batch` collects it, if it was sent for this run"
        )
    if summary.failed_requests:
        problems.append(
            f"{plural(summary.failed_requests, 'request')} got no answer; `tagrpo neighbors resume "
            f"{summary.run}` asks again"
        )
    return problems
