"""`tagrpo questions`: import, list, show, mix."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli import output
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from evaluator.questions import ImportReport, Member, Question

app = typer.Typer(no_args_is_help=True, help="Import, look at and mix questions.")

PAIRS_SHOWN = 10
TEXT_SHOWN = 90
ID_SHOWN = 12  # long enough for `show`


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
    from evaluator.database import Database, locate_database
    from evaluator.questions import Columns, RowLimits, read_source, store_import

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
        with Database.open(locate_database(db)) as database:
            report = store_import(
                database,
                rows,
                name=name,
                progress=lambda what, done, total: shown.update(done, total, what),
            )
    if as_json:
        output.print_json(_report_json(report))
    else:
        _print_report(report)
    if report.needs_attention:
        raise output.needs_attention(_attention(report))


def _print_report(report: "ImportReport") -> None:
    what = "imported as" if report.created else "nothing new: it is already the set"
    output.say(f'{report.source}: {what} "{report.name}"')
    mapped = ", ".join(f"{part} from {name}" for part, name in report.columns.as_dict().items())
    output.say(f"columns: {mapped}")
    counts = [f"{report.rows:,} rows read", f"{report.usable:,} usable", f"{len(report.held):,} held back"]
    if report.duplicates:
        counts.append(f"{len(report.duplicates):,} repeated")
    if report.bad_rows:
        counts.append(f"{len(report.bad_rows):,} left out")
    output.say(", ".join(counts))
    if report.created:
        known = report.usable + len(report.held) - report.counts.new
        old = f", {known:,} were there already" if known else ""
        output.say(f"{report.counts.new:,} questions new in the database{old}")
    if report.counts.other_labels:
        output.say(
            f"{report.counts.other_labels:,} of these have another level or subject there; "
            "those of the first import stay"
        )
    for member in report.held:
        output.say(f"  held back: row {member.position}  {member.question.id}  {member.held}")
    for line in report.bad_rows:
        output.say(f"  left out: {line}")
    likeness = report.likeness
    _print_pairs("repeated (stored once)", [f"rows {b} and {a}" for a, b in report.duplicates])
    _print_pairs(
        "same question, different answers", [f"rows {p.earlier} and {p.row}" for p in likeness.conflicts]
    )
    _print_pairs(
        "near-duplicates with the same answer (kept)",
        [f"rows {p.earlier} and {p.row} ({p.ratio:.1f}%)" for p in likeness.near_duplicates],
    )
    if likeness.look_alikes:
        output.say(
            f"{len(likeness.look_alikes):,} rows read like an earlier one but differ in numbers or answer "
            "(kept; --json lists them)"
        )
    if report.several_boxes:
        rows = ", ".join(str(row) for row in report.several_boxes[:PAIRS_SHOWN])
        more = ", ..." if len(report.several_boxes) > PAIRS_SHOWN else ""
        output.say(
            f"{len(report.several_boxes):,} solutions end in several boxes, of which the last was taken: "
            f"rows {rows}{more}"
        )


def _print_pairs(title: str, lines: list[str]) -> None:
    if lines:
        more = f"; and {len(lines) - PAIRS_SHOWN:,} more (--json)" if len(lines) > PAIRS_SHOWN else ""
        output.say(f"{len(lines):,} {title}: {'; '.join(lines[:PAIRS_SHOWN])}{more}")


def _attention(report: "ImportReport") -> str:
    parts = []
    if report.held:
        parts.append(f"{len(report.held):,} held back (`tagrpo questions list {report.name} --held`)")
    if report.likeness.conflicts:
        parts.append(f"{len(report.likeness.conflicts):,} contradict an earlier row")
    if report.bad_rows:
        parts.append(f"{len(report.bad_rows):,} rows left out")
    return "; ".join(parts)


def _report_json(report: "ImportReport") -> dict[str, Any]:
    pairs = {
        kind: [{"row": pair.row, "earlier": pair.earlier, "ratio": pair.ratio} for pair in found]
        for kind, found in (
            ("conflicts", report.likeness.conflicts),
            ("near_duplicates", report.likeness.near_duplicates),
            ("look_alikes", report.likeness.look_alikes),
        )
    }
    return {
        "set": report.name,
        "source": report.source,
        "created": report.created,
        "rows": report.rows,
        "usable": report.usable,
        "held": [_member_json(member) for member in report.held],
        "new_questions": report.counts.new,
        "other_labels": report.counts.other_labels,
        "duplicates": [{"row": row, "earlier": earlier} for row, earlier in report.duplicates],
        **pairs,
        "bad_rows": list(report.bad_rows),
        "several_boxes": list(report.several_boxes),
        "spec": report.spec,
    }


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
    from evaluator.database import Database, locate_database
    from evaluator.questions import browsing

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
        members = [_member_json(member) for member in page.members]
        output.print_json({"set": name, "total": page.total, "questions": members, "after": page.after})
    else:
        _print_page(name, page.members, page.total, page.after)


def _print_page(name: str, members: "tuple[Member, ...]", total: int, after: int | None) -> None:
    if not members:
        output.say(f"no question of {name} matches" if not total else f"no more questions of {name}")
        return
    with_reason = any(member.held for member in members)
    columns = ["row", "id", "level", "subject", "question", "answer", *(["held back"] if with_reason else [])]
    rows = [
        [
            str(member.position),
            member.question.id[:ID_SHOWN],
            member.question.level,
            member.question.subject,
            _short(member.question.text, TEXT_SHOWN),
            _short(member.question.answer, 30),
            *([member.held] if with_reason else []),
        ]
        for member in members
    ]
    output.table(columns, rows)
    if after is not None:
        output.say(f"{total:,} in all; go on with --after {after}")


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."


@app.command()
def show(
    id: Annotated[str, typer.Argument(help="Id of a question, or its beginning.", show_default=False)],
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one question with its gold answer, labels and sets.

    Example: [bold]tagrpo questions show q_3fa1[/bold]
    """
    from evaluator.database import Database, locate_database
    from evaluator.questions import browsing

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        question = browsing.find_question(session, id)
        places = browsing.places(session, question.id)
    if as_json:
        sets = [{"set": place.set_name, "row": place.position, "held": place.held} for place in places]
        output.print_json({**_question_json(question), "sets": sets})
        return
    output.say(question.id)
    output.say(f"level: {question.level or '-'}   subject: {question.subject or '-'}")
    for place in places:
        held = f", held back: {place.held}" if place.held else ""
        output.say(f"set: {place.set_name}, row {place.position}{held}")
    output.say(f"answer: {question.answer or '-'}")
    output.say()
    output.say(question.text)


def _question_json(question: "Question") -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.text,
        "answer": question.answer,
        "level": question.level,
        "subject": question.subject,
    }


def _member_json(member: "Member") -> dict[str, Any]:
    return {"row": member.position, **_question_json(member.question), "held": member.held}
