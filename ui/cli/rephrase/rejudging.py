"""`tagrpo rephrase rejudge`: judge stored answers again with other thresholds."""

from functools import partial
from typing import Annotated

from typer import Argument

from ui.cli.output import terminal
from ui.cli.settings import db, split_words


def rejudge(
    words: Annotated[list[str], Argument(metavar="RUN [KEY=VALUE]...")], dry_run: bool = False
) -> None:
    """Judge a run's stored answers again with other thresholds. It sends no requests.

    KEY=VALUE: accept, reject, question_samples or looks, as in the table verdict of `tagrpo config rephrase`.
    Others stay as in the run. New verdicts are added with their thresholds. Earlier verdicts and published
    sets stay unchanged, and reviews still override verdicts. `tagrpo resume` continues with the run's own
    thresholds.

    Example: tagrpo rephrase rejudge math-gpt4 accept=11 --dry-run

    Args:
        words: Name or id of the run.
        dry_run: Show what would change; store nothing.
    """
    from evaluator.grading import Grader
    from rephraser.config import Verdict
    from rephraser.run.execution import make_rule
    from rephraser.run.rejudge import judge_again
    from rephraser.run.spec import RunSpec
    from rephraser.run.start import find_neighbor_run
    from rephraser.verdict import rule_spec
    from service.config import Reading

    name, changes = split_words("rephrase rejudge", words)
    reading = Reading(Verdict)
    reading.add_words(changes)
    thresholds = reading.build()
    with db.open() as database:
        with database.read() as session:
            run = find_neighbor_run(session, name)
        rule = make_rule(thresholds, RunSpec.from_json(run.spec).rule)
        with terminal.progress(run.name) as bar, Grader() as grader:
            report = partial(bar, "comparing answers")
            rejudged = judge_again(database, run, rule, grader, dry_run=dry_run, report=report)
    terminal.show({"run": run.name, "rule": rule_spec(rule), "dry_run": dry_run, **vars(rejudged)})
