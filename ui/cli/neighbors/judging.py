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

    panel: ClassVar[str] = "Verdict rule"

    rule: Annotated[RuleName | None, Option(help="Verdict rule. Default: the run's own.")] = None
    accept: Annotated[
        float | None,
        Option(
            help="Accept from this many shared answers (overlap, 9), or from this posterior (bayes, 0.99)."
        ),
    ] = None
    reject: Annotated[
        float | None,
        Option(
            help="Reject from this many equal new answers (overlap, 11), or up to this posterior (bayes, "
            "0.01)."
        ),
    ] = None
    flagged_more: Annotated[
        int | None,
        Option(
            min=0,
            help="overlap: additional shared answers required if structural checks speak against a candidate "
            "(2).",
        ),
    ] = None
    question_samples: Annotated[
        int | None, Option(min=1, help="Answers per question, drawn once (overlap 32, bayes 16).")
    ] = None
    looks: Annotated[
        str | None,
        Option(
            help="Numbers of answers per candidate after which a verdict is possible, as in 12,16. Unset "
            "overlap thresholds are scaled in proportion."
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
                raise typer.BadParameter("--flagged-more requires --rule overlap")
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
                f"--looks {self.looks}: give numbers separated by commas, as in 12,16"
            ) from None


@dataclass(frozen=True)
class NewVerdictRule(VerdictRule):
    """The rule of a run that begins."""

    rule: Annotated[RuleName, Option(help="Verdict rule; docs/verdicts.md compares them.")] = "overlap"


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _count(option: str, value: float | None) -> int | None:
    if value is None:
        return None
    if not float(value).is_integer():  # nor is what is no number, or infinite
        raise typer.BadParameter(f"{option} {value}: the overlap rule counts answers. Give a whole number")
    return int(value)


def judge(
    run: RunArgument,
    dry_run: Annotated[bool, Option(help="Show what would change; store nothing.")] = False,
    *,
    rule: VerdictRule,
    db: Db,
    terminal: Terminal,
) -> None:
    """Judge a run's stored answers again with another rule or other thresholds. No model is asked.

    New verdicts are added with their rule. Earlier verdicts and published sets stay unchanged, and reviews
    still override verdicts. `tagrpo resume` continues with the run's own rule.

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
