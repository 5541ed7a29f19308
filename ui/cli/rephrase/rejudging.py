"""`tagrpo rephrase rejudge`: judge stored answers again with other thresholds."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db, split_words

if TYPE_CHECKING:
    from rephraser.run.rejudge import Rejudged

CHANGES_SHOWN = 20


def rejudge(
    words: Annotated[list[str], Argument(metavar="RUN [KEY=VALUE]...", help="Name or id of the run.")],
    dry_run: Annotated[bool, Option(help="Show what would change; store nothing.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Judge a run's stored answers again with other thresholds. No model is asked.

    KEY=VALUE: accept, reject, question_samples or looks, as in the table verdict of `tagrpo config rephrase`.
    Others stay those of the run. New verdicts are added with their thresholds. Earlier verdicts and published
    sets stay unchanged, and reviews still override verdicts. `tagrpo resume` continues with the run's own
    thresholds.

    Example: tagrpo rephrase rejudge math-gpt4 accept=11 --dry-run
    """
    from evaluator.grading import Grader
    from rephraser.config import Verdict
    from rephraser.run.execution import make_rule
    from rephraser.run.rejudge import judge_again
    from rephraser.run.start import find_neighbor_run
    from rephraser.verdict import rule_from_spec, rule_spec
    from service.config import Reading

    name, changes = split_words("rephrase rejudge", words)
    reading = Reading(Verdict)
    reading.add_words(changes)
    thresholds = reading.build()
    with db.open() as database:
        with database.read() as session:
            run = find_neighbor_run(session, name)
        rule = make_rule(thresholds, rule_from_spec(run.spec["rule"]))
        with terminal.progress(run.name) as bar, Grader() as grader:
            report = output.stage(bar, "comparing answers")
            rejudged = judge_again(database, run, rule, grader, dry_run=dry_run, report=report)
    record = {"run": run.name, "rule": rule_spec(rule), "dry_run": dry_run, **vars(rejudged)}
    terminal.emit(record, _print, run.name, rejudged, dry_run=dry_run)


def _print(run: str, rejudged: "Rejudged", *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    output.say(
        f"run {run}: stored answers of {plural(rejudged.judged, 'candidate')} judged again, "
        f"{plural(rejudged.stored, 'verdict')} added" + (" (dry run)" if dry_run else "")
    )
    for count, what in (
        (rejudged.waiting, "have no verdict from the run yet; `tagrpo resume` continues it"),
        (rejudged.without_answers, "have no compared answers: rejected by structural checks, or unverified"),
        (rejudged.too_few, "have fewer stored answers than the rule requires; unchanged"),
    ):
        if count:
            output.say(f"  {count:,} {what}")
    kinds = Counter((change.before, change.after) for change in rejudged.changes)
    output.say(*(f"{count:,} {would}{old} -> {new}" for (old, new), count in kinds.most_common()))
    reviewed = sum(change.reviewed for change in rejudged.changes)
    if reviewed:
        output.say(f"{reviewed:,} of them are reviewed; the human decision takes precedence")
    output.table(
        ["candidate", "question", "before", "after", "why"],
        [
            [change.candidate_id, change.question_id, change.before, change.after, change.reason]
            for change in rejudged.changes[:CHANGES_SHOWN]
        ],
        empty="no verdict changes",
    )
    if len(rejudged.changes) > CHANGES_SHOWN:
        output.say(f"showing the first {CHANGES_SHOWN} of {len(rejudged.changes):,}; --json prints all")
