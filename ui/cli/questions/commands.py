"""`tagrpo questions`: import, list, show, mix."""

from typing import Annotated, Any

import typer

from ui.cli import output
from ui.cli.output import DbOption, JsonOption
from ui.cli.questions import reports as question_reports

app = typer.Typer(
    no_args_is_help=True,
    help="Import, look at and mix questions.",
    epilog="Example: tagrpo questions import math_train.jsonl --name math",
)


def _column(what: str, names: str) -> Any:
    return typer.Option(
        help=f"Column with the {what}; without it: {names}. Dots lead into nested values.", show_default=False
    )


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="A .jsonl, .json, .csv, .tsv or .parquet file, or a data set id of the Hub (org/name).",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the set; else the file's name.", show_default=False)
    ] = None,
    question_column: Annotated[str | None, _column("question", "question, problem, prompt, ...")] = None,
    answer_column: Annotated[str | None, _column("gold answer", "answer, final_answer, ...")] = None,
    solution_column: Annotated[
        str | None,
        _column("solution, whose last \\boxed{} is the gold where no answer column is", "solution, ..."),
    ] = None,
    level_column: Annotated[str | None, _column("level", "level, difficulty")] = None,
    subject_column: Annotated[str | None, _column("subject", "subject, type, problem_type, ...")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="Hub: configuration; give it several times to join some.", show_default=False),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Hub: split; else train.", show_default=False)] = None,
    revision: Annotated[
        str | None, typer.Option(help="Hub: branch, tag or commit; else the newest.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read only the first rows.", show_default=False)
    ] = None,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Longest question or answer that is taken.")
    ] = 100_000,
    strip_control: Annotated[
        bool, typer.Option("--strip-control", help="Remove NUL and other control characters.")
    ] = False,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used, and list them.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import questions as a named set.

    Each gold answer is graded against itself; a question whose gold does not grade as correct is held back,
    with the reason. Repeated, contradicting and nearly equal questions are reported. A set never changes:
    importing the same again does nothing, other questions need another name. Rows count from 0.

    Exit code 1: questions were held back or left out, or contradict each other.

    Example: [bold]tagrpo questions import math_train.jsonl --name math[/bold]

    Example: [bold]tagrpo questions import open-r1/OpenR1-Math-220k --name openr1 --limit 20000[/bold]
    """
    from evaluator.grading import Grader
    from service.database import Database, locate_database
    from service.questions import Columns, RowLimits, read_source, store_import

    with output.progress("import", quiet=as_json) as shown:
        rows = read_source(
            source,
            columns=Columns(question_column, answer_column, solution_column, level_column, subject_column),
            limits=RowLimits(max_characters, strip_control),
            limit=limit,
            skip_bad_rows=skip_bad_rows,
            configs=config or (),
            split=split,
            revision=revision,
        )
        with Database.open(locate_database(db)) as database, Grader() as grader:
            report = store_import(
                database,
                rows,
                grader,
                name=name,
                progress=lambda what, done, total: shown.update(done, total, what),
            )
    if as_json:
        output.print_json(question_reports.report_json(report))
    else:
        question_reports.print_report(report)
    if report.needs_attention:
        raise output.needs_attention(question_reports.attention(report))


@app.command("list")
def list_(
    name: Annotated[
        str | None, typer.Argument(help="A set; without it the sets are listed.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Questions on a page.")] = 20,
    after: Annotated[int, typer.Option(min=-1, help="Go on behind this row.", show_default=False)] = -1,
    level: Annotated[
        str | None, typer.Option(help='Only this level; 5 also finds "Level 5".', show_default=False)
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only this subject.", show_default=False)] = None,
    held: Annotated[bool, typer.Option("--held", help="Only those held back.")] = False,
    search: Annotated[
        str | None, typer.Option(help="Only with this in question or answer.", show_default=False)
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the question sets, or the questions of one.

    Example: [bold]tagrpo questions list[/bold]

    Example: [bold]tagrpo questions list math --level 5 --subject algebra --limit 10[/bold]
    """
    from service.database import Database, locate_database
    from service.questions import browsing

    if name is None and (held or level or subject or search or after >= 0):
        raise typer.BadParameter("these filters need the name of a set")
    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        if name is None:
            sets = browsing.list_sets(session)
        else:
            filters = browsing.Filters(level, subject, search, held)
            page = browsing.page(session, name, filters, limit=limit, after=after)
    if name is None:
        rows = [
            {
                "set": stored.name,
                "kind": stored.spec["kind"],
                "questions": members - held_back,
                "held": held_back,
                "source": stored.spec.get("source")
                or f"{stored.spec['base']['set']} + {stored.spec['extra']['set']}",
                "created_at": stored.created_at,
            }
            for stored, members, held_back in sets
        ]
        if as_json:
            output.print_json({"sets": rows})
        elif not rows:
            output.say("no question sets yet; import one with `tagrpo questions import`")
        else:
            output.table(list(rows[0]), [list(row.values()) for row in rows])
    elif as_json:
        members = [question_reports.member_json(member) for member in page.members]
        output.print_json({"set": name, "total": page.total, "questions": members, "after": page.after})
    else:
        question_reports.print_page(name, page.members, page.total, page.after)


@app.command()
def show(
    id: Annotated[str, typer.Argument(help="Id of a question, or its beginning.", show_default=False)],
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one question with its gold answer, labels and sets.

    Example: [bold]tagrpo questions show q_3fa1[/bold]
    """
    from service.database import Database, locate_database
    from service.questions import browsing

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        question = browsing.find_question(session, id)
        places = browsing.places(session, question.id)
    if as_json:
        sets = [{"set": place.set_name, "row": place.position, "held": place.held} for place in places]
        output.print_json({**question_reports.question_json(question), "sets": sets})
        return
    output.say(question.id)
    output.say(f"level: {question.level or '-'}   subject: {question.subject or '-'}")
    for place in places:
        held = f", held back: {place.held}" if place.held else ""
        output.say(f"set: {place.set_name}, row {place.position}{held}")
    output.say(f"answer: {question.answer or '-'}")
    output.say()
    output.say(question.text)


@app.command()
def suspects(
    run: Annotated[
        str | None, typer.Option(help="Name or id of a run; without it all runs.", show_default=False)
    ] = None,
    agreement: Annotated[
        float, typer.Option(help="Least share of the answers that agree, on question and on neighbors.")
    ] = 0.75,
    min_answers: Annotated[int, typer.Option(help="Least answers to either.")] = 12,
    limit: Annotated[int, typer.Option(min=1, help="Questions shown; --json has all.")] = 20,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List questions whose gold the solvers contradict: wrong golds, or mistakes that all of them make.

    On the question and on its accepted neighbors the answers agree on another one than the gold. They are the
    answers that verdicts were made from; nobody is asked.

    Example: [bold]tagrpo questions suspects --run math-gpt4[/bold]
    """
    from rephraser.run.start import choose_run
    from rephraser.views.suspects import find_suspects
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        chosen = choose_run(session, run) if run is not None else None
        found = find_suspects(
            session,
            run_id=chosen.id if chosen is not None else None,
            agreement=agreement,
            min_answers=min_answers,
        )
    if as_json:
        output.print_json({"suspects": [suspect.to_json() for suspect in found]})
    else:
        question_reports.print_suspects(found[:limit], len(found))


@app.command()
def mix(
    name: Annotated[str, typer.Argument(help="Name of the new set.", show_default=False)],
    base: Annotated[str, typer.Option(help="The set that is taken whole.", show_default=False)],
    extra: Annotated[str, typer.Option(help="The set that chunks are drawn from.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Seed of the draw; the same gives the same.")] = 0,
    times: Annotated[
        float | None, typer.Option(help="Size of the mix in times of the base.", show_default=False)
    ] = None,
    chunks: Annotated[
        int | None, typer.Option(min=0, help="Or the number of chunks.", show_default=False)
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(min=1, help="Questions in a chunk; else half of the base.", show_default=False),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mix a set with seeded chunks of another, without overlaps.

    The mix has the usable questions of the base, then the chunks. Of the extra set, questions that the base
    or an earlier chunk has in the same or nearly the same words are passed over. With the same seed a larger
    mix contains the smaller ones.

    Example: [bold]tagrpo questions mix math-x1.5 --base math --extra openr1 --times 1.5 --seed 7[/bold]
    """
    from service.database import Database, locate_database
    from service.questions import mix_sets

    with (
        output.progress("mix", quiet=as_json) as shown,
        Database.open(locate_database(db), create=False) as database,
    ):
        report = mix_sets(
            database,
            name,
            base=base,
            extra=extra,
            seed=seed,
            chunk=chunk,
            chunks=chunks,
            times=times,
            progress=lambda what, done, total: shown.update(done, total, what),
        )
    if as_json:
        output.print_json(
            {
                "set": report.name,
                "created": report.created,
                "questions": report.base + report.extra,
                "times": report.times,
                "spec": report.spec,
            }
        )
        return
    output.say(f'{"made" if report.created else "nothing new: it is already the set"} "{report.name}"')
    output.say(
        f"{report.base + report.extra:,} questions ({report.times:.4g}x): {report.base:,} of {base}, "
        f"{question_reports.plural(report.chunks, 'chunk')} of {report.chunk:,} of {extra}"
    )
    if report.overlaps.same_text or report.overlaps.near:
        output.say(
            f"passed over in {extra}: {report.overlaps.same_text:,} the same, "
            f"{report.overlaps.near:,} nearly the same"
        )
