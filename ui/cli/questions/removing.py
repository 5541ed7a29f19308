"""`tagrpo questions remove`: a set that was imported wrongly."""

from typing import Annotated

from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db


def remove(
    name: Annotated[str, Argument(help="Name of a question set.")],
    yes: Annotated[bool, Option("--yes", help="Remove without a prompt.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Remove a question set, for example one imported with a wrong column. Its name becomes free again.

    Questions that are in no other set stay in the database. A set that is used by a run or a mix cannot be
    removed. Sets published from it stay.

    Example: tagrpo questions remove math-wrong
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
    record = {"set": name, "questions": members, "spec": stored.spec}
    terminal.emit(record, output.say, f'removed question set "{name}" ({plural(members, "question")})')
