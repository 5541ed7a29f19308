"""What is said of a run that proposes neighbors: where it stands, what needs attention."""

from functools import partial
from typing import TYPE_CHECKING

from ui.cli import output
from ui.cli.output import plural
from ui.cli.requests import open_words, print_ledger
from ui.cli.runs.showing import Standing
from ui.cli.settings import resume_command

if TYPE_CHECKING:
    from rephraser.views.runs import RunSummary
    from service.asks.work import Outcome
    from service.database import Database
    from service.runs.store import Run


def standing(database: "Database", run: "Run") -> Standing:
    """Return where a run stands, for `runs show`."""
    from rephraser.views.runs import summarize

    with database.read() as session:
        summary = summarize(session, run)
    return Standing(summary.to_json(), partial(_print_run, run, summary), attention(summary))


def attention(summary: "RunSummary") -> str:
    """Say in one line what of a run needs attention; empty where nothing does."""
    problems = open_words(summary.run, summary.open_questions, summary.failed_questions, ())
    if summary.final_questions:
        problems.append(_failed_for_good(summary))
    return "; ".join(problems)


def _failed_for_good(summary: "RunSummary") -> str:
    whose = "its question" if summary.final_questions == 1 else "their questions"
    return (
        f"{plural(summary.final_questions, 'request')} failed for good, and {whose} continued without them; "
        f"{resume_command(summary.run, 'retry_final=true')} retries"
    )


def _print_run(run: "Run", summary: "RunSummary") -> None:
    from rephraser.views.runs import proposed_by

    spec = run.spec
    strategies = ", ".join(f"{s['name']} v{s['version']}" for s in spec["strategies"])
    output.say(f"questions {spec['questions']}, proposed by {proposed_by(spec)} ({strategies})")
    solvers = ", ".join(solver["model"] for solver in spec["solvers"])
    output.say(
        f"{spec['n']} neighbors per question, at most {spec['rounds']} rounds, "
        + (f"answers by {solvers}, rule {spec['rule']['rule']}" if solvers else "no solver")
    )
    print_summary(summary, unfinished=20, ended=run.finished_at is not None)


def print_summary(summary: "RunSummary", *, unfinished: int = 5, ended: bool = False) -> None:
    """Print where a run stands, in words and small tables; of the unfinished questions the first ones.

    `ended`: the run did what it was to do, so that going on with it asks nothing more.
    """
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
    print_ledger(summary.ledger)
    if summary.suspects:
        output.say()
        output.say(
            f"{plural(summary.suspects, 'question')} with a suspect gold answer that the solvers "
            f"contradict: `tagrpo questions suspects --run {summary.run}`"
        )
    if summary.unreadable_questions:
        output.say()
        output.say(
            f"{plural(summary.unreadable_questions, 'question')} without enough readable answers: their "
            "candidates stay undecided, and no more answers are requested. If solvers were cut off, raise "
            "solver.max_tokens."
        )
    if not summary.compared_answers:
        output.say()
        output.say(
            "No answers were compared because no --solver was given, so these neighbors are unverified. "
            "Publish them with --include unverified, or name a solver."
        )
    if summary.unfinished:
        output.say()
        missing = len(summary.unfinished)
        cut = ""
        if missing > unfinished:
            cut = f"; showing the first {unfinished} (`tagrpo runs show {summary.run} --json` has all)"
        output.say(f"{plural(missing, 'question')} with fewer than {summary.wanted} neighbors{cut}:")
        output.table(
            ["question", "neighbors", "candidates so far"],
            [[q.question_id, q.neighbors, q.reason] for q in summary.unfinished[:unfinished]],
        )
        if ended and not (summary.open_questions or summary.failed_questions):
            output.say()
            output.say(
                "This run is complete; a higher cap adds nothing. Another model or strategy in a run of "
                "another name can find more."
            )


def _way_on(stopped: str, run: str) -> str:
    from service.asks.ask import BUDGET, ENOUGH
    from service.asks.request import SETTINGS

    if stopped == SETTINGS:
        return "the settings of a run are fixed; start another run with other settings and another --name"
    options = {BUDGET: ("max_usd=MORE",), ENOUGH: ("stop_below=LESS",)}.get(stopped, ())
    return f"continue with {resume_command(run, *options)}"


def run_problems(outcome: "Outcome", summary: "RunSummary") -> list[str]:
    """Say what of a run needs attention, each with the way out."""
    problems = []
    if outcome.stopped:
        problems.append(
            f"stopped: {outcome.message or outcome.stopped}; {_way_on(outcome.stopped, summary.run)}"
        )
    elif summary.open_questions:
        problems.append(
            f"{plural(summary.open_questions, 'request')} waiting in a batch job; "
            f"{resume_command(summary.run, 'proposer.batch=true')} collects the results"
        )
    if summary.failed_questions:
        problems.append(
            f"{plural(summary.failed_questions, 'request')} got no answer; "
            f"{resume_command(summary.run)} retries"
        )
    if summary.final_questions:
        problems.append(_failed_for_good(summary))
    return problems
