"""`tagrpo rephrase judge`: judge stored answers again with other thresholds."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer import Option

from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db, RunArgument

if TYPE_CHECKING:
    from rephraser.run.rejudge import Rejudged
    from rephraser.verdict import OverlapRule

CHANGES_SHOWN = 20


@dataclass(frozen=True)
class VerdictRule:
    """Thresholds of the verdict; None leaves those of the run, or the defaults of a new one."""

    panel: ClassVar[str] = "Verdict thresholds"

    accept: Annotated[int | None, Option(help="Accept from this many shared answers. Default: 9.")] = None
    reject: Annotated[int | None, Option(help="Reject from this many equal new answers. Default: 11.")] = None
    question_samples: Annotated[
        int | None, Option(min=1, help="Answers per question, drawn once. Default: 32.")
    ] = None
    looks: Annotated[
        str | None,
        Option(
            help="Numbers of answers per candidate after which a verdict is possible. Default: 12,16. "
            "Thresholds that are not given are scaled in proportion."
        ),
    ] = None

    def make(self, base: "OverlapRule | None" = None) -> "OverlapRule":
        """Return `base`, or the default rule, with what was given changed.

        Raises:
            InputError: values that the rule refuses.
            typer.BadParameter: looks that are no numbers.
        """
        from rephraser.verdict import OverlapRule

        rule = base or OverlapRule()
        if self.question_samples is not None or self.looks is not None:
            looks = rule.looks if self.looks is None else _numbers(self.looks)
            rule = OverlapRule.scaled(self.question_samples or rule.original_samples, looks)
        given = {
            "accept_overlap": self.accept,
            "reject_new": self.reject,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(rule, **changes)


def _numbers(looks: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in looks.split(","))
    except ValueError:
        raise typer.BadParameter(f"--looks {looks}: give numbers separated by commas, as in 12,16") from None


def judge(
    run: RunArgument,
    dry_run: Annotated[bool, Option(help="Show what would change; store nothing.")] = False,
    *,
    rule: VerdictRule,
    db: Db,
    terminal: Terminal,
) -> None:
    """Judge a run's stored answers again with other thresholds. No model is asked.

    New verdicts are added with their thresholds. Earlier verdicts and published sets stay unchanged, and
    reviews still override verdicts. `tagrpo resume` continues with the run's own thresholds.

    Example: tagrpo rephrase judge math-gpt4 --accept 11 --dry-run
    """
    from evaluator.grading import Grader
    from rephraser.run.rejudge import judge_again
    from rephraser.run.start import find_neighbor_run
    from rephraser.verdict import rule_from_spec, rule_spec

    with db.open() as database:
        with database.read() as session:
            stored = find_neighbor_run(session, run)
        chosen = rule.make(rule_from_spec(stored.spec["rule"]))
        with terminal.progress(stored.name) as bar, Grader() as grader:
            rejudged = judge_again(
                database,
                stored,
                chosen,
                grader,
                dry_run=dry_run,
                report=output.stage(bar, "comparing answers"),
            )
    terminal.emit(
        {"run": stored.name, "rule": rule_spec(chosen), "dry_run": dry_run, **asdict(rejudged)},
        _print,
        stored.name,
        rejudged,
        dry_run=dry_run,
    )


def _print(run: str, rejudged: "Rejudged", *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    output.say(
        f"run {run}: stored answers of {plural(rejudged.judged, 'candidate')} judged again, "
        f"{plural(rejudged.stored, 'verdict')} added" + (" (dry run)" if dry_run else "")
    )
    for count, what in (
        (rejudged.waiting, "have no verdict from the run yet; `tagrpo resume` continues it"),
        (rejudged.without_answers, "have no compared answers: rejected by structure, or unverified"),
        (rejudged.too_few, "have fewer stored answers than the rule requires; unchanged"),
    ):
        if count:
            output.say(f"  {count:,} {what}")
    output.say()
    names = list(dict.fromkeys((*rejudged.before, *rejudged.after)))
    output.table(
        ["verdict", "before", "after"],
        [[name, rejudged.before.get(name, 0), rejudged.after.get(name, 0)] for name in names],
    )
    if not rejudged.changes:
        output.say("no verdict changes")
        return
    output.say()
    kinds = Counter((change.before, change.after) for change in rejudged.changes)
    for (before, after), count in kinds.most_common():
        output.say(f"{count:,} {would}{before} -> {after}")
    reviewed = sum(change.reviewed for change in rejudged.changes)
    if reviewed:
        output.say(f"{reviewed:,} of them are reviewed; the human decision takes precedence")
    output.table(
        ["candidate", "question", "before", "after", "why"],
        [
            [change.candidate_id, change.question_id, change.before, change.after, change.reason]
            for change in rejudged.changes[:CHANGES_SHOWN]
        ],
    )
    if len(rejudged.changes) > CHANGES_SHOWN:
        output.say(f"showing the first {CHANGES_SHOWN} of {len(rejudged.changes):,}; --json prints all")
