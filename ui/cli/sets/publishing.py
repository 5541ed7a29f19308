"""`tagrpo sets publish`: from runs to a version, and what it would be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.sets import reports as set_reports
from ui.cli.settings import Db, resume_command

if TYPE_CHECKING:
    from evaluator.signal.cost import ChoiceRow
    from rephraser.sets import Adaptive, Draft


@dataclass(frozen=True)
class AdaptiveRule:
    """Which questions have neighbors, where not all of them have."""

    panel: ClassVar[str] = "For --per-question adaptive"

    pilot: Annotated[
        str | None,
        Option(
            help="Eval run of the policy whose answers count. Default: the answers drawn for the verdicts."
        ),
    ] = None
    g: Annotated[int, Option("--g", help="Responses in the group of a question trained alone.")] = 8
    unmixed: Annotated[
        float, Option(help="Add neighbors if the chance that all rewards are equal is at least this.")
    ] = 0.5


def publish(
    name: Annotated[str, Argument(help="Name of the set.")],
    run: Annotated[
        list[str], Option(help="Name or id of a run to publish from. Repeat the option for several.")
    ],
    n: Annotated[
        int | None, Option("--n", min=1, help="Maximum neighbors per question. Default: all that qualify.")
    ] = None,
    per_question: Annotated[
        str | None,
        Option(
            help="A number, as with --n; or adaptive: no neighbors if the question alone yields a gradient."
        ),
    ] = None,
    prefer: Annotated[
        Literal["any", "easier", "harder", "level"],
        Option(help="Neighbors to prefer, by success rate compared with the question's."),
    ] = "any",
    min_distance: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Minimum distance in wording from the question and from neighbors chosen earlier. Default: "
            "0.15; 0 for runs by rules.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        Option(
            help="Also include unverified, undecided or rejected ones, after the accepted. Repeat the option "
            "for several."
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None, Option(help="Only from this strategy. Repeat the option for several.")
    ] = None,
    model: Annotated[
        list[str] | None, Option(help="Only from this model. Repeat the option for several.")
    ] = None,
    only_with_neighbors: Annotated[bool, Option(help="Leave out questions without neighbors.")] = False,
    dry_run: Annotated[
        bool, Option(help="Publish nothing; show the content and the expected yield of other choices.")
    ] = False,
    *,
    rule: AdaptiveRule,
    db: Db,
    terminal: Terminal,
) -> None:
    """Publish the neighbors of runs as the next, immutable version of a set.

    For every question, accepted candidates are chosen, those with the most different wording first. A review
    overrides a verdict. Questions without neighbors stay and are trained alone. If the newest version already
    has the same content, no new one is created.

    Exit code 3: a run is not finished, so the set may lack neighbors.

    Example: tagrpo sets publish math --run math-gpt4 --n 3

    Example: tagrpo sets publish math --run math-gpt4 --run math-qwen --per-question adaptive
    """
    from rephraser import sets
    from rephraser.checks.wording import usual_distance
    from service.runs.store import find_run

    limit, adaptive = _per_question(per_question, n, rule)
    with db.open() as database:
        with database.read() as session:
            runs = [find_run(session, reference) for reference in run]
            if min_distance is None:
                min_distance = usual_distance(str(source.spec.get("proposer")) for source in runs)
            selection = sets.make_selection(
                n=limit,
                include=["accepted", *dict.fromkeys(include or ())],
                strategies=strategy or (),
                models=model or (),
                only_with_neighbors=only_with_neighbors,
                min_distance=min_distance,
                prefer=prefer,
                adaptive=adaptive,
            )
            if dry_run:
                _show_draft(sets.draft(session, run, selection), rule, terminal)
        if not dry_run:
            published = sets.publish(database, name, run=run, selection=selection)
            record = set_reports.published_json(published)
            terminal.emit(record, set_reports.print_published, published, "published")
    open_runs = [source.name for source in runs if source.finished_at is None]
    if open_runs:
        raise exits.needs_attention(
            f"run {' and '.join(open_runs)} is not finished. Finish it with {resume_command(open_runs[0])}, "
            "then publish again."
        )


def _per_question(
    given: str | None, n: int | None, rule: AdaptiveRule
) -> tuple[int | None, "Adaptive | None"]:
    """Return the most neighbors of a question, and whether some questions have none."""
    from rephraser.sets import Adaptive

    if given == "adaptive":
        return n, Adaptive(rule.g, rule.unmixed, rule.pilot)
    if rule.pilot is not None:
        raise typer.BadParameter("--pilot requires --per-question adaptive")
    if given is None:
        return n, None
    if not given.isdecimal() or int(given) < 1:
        raise typer.BadParameter(f"--per-question {given!r}: give adaptive, or a whole number of at least 1")
    if n not in (None, int(given)):
        raise typer.BadParameter(
            f"--per-question {given} and --n {n} contradict each other. Give one of them"
        )
    return int(given), None


def _show_draft(draft: "Draft", rule: AdaptiveRule, terminal: Terminal) -> None:
    from evaluator.signal.cost import compare_choices
    from evaluator.signal.groups import count_groups
    from evaluator.signal.rate_model import fit_rates
    from evaluator.signal.records import choice_record
    from rephraser.sets.counts import count_members, count_successes
    from service.errors import InputError

    counts = {**count_members(draft.entries), **count_successes(draft.entries), **draft.counts}
    most = max(len(entry.neighbors) for entry in draft.entries)
    rows, reason = [], None
    try:
        if not draft.groups:
            raise InputError("no answers were compared, so success rates are unknown")
        model = fit_rates(count_groups(draft.groups))
        rows = compare_choices(draft.groups, model, rule.g, most if model.shift else 0, unmixed=rule.unmixed)
    except InputError as error:
        reason = str(error)
    record = {"counts": counts, "choices": [choice_record(row) for row in rows], "no_choices": reason}
    terminal.emit(record, _print_draft, counts, rows, rule.g, len(draft.groups), reason)


def _print_draft(
    counts: Mapping[str, Any], rows: "Sequence[ChoiceRow]", g: int, groups: int, reason: str | None
) -> None:
    from evaluator.reports.diagnosis_layout import choice_blocks
    from evaluator.reports.documents.document import Document

    output.say("would be published:")
    set_reports.print_members(counts)
    if rows:
        output.say()
        output.show(Document(choice_blocks(rows, g, groups)))
    if reason:
        output.note(f"the yield of other numbers of neighbors is unknown: {reason}")
