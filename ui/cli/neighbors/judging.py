"""`tagrpo neighbors judge`: stored answers judged again by another rule or with other thresholds."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ui.cli import output
from ui.cli.neighbors.rule_options import (
    Accept,
    FlaggedMore,
    Looks,
    QuestionSamples,
    Reject,
    RuleName,
    make_rule,
)
from ui.cli.output import DbOption, JsonOption
from ui.cli.questions.reports import plural

if TYPE_CHECKING:
    from rephraser.run.rejudging import Rejudged

CHANGES_SHOWN = 20


def judge(
    run: Annotated[str, typer.Argument(help="Name or id of the run.", show_default=False)],
    rule: Annotated[
        RuleName | None,
        typer.Option(help="Rule of the verdict; the run's own by default.", show_default=False),
    ] = None,
    accept: Accept = None,
    reject: Reject = None,
    flagged_more: FlaggedMore = None,
    question_samples: QuestionSamples = None,
    looks: Looks = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change and store nothing.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the stored answers of a run again by another rule or with other thresholds; nobody is asked.

    Verdicts are added with their rule, earlier ones stay, and published sets stay as they are. Reviews count
    more than verdicts, as ever. `neighbors resume` goes on with the run's own rule.

    Example: [bold]tagrpo neighbors judge math-gpt4 --rule overlap --accept 11 --dry-run[/bold]
    """
    from evaluator.grading import Grader
    from rephraser.run.rejudging import judge_again
    from rephraser.run.start import find_neighbor_run
    from rephraser.verdict import rule_from_spec, rule_spec
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            stored = find_neighbor_run(session, run)
        chosen = make_rule(
            rule,
            accept=accept,
            reject=reject,
            flagged_more=flagged_more,
            question_samples=question_samples,
            looks=looks,
            base=rule_from_spec(stored.spec["rule"]),
        )
        with output.progress(stored.name, quiet=as_json) as bar, Grader() as grader:
            found = judge_again(
                database,
                stored,
                chosen,
                grader,
                dry_run=dry_run,
                report=lambda done, total: bar.update(done, total, "comparing answers"),
            )
    if as_json:
        output.print_json(
            {"run": stored.name, "rule": rule_spec(chosen), "dry_run": dry_run, **asdict(found)}
        )
    else:
        _print(stored.name, found, dry_run=dry_run)


def _print(run: str, found: "Rejudged", *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    output.say(
        f"run {run}: stored answers of {plural(found.judged, 'candidate')} judged again, "
        f"{plural(found.stored, 'verdict')} added" + (" (dry run)" if dry_run else "")
    )
    for count, what in (
        (found.waiting, "not decided by the run yet; `tagrpo neighbors resume` goes on"),
        (found.without_answers, "without compared answers: rejected by structure, or unverified"),
        (found.too_few, "with fewer stored answers than the rule asks for; left as they are"),
    ):
        if count:
            output.say(f"  {count:,} {what}")
    output.say()
    names = list(dict.fromkeys((*found.before, *found.after)))
    output.table(
        ["verdict", "before", "after"],
        [[name, found.before.get(name, 0), found.after.get(name, 0)] for name in names],
    )
    if not found.changes:
        output.say("no verdict changes")
        return
    output.say()
    kinds = Counter((change.before, change.after) for change in found.changes)
    for (before, after), count in kinds.most_common():
        output.say(f"{count:,} {would}{before} -> {after}")
    reviewed = sum(change.reviewed for change in found.changes)
    if reviewed:
        output.say(f"{reviewed:,} of them are reviewed: the human decision counts")
    output.table(
        ["candidate", "question", "before", "after", "why"],
        [
            [change.candidate_id, change.question_id, change.before, change.after, change.reason]
            for change in found.changes[:CHANGES_SHOWN]
        ],
    )
    if len(found.changes) > CHANGES_SHOWN:
        output.say(f"the first {CHANGES_SHOWN} of {len(found.changes):,}; --json has all")
