"""`tagrpo questions list`, `show` and `remove`."""

from typing import Annotated

from typer import Argument, BadParameter, Option

from ui.cli import output
from ui.cli.output import plural, terminal
from ui.cli.settings import db


def list_(
    name: Annotated[str | None, Argument()] = None,
    limit: Annotated[int, Option(min=1)] = 20,
    after: Annotated[int, Option(min=-1, show_default=False)] = -1,
    level: str | None = None,
    subject: str | None = None,
    held: bool = False,
    search: str | None = None,
    suspects: bool = False,
    run: str | None = None,
) -> None:
    """List the question sets, or the questions of one set; or questions with a suspect gold answer.

    If a question is suspect, either its gold answer is wrong, or all solvers make the same mistake. It uses
    the stored answers behind the verdicts and sends no requests.

    Example: tagrpo questions list

    Example: tagrpo questions list math --level 5 --subject algebra --limit 10

    Example: tagrpo questions list --suspects --run math-gpt4

    Args:
        name: Name of a question set. Default: list all sets.
        limit: Questions per page.
        after: Continue after this row.
        level: Only this level; 5 also matches "Level 5".
        subject: Only this subject.
        held: Only questions that were held back.
        search: Only questions whose text or answer contains this text.
        suspects: List questions for which solvers agree on an answer other than the gold answer.
        run: With --suspects: name or id of a run. Default: all runs.
    """
    from service.questions import browsing

    filtered = held or level or subject or search or after >= 0
    if suspects:
        if name is not None or filtered:
            raise BadParameter("--suspects allows only --run and --limit")
        _list_suspects(run, limit)
    elif run is not None:
        raise BadParameter("--run requires --suspects")
    elif name is not None:
        with db.reading() as session:
            filters = browsing.Filters(level, subject, search, held)
            page = browsing.page(session, name, filters, limit=limit, after=after)
        terminal.rows(
            "questions",
            [member.to_json() for member in page.members],
            "row id level subject question answer" + " held_back=held" * any(m.held for m in page.members),
            empty=f"no more questions of {name}" if page.total else f"no question of {name} matches",
            set=name,
            total=page.total,
            after=page.after,
        )
    elif filtered:
        raise BadParameter("these filters need the name of a question set")
    else:
        with db.reading() as session:
            sets = [
                {
                    "set": each.name,
                    "kind": each.spec["kind"],
                    "questions": members - held_back,
                    "held": held_back,
                    "source": each.spec.get("source")
                    or f"{each.spec['base']['set']} + {each.spec['extra']['set']}",
                    "created_at": each.created_at,
                }
                for each, members, held_back in browsing.list_sets(session)
            ]
        empty = "no question sets yet; import one with `tagrpo questions import`"
        terminal.rows("sets", sets, "set kind questions held source created_at", empty=empty)


def _list_suspects(run: str | None, limit: int) -> None:
    from rephraser.run.start import choose_run
    from rephraser.views.suspects import find_suspects

    with db.reading() as session:
        found = find_suspects(session, run_id=run and choose_run(session, run).id)
    suspects = [suspect.to_json() for suspect in found]
    terminal.rows(
        "suspects",
        suspects if terminal.as_json else suspects[:limit],
        "question=question_id gold agreed question_agreeing question_drawn neighbor_agreeing neighbor_drawn "
        "neighbors gold_given run",
        f"{plural(len(found), 'question')} (--limit shows more): either the gold answer is wrong, or the "
        "solvers always err. Check them",
        empty="no suspects: solvers never agree on an answer other than the gold answer",
    )


def show(id: str) -> None:
    """Show one question with its gold answer, labels and sets.

    Example: tagrpo questions show q_3fa1

    Args:
        id: Id of a question, or its first characters.
    """
    from service.questions import browsing

    with db.reading() as session:
        question = browsing.find_question(session, id)
        places = browsing.places(session, question.id)
    sets = [{"set": at.set_name, "row": at.position, "held": at.held} for at in places]
    terminal.show({**question.to_json(), "sets": sets})


def remove(name: str, yes: Annotated[bool, Option("--yes")] = False) -> None:
    """Remove a question set, for example one imported with a wrong column. Its name can be used again.

    Questions that are in no other set stay in the database. A set that is used by a run or a mix cannot be
    removed. Sets published from it are kept.

    Example: tagrpo questions remove math-wrong

    Args:
        name: Name of a question set.
        yes: Remove without confirmation.
    """
    from service.questions.store import check_removable, load_members, remove_set

    with db.open() as database:
        with database.read() as session:
            stored = check_removable(session, name)
            members = len(load_members(session, name))
        if not yes:
            what = f"question set {name} ({plural(members, 'question')}, created {stored.created_at})"
            output.confirm(f"removing question set {name!r}", f"Remove {what}? This cannot be undone.")
        with database.write() as session:
            remove_set(session, name)
    terminal.show({"set": name, "questions": members, "spec": stored.spec}, hidden=("spec",))
