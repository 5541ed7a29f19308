"""`tagrpo rephrase rejudge`: judge stored answers again with other thresholds."""

from collections import Counter
from typing import Annotated

from typer import Argument

from ui.cli.output import Table, Terminal, plural
from ui.cli.settings import Db, split_words

CHANGES_SHOWN = 20


def rejudge(
    words: Annotated[list[str], Argument(metavar="RUN [KEY=VALUE]...")],
    dry_run: bool = False,
    *,
    db: Db,
    terminal: Terminal,
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
            report = bar.stage("comparing answers")
            rejudged = judge_again(database, run, rule, grader, dry_run=dry_run, report=report)
    would = "would be " if dry_run else ""
    kinds = Counter((change.before, change.after) for change in rejudged.changes)
    reviewed = sum(change.reviewed for change in rejudged.changes)
    more = len(rejudged.changes) > CHANGES_SHOWN
    terminal.emit(
        {"run": run.name, "rule": rule_spec(rule), "dry_run": dry_run, **vars(rejudged)},
        f"run {run.name}: stored answers of {plural(rejudged.judged, 'candidate')} judged again, "
        f"{plural(rejudged.stored, 'verdict')} added" + (" (dry run)" if dry_run else ""),
        *(
            f"  {count:,} {what}"
            for count, what in (
                (rejudged.waiting, "have no verdict from the run yet; `tagrpo resume` continues it"),
                (
                    rejudged.without_answers,
                    "have no compared answers: rejected by structural checks, or unverified",
                ),
                (rejudged.too_few, "have fewer stored answers than the rule requires; unchanged"),
            )
            if count
        ),
        *(f"{count:,} {would}{old} -> {new}" for (old, new), count in kinds.most_common()),
        f"{reviewed:,} of them are reviewed; the human decision takes precedence" if reviewed else None,
        Table(
            ["candidate", "question", "before", "after", "why"],
            [
                [change.candidate_id, change.question_id, change.before, change.after, change.reason]
                for change in rejudged.changes[:CHANGES_SHOWN]
            ],
            "no verdict changes",
        ),
        f"showing the first {CHANGES_SHOWN} of {len(rejudged.changes):,}; --json prints all"
        if more
        else None,
    )
