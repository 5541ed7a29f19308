"""`tagrpo questions list`, `show` and `suspects`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db

if TYPE_CHECKING:
    from rephraser.views.suspects import Suspect
    from service.questions import Member


def list_(
    name: Annotated[str | None, Argument(help="Name of a question set. Default: list all sets.")] = None,
    limit: Annotated[int, Option(min=1, help="Questions per page.")] = 20,
    after: Annotated[int, Option(min=-1, help="Continue after this row.", show_default=False)] = -1,
    level: Annotated[str | None, Option(help='Only this level; 5 also matches "Level 5".')] = None,
    subject: Annotated[str | None, Option(help="Only this subject.")] = None,
    held: Annotated[bool, Option(help="Only questions that were held back.")] = False,
    search: Annotated[
        str | None, Option(help="Only questions whose text or answer contains this text.")
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the question sets, or the questions of one set.

    Example: tagrpo questions list

    Example: tagrpo questions list math --level 5 --subject algebra --limit 10
    """
    from service.questions import browsing

    if name is None and (held or level or subject or search or after >= 0):
        raise typer.BadParameter("these filters need the name of a question set")
    with db.reading() as session:
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
        terminal.emit(
            {"sets": rows},
            output.table,
            list(rows[0]) if rows else [],
            [list(row.values()) for row in rows],
            empty="no question sets yet; import one with `tagrpo questions import`",
        )
        return
    members = [member.to_json() for member in page.members]
    record = {"set": name, "total": page.total, "questions": members, "after": page.after}
    terminal.emit(record, print_page, name, page.members, page.total, page.after)


def show(
    id: Annotated[str, Argument(help="Id of a question, or its first characters.")],
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show one question with its gold answer, labels and sets.

    Example: tagrpo questions show q_3fa1
    """
    from service.questions import browsing
    from service.questions.images import load_headers, name_images

    with db.reading() as session:
        question = browsing.find_question(session, id)
        places = browsing.places(session, question.id)
        images = load_headers(session, question.images)
    terminal.emit(
        {
            **question.to_json(),
            "sets": [{"set": at.set_name, "row": at.position, "held": at.held} for at in places],
        },
        output.say,
        question.id,
        f"level: {question.level or '-'}   subject: {question.subject or '-'}",
        *(
            f"set: {at.set_name}, row {at.position}" + (f", held back: {at.held}" if at.held else "")
            for at in places
        ),
        f"answer: {question.answer or '-'}",
        "",
        name_images(question.text, [images[id] for id in question.images]),
    )


def suspects(
    run: Annotated[str | None, Option(help="Name or id of a run. Default: all runs.")] = None,
    agreement: Annotated[
        float, Option(help="Minimum share of answers that must agree, on the question and on its neighbors.")
    ] = 0.75,
    min_answers: Annotated[
        int, Option(help="Minimum number of answers to the question, and to its neighbors.")
    ] = 12,
    limit: Annotated[int, Option(min=1, help="Number of questions to show; --json prints all.")] = 20,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List questions whose solvers agree on an answer other than the gold answer.

    Either the gold answer is wrong, or all solvers make the same mistake. The answers are those that were
    compared for the verdicts; no model is asked.

    Example: tagrpo questions suspects --run math-gpt4
    """
    from rephraser.run.start import choose_run
    from rephraser.views.suspects import find_suspects

    with db.reading() as session:
        chosen = choose_run(session, run) if run is not None else None
        listed = find_suspects(
            session,
            run_id=chosen.id if chosen is not None else None,
            agreement=agreement,
            min_answers=min_answers,
        )
    terminal.emit(
        {"suspects": [suspect.to_json() for suspect in listed]},
        print_suspects,
        listed[:limit],
        len(listed),
    )


def print_page(name: str, members: "Sequence[Member]", total: int, after: int | None) -> None:
    """Print questions as a table, and how to go on."""
    if not members:
        output.say(f"no question of {name} matches" if not total else f"no more questions of {name}")
        return
    with_reason = any(member.held for member in members)
    columns = ["row", "id", "level", "subject", "question", "answer", *(["held back"] if with_reason else [])]
    rows = [
        [
            str(member.position),
            member.question.id[: output.ID_SHOWN],
            member.question.level,
            member.question.subject,
            output.one_line(member.question.text),
            output.one_line(member.question.answer, 30),
            *([member.held] if with_reason else []),
        ]
        for member in members
    ]
    output.table(columns, rows)
    output.say_next(after, total)


def print_suspects(suspects: "Sequence[Suspect]", total: int) -> None:
    """Print questions whose gold the solvers contradict."""
    if not suspects:
        output.say("no question has solvers that agree on an answer other than the gold answer")
        return
    output.table(
        ["question", "gold", "agreed", "on question", "on neighbors", "neighbors", "gold answer", "run"],
        [
            [
                suspect.question_id[: output.ID_SHOWN],
                suspect.gold,
                suspect.agreed,
                f"{suspect.question_agreeing} of {suspect.question_drawn}",
                f"{suspect.neighbor_agreeing} of {suspect.neighbor_drawn}",
                suspect.neighbors,
                suspect.gold_given,
                suspect.run,
            ]
            for suspect in suspects
        ],
    )
    more = (
        f"; showing the first {len(suspects)} (--limit, or --json for all)" if len(suspects) < total else ""
    )
    output.say(
        f"{plural(total, 'question')}{more}: either the gold answer is wrong, or the solvers always err. "
        "Check them"
    )
