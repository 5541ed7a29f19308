"""`tagrpo neighbors judge`: stored answers judged again by another rule or with other thresholds."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Option

from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db, RunArgument

if TYPE_CHECKING:
    from rephraser.run.rejudge import Rejudged
    from rephraser.verdict import Rule

CHANGES_SHOWN = 20


RuleName = Literal["overlap", "bayes"]


@dataclass(frozen=True)
class VerdictRule:
    """The rule of the verdict and its thresholds; None leaves the rule's own."""

    panel: ClassVar[str] = "The rule of the verdict"

    rule: Annotated[RuleName | None, Option(help="Rule of the verdict; the run's own by default.")] = None
    accept: Annotated[
        float | None,
        Option(
            help="Accept from this many shared answers on (overlap, 9), or from this posterior (bayes, .99)."
        ),
    ] = None
    reject: Annotated[
        float | None,
        Option(
            help="Reject from this many equal new answers on (overlap, 11), or to this posterior (bayes, "
            ".01)."
        ),
    ] = None
    flagged_more: Annotated[
        int | None,
        Option(
            min=0,
            help="overlap: shared answers asked for in addition where structure speaks against a candidate "
            "(2).",
        ),
    ] = None
    question_samples: Annotated[
        int | None, Option(min=1, help="Answers drawn once for a question (overlap 32, bayes 16).")
    ] = None
    looks: Annotated[
        str | None,
        Option(
            help="Numbers of answers to a candidate at which a verdict may fall, as in 12,16. Thresholds of "
            "overlap that are not given follow in proportion."
        ),
    ] = None

    def make(self, base: "Rule | None" = None) -> "Rule":
        """Return the named rule with what was given changed; without a name `base`, with the same changed.

        Raises:
            InputError: values that the rule refuses.
            typer.BadParameter: a value that the rule does not have, or looks that are no numbers.
        """
        from rephraser.verdict import RULES, BayesRule, OverlapRule

        rule = base
        if rule is None or (self.rule is not None and type(rule) is not RULES[self.rule]):
            rule = RULES[self.rule or "overlap"]()
        sizes = _given(original_samples=self.question_samples, looks=self._looks())
        if isinstance(rule, BayesRule):
            if self.flagged_more is not None:
                raise typer.BadParameter("--flagged-more belongs to --rule overlap")
            return replace(rule, **_given(accept=self.accept, reject=self.reject), **sizes)
        if sizes:
            rule = OverlapRule.scaled(
                sizes.get("original_samples", rule.original_samples), sizes.get("looks", rule.looks)
            )
        counts = _given(
            accept_overlap=_count("--accept", self.accept),
            reject_new=_count("--reject", self.reject),
            flagged_overlap=self.flagged_more,
        )
        return replace(rule, **counts)

    def _looks(self) -> tuple[int, ...] | None:
        if self.looks is None:
            return None
        try:
            return tuple(int(part) for part in self.looks.split(","))
        except ValueError:
            raise typer.BadParameter(
                f"--looks {self.looks}: give numbers with commas between them, as in 12,16"
            ) from None


@dataclass(frozen=True)
class NewVerdictRule(VerdictRule):
    """The rule of a run that begins."""

    rule: Annotated[RuleName, Option(help="Rule of the verdict; docs/studies/verdicts.md compares them.")] = (
        "overlap"
    )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _count(option: str, value: float | None) -> int | None:
    if value is None:
        return None
    if not float(value).is_integer():  # nor is what is no number, or infinite
        raise typer.BadParameter(f"{option} {value}: the overlap rule counts answers; give a whole number")
    return int(value)


def judge(
    run: RunArgument,
    dry_run: Annotated[bool, Option(help="Show what would change and store nothing.")] = False,
    *,
    rule: VerdictRule,
    db: Db,
    terminal: Terminal,
) -> None:
    """Judge the stored answers of a run again by another rule or with other thresholds; nobody is asked.

    Verdicts are added with their rule, earlier ones stay, and published sets stay as they are. Reviews count
    more than verdicts, as ever. `tagrpo resume` goes on with the run's own rule.

    Example: [bold]tagrpo neighbors judge math-gpt4 --rule overlap --accept 11 --dry-run[/bold]
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
        (rejudged.waiting, "not decided by the run yet; `tagrpo resume` goes on"),
        (rejudged.without_answers, "without compared answers: rejected by structure, or unverified"),
        (rejudged.too_few, "with fewer stored answers than the rule asks for; left as they are"),
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
        output.say(f"{reviewed:,} of them are reviewed: the human decision counts")
    output.table(
        ["candidate", "question", "before", "after", "why"],
        [
            [change.candidate_id, change.question_id, change.before, change.after, change.reason]
            for change in rejudged.changes[:CHANGES_SHOWN]
        ],
    )
    if len(rejudged.changes) > CHANGES_SHOWN:
        output.say(f"the first {CHANGES_SHOWN} of {len(rejudged.changes):,}; --json has all")
