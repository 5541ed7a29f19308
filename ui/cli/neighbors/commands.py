"""`tagrpo neighbors`: list, show (the others stand in `neighbor_reviews` and `neighbor_judging`)."""

from typing import Annotated, Literal

import typer

from ui.cli import output
from ui.cli.neighbors import (
    judging as neighbor_judging,
)
from ui.cli.neighbors import (
    reports as neighbor_reports,
)
from ui.cli.neighbors import (
    reviews as neighbor_reviews,
)
from ui.cli.output import DbOption, JsonOption

app = typer.Typer(
    no_args_is_help=True,
    help="Propose, check, look at, review and audit neighbors.",
    epilog="Example: tagrpo neighbors propose math --name rules --proposer rules",
)


@app.command("list")
def list_(
    run: Annotated[
        str | None,
        typer.Option(help="Name or id of the run; not needed where there is only one.", show_default=False),
    ] = None,
    status: Annotated[
        Literal["accepted", "rejected", "undecided", "unverified", "pending"] | None,
        typer.Option(help="Only with this status; pending: not judged yet.", show_default=False),
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="Only of this strategy.", show_default=False)] = None,
    question: Annotated[
        str | None, typer.Option(help="Only of this question: id or its beginning.", show_default=False)
    ] = None,
    finding: Annotated[
        str | None,
        typer.Option(help="Only with this finding of the structural checks.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Candidates on a page.")] = 20,
    after: Annotated[
        str | None, typer.Option(help="Go on behind this candidate.", show_default=False)
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the candidates of a run with their status, by question.

    A review counts more than the verdict; such a status is marked.

    Example: [bold]tagrpo neighbors list --run math-gpt4 --status rejected --finding number_missing[/bold]
    """
    from rephraser.run.start import choose_run
    from rephraser.views import candidates as browsing
    from service.database import Database, locate_database
    from service.questions.browsing import find_question

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        chosen = choose_run(session, run)
        question_id = None if question is None else find_question(session, question).id
        filters = browsing.Filters(status, strategy, question_id, finding)
        page = browsing.page(session, chosen, filters, limit=limit, after=after)
    if as_json:
        candidates = [neighbor_reports.listed_json(listed) for listed in page.candidates]
        output.print_json(
            {"run": chosen.name, "total": page.total, "candidates": candidates, "after": page.after}
        )
    else:
        neighbor_reports.print_page(chosen.name, page)


@app.command()
def show(
    candidate: Annotated[
        str, typer.Argument(help="Id of a candidate, or its beginning.", show_default=False)
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Also the prompt that made it and the model's answer as sent.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a candidate beside its original: verdicts with their evidence, provenance, cost, reviews.

    Example: [bold]tagrpo neighbors show c_3fa1 --raw[/bold]
    """
    from rephraser.reviews.store import find_candidate
    from rephraser.views.candidates import read_detail
    from rephraser.views.exchanges import proposing_exchange
    from service.database import Database, locate_database
    from service.questions.browsing import find_question

    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            found = find_candidate(session, candidate)
            detail = read_detail(session, found, find_question(session, found.question_id))
        exchanges = [
            None if proposal.cell_id is None else proposing_exchange(database, proposal.run, proposal.cell_id)
            for proposal in detail.proposals
            if raw
        ]
    if as_json:
        output.print_json(neighbor_reports.detail_json(detail, exchanges))
    else:
        neighbor_reports.print_detail(detail, exchanges)


app.command("review")(neighbor_reviews.review)
app.command("audit")(neighbor_reviews.audit)
app.command("judge")(neighbor_judging.judge)
