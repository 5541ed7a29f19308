"""`tagrpo runs`: list, show."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli import output
from ui.cli.neighbors import propose_reports
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from rephraser.views.runs import RunSummary
    from service.runs.store import Run

UNFINISHED_SHOWN = 20
ELSEWHERE = {"eval": "tagrpo eval list", "train": "tagrpo rollouts runs"}
"""Commands that list runs of other kinds."""

app = typer.Typer(
    no_args_is_help=True,
    help="Look at runs that propose neighbors: what they did, what is open, what they cost.",
    epilog="Example: tagrpo runs show rules",
)


@app.command("list")
def list_(db: DbOption = None, as_json: JsonOption = False) -> None:
    """List the runs that propose neighbors, oldest first; other runs have lists of their own.

    Example: [bold]tagrpo runs list[/bold]
    """
    from rephraser.views.runs import list_headers
    from service.database import Database, locate_database
    from service.runs.store import list_runs

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        headers = list_headers(session)
        others = Counter(run.kind for run in list_runs(session)) - Counter(h.run.kind for h in headers)
    for kind, number in sorted(others.items()):
        if kind in ELSEWHERE:
            output.note(f"{number} more of kind {kind}: `{ELSEWHERE[kind]}`")
    if as_json:
        output.print_json({"runs": [header.to_json() for header in headers]})
    elif not headers:
        output.say("no runs that propose neighbors yet; start one with `tagrpo neighbors propose`")
    else:
        output.table(
            ["run", "questions", "proposed by", "solvers", "candidates", "USD", "finished"],
            [
                [
                    header.run.name,
                    header.questions,
                    proposed_by(header.run.spec),
                    ", ".join(solver["model"] for solver in header.run.spec["solvers"]) or None,
                    header.candidates,
                    header.usd,
                    header.run.finished_at or "no",
                ]
                for header in headers
            ],
        )


@app.command()
def show(
    run: Annotated[
        str | None,
        typer.Argument(help="Name or id of a run; not needed where there is only one.", show_default=False),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show where a run stands: neighbors by question, candidates by verdict, findings, errors, cost.

    The text names the first 20 questions that lack neighbors, --json all of them.

    Exit code 1: requests are open or failed; `tagrpo neighbors resume RUN` asks again.

    Example: [bold]tagrpo runs show math-gpt4[/bold]
    """
    from rephraser.run.start import choose_run
    from rephraser.views.runs import summarize
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        chosen = choose_run(session, run)
        summary = summarize(session, chosen)
    if as_json:
        output.print_json(
            {
                **summary.to_json(),
                "kind": chosen.kind,
                "created_at": chosen.created_at,
                "finished_at": chosen.finished_at,
                "spec": chosen.spec,
                "versions": chosen.versions,
            }
        )
    else:
        _print_header(chosen)
        propose_reports.print_summary(replace(summary, unfinished=()))
        _print_unfinished(summary)
    needed = attention(summary)
    if needed:
        raise output.needs_attention(needed)


def attention(summary: "RunSummary") -> str:
    """Say in one line what of a run needs attention; empty where nothing does."""
    parts = []
    if summary.open_requests:
        parts.append(f"{summary.open_requests:,} requests are open")
    if summary.failed_requests:
        parts.append(f"{summary.failed_requests:,} requests failed")
    if not parts:
        return ""
    return f"{' and '.join(parts)}; go on with `tagrpo neighbors resume {summary.run}`"


def proposed_by(spec: Mapping[str, Any]) -> str:
    """Return the model of a run's spec, or "rules" or "file"."""
    return str(spec["model"] if spec["proposer"] == "llm" else spec["proposer"])


def _print_header(run: "Run") -> None:
    spec = run.spec
    output.say(f"{run.name} ({run.id}), made {run.created_at}, finished: {run.finished_at or 'no'}")
    strategies = ", ".join(f"{s['name']} v{s['version']}" for s in spec["strategies"])
    output.say(f"questions {spec['questions']}, proposed by {proposed_by(spec)} ({strategies})")
    solvers = ", ".join(solver["model"] for solver in spec["solvers"])
    if spec.get("tops_up"):
        output.say("counts the neighbors of the runs that it tops up, and proposes what lacks")
    output.say(
        f"{spec['n']} neighbors wanted, at most {spec['rounds']} rounds, "
        + (f"answers by {solvers}, rule {spec['rule']['rule']}" if solvers else "no solver")
    )


def _print_unfinished(summary: "RunSummary") -> None:
    missing = summary.unfinished
    if not missing:
        return
    output.say()
    cut = (
        f"; the first {UNFINISHED_SHOWN} of them (--json has all)" if len(missing) > UNFINISHED_SHOWN else ""
    )
    output.say(f"{len(missing):,} questions have fewer than {summary.wanted} neighbors{cut}:")
    output.table(
        ["question", "neighbors", "candidates so far"],
        [[q.question_id, q.neighbors, q.reason] for q in missing[:UNFINISHED_SHOWN]],
    )
