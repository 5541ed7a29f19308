"""`tagrpo sets`: publish, list, show and tag versions; `exports` has the files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from ui.cli import exits, output
from ui.cli.output import Terminal, one_line
from ui.cli.settings import Db, resume_command

if TYPE_CHECKING:
    from evaluator.signal.cost import ChoiceRow
    from rephraser.sets import Draft, Neighbor, PublishedSet, SetDiff, SetEntry, SetHeader

Reference = Annotated[str, Argument(help="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.")]
HASH_SHOWN = 12
USUAL_G = 8
LINES_SHOWN = 10


def publish(
    name: Annotated[str, Argument(help="Name of the set.")],
    run: Annotated[
        list[str], Option(help="Name or id of a run to publish from. Repeat the option for several.")
    ],
    n: Annotated[
        int | None, Option("--n", min=1, help="Maximum neighbors per question. Default: all that qualify.")
    ] = None,
    adaptive: Annotated[
        int | None,
        Option(
            min=2,
            help="Give no neighbors to questions that probably yield a gradient without them, in groups of "
            "this many responses.",
        ),
    ] = None,
    pilot: Annotated[
        str | None,
        Option(
            help="With --adaptive: eval run of the policy that gives the success rates. Default: the "
            "answers sampled for the verdicts."
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
            help="Also include unverified, undecided or rejected candidates, ranked after accepted ones. "
            "Repeat the option for several."
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None, Option(help="Only neighbors from this strategy. Repeat the option for several.")
    ] = None,
    model: Annotated[
        list[str] | None, Option(help="Only neighbors from this model. Repeat the option for several.")
    ] = None,
    only_with_neighbors: Annotated[bool, Option(help="Leave out questions without neighbors.")] = False,
    dry_run: Annotated[
        bool, Option(help="Publish nothing; show the content and the expected yield of other choices.")
    ] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Publish the neighbors of runs as the next, immutable version of a set.

    For every question, accepted candidates are chosen, those with the most different wording first. A review
    overrides a verdict. Questions without neighbors stay and are trained alone. If the newest version already
    has the same content, no new one is created.

    Exit code 3: a run is not finished, so the set may lack neighbors.

    Example: tagrpo sets publish math --run math-gpt4 --n 3

    Example: tagrpo sets publish math --run math-gpt4 --run math-qwen --adaptive 8
    """
    from rephraser import sets
    from rephraser.checks.wording import usual_distance
    from service.runs.store import find_run

    if pilot is not None and adaptive is None:
        raise BadParameter("--pilot requires --adaptive")
    with db.open() as database:
        with database.read() as session:
            runs = [find_run(session, reference) for reference in run]
            if min_distance is None:
                min_distance = usual_distance(str(source.spec.get("proposer")) for source in runs)
            selection = sets.make_selection(
                n=n,
                include=["accepted", *dict.fromkeys(include or ())],
                strategies=strategy or (),
                models=model or (),
                only_with_neighbors=only_with_neighbors,
                min_distance=min_distance,
                prefer=prefer,
                adaptive=None if adaptive is None else sets.Adaptive(adaptive, pilot=pilot),
            )
            if dry_run:
                _show_draft(sets.draft(session, run, selection), adaptive or USUAL_G, terminal)
        if not dry_run:
            show_published(sets.publish(database, name, run=run, selection=selection), "published", terminal)
    open_runs = [source.name for source in runs if source.finished_at is None]
    if open_runs:
        raise exits.needs_attention(
            f"run {' and '.join(open_runs)} is not finished. Finish it with {resume_command(open_runs[0])}, "
            "then publish again."
        )


def _show_draft(draft: "Draft", g: int, terminal: Terminal) -> None:
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
        rows = compare_choices(draft.groups, model, g, most if model.shift else 0)
    except InputError as error:
        reason = str(error)
    record = {"counts": counts, "choices": [choice_record(row) for row in rows], "no_choices": reason}
    terminal.emit(record, _print_draft, counts, rows, g, len(draft.groups), reason)


def _print_draft(
    counts: Mapping[str, Any], rows: "Sequence[ChoiceRow]", g: int, groups: int, reason: str | None
) -> None:
    from evaluator.reports.diagnosis_layout import choice_blocks
    from evaluator.reports.documents.document import Document

    output.say("would be published:")
    print_members(counts)
    if rows:
        output.say()
        output.show(Document(choice_blocks(rows, g, groups)))
    if reason:
        output.note(f"the yield of other numbers of neighbors is unknown: {reason}")


def list_(
    name: Annotated[str | None, Argument(help="Only versions of this set.")] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the published versions with their counts and tags.

    Example: tagrpo sets list
    """
    from rephraser import sets

    with db.reading() as session:
        if name is not None:
            sets.find_set(session, name)
        headers = sets.list_sets(session, name)
    rows = [_header_record(header) for header in headers]
    for row in rows:
        del row["spec"]
    terminal.rows(
        "sets",
        rows,
        {
            "set": "set",
            "questions": lambda row: row["counts"]["questions"],
            "neighbors": lambda row: row["counts"]["neighbors"],
            "accepted": lambda row: row["counts"]["neighbors_by_verdict"]["accepted"],
            "unverified": lambda row: row["counts"]["neighbors_by_verdict"]["unverified"],
            "tags": lambda row: ", ".join(row["tags"]) or "-",
            "hash": lambda row: row["content_hash"][:HASH_SHOWN],
            "published": "created_at",
        },
        empty="no neighbor sets yet; publish one with `tagrpo sets publish NAME --run RUN`",
    )


def show(
    reference: Reference,
    limit: Annotated[int, Option(min=0, help="Number of questions, or lines of a difference, to show.")] = 0,
    first: Annotated[int, Option(min=0, help="First question to show, counted from 0.")] = 0,
    diff: Annotated[
        str | None,
        Option(metavar="REFERENCE", help="Show the changes from this other version to the one shown."),
    ] = None,
    verify: Annotated[
        bool, Option(help="Recompute the hash from the members and compare it with the published one.")
    ] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a version: hash, counts, acceptance rate, provenance and some of its questions.

    Exit code 3 (--verify): the version differs from its published content.

    Example: tagrpo sets show math@1 --limit 2

    Example: tagrpo sets show math@2 --diff math@1 --limit 10

    Example: tagrpo sets show math@1 --verify
    """
    from rephraser import sets

    if diff is not None and verify:
        raise BadParameter("give only one of --diff and --verify")
    with db.reading() as session:
        if diff is not None:
            difference = sets.diff(session, diff, reference)
            terminal.emit(difference.to_json(), _print_diff, difference, limit or LINES_SHOWN)
            return
        if verify:
            _verify(sets.verify(session, reference), terminal)
            return
        header = sets.find_set(session, reference)
        entries = sets.load_entries(session, header.id, first=first, limit=limit) if limit else []
    record = _header_record(header) | ({"entries": entries} if limit else {})
    terminal.emit(record, _print_version, header, entries)


def _verify(report: Any, terminal: Terminal) -> None:
    ref = report.header.ref
    record = {
        "set": ref,
        "ok": report.ok,
        "content_hash": report.header.content_hash,
        "derived_hash": report.derived_hash,
        "problems": report.problems,
    }
    state = "matches its published content" if report.ok else "CHANGED"
    terminal.emit(
        record,
        output.say,
        f"{ref}: {state}, {report.derived_hash}",
        *(f"  {each}" for each in report.problems),
    )
    if not report.ok:
        raise exits.needs_attention(f"{ref}: differs from its published content; do not train on it.")


def tag(
    reference: Reference,
    tag_name: Annotated[str, Argument(metavar="TAG", help="Name of the tag.")],
    remove: Annotated[bool, Option(help="Remove the tag from the set.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Point a tag to a version, moving it if it exists; NAME@TAG then refers to that version.

    Example: tagrpo sets tag math@2 paper
    """
    from rephraser import sets

    with db.writing() as session:
        if remove:
            header = sets.find_set(session, reference)
            sets.untag(session, header.name, tag_name)
            header = sets.find_set(session, header.id)
        else:
            header = sets.tag(session, reference, tag_name)
    record = {"set": header.ref, "id": header.id, "tags": header.tags}
    terminal.emit(record, output.say, f"{header.name}@{tag_name} is {'removed' if remove else header.ref}")


def _header_record(header: "SetHeader") -> dict[str, Any]:
    from rephraser.sets import accept_rates

    rates = accept_rates(header.counts.get("proposals", []))
    return {"set": header.ref, **vars(header), "accept_rates": rates}


def show_published(published: "PublishedSet", verb: str, terminal: Terminal) -> None:
    """Print the result of publishing or importing."""
    header = published.header
    record = {**_header_record(header), "created": published.created, "same_as": published.same_as}
    del record["spec"]
    if terminal.as_json:
        output.print_json(record)
        return
    output.say(
        f"{verb} {header.ref}" if published.created else f"unchanged: {header.ref} already has this content"
    )
    if published.same_as:
        output.say(f"the content is identical to {published.same_as}")
    print_counts(header)


def print_counts(header: "SetHeader") -> None:
    """Print id, hash and counts of a version."""
    output.say(f"id            {header.id}", f"content hash  {header.content_hash}")
    print_members(header.counts)


def print_members(counts: Mapping[str, Any]) -> None:
    """Print questions and neighbors by number and verdict, success rates and acceptance rates."""
    from rephraser.sets import accept_rates
    from rephraser.sets.card import percent

    sizes = ", ".join(f"{number:,} with {size}" for size, number in counts["questions_by_neighbors"].items())
    verdicts = counts["neighbors_by_verdict"]
    by_verdict = ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items() if number)
    output.say(
        f"questions     {counts['questions']:,}: {sizes} neighbors",
        f"neighbors     {counts['neighbors']:,}: {by_verdict or 'none'}; {counts['reviewed']:,} reviewed",
    )
    needs = counts.get("adaptive") or {}
    for number, what in (
        (counts.get("questions_left_out"), "questions left out: they have no neighbors"),
        (needs.get("in need"), "questions probably yield no gradient without neighbors"),
        (needs.get("unknown"), "questions have an unknown success rate"),
        (needs.get("alone"), "questions got no neighbors, since they yield a gradient without"),
        (counts.get("too_like"), "candidates left out: too similar to others"),
        (counts.get("duplicates"), "candidates left out: also found in another run"),
        (counts.get("contradicted"), "candidates left out: rejected by the answers of another run"),
        (verdicts["unverified"], "unverified: answers of question and neighbor were not compared"),
    ):
        if number:
            output.say(f"              {number:,} {what}")
    if successes := counts.get("successes"):
        difficulties = ", ".join(f"{number:,} {name}" for name, number in successes["difficulty"].items())
        output.say(
            f"success       {successes['neighbor_rate']:.1%} on {successes['neighbors']:,} neighbors, "
            f"{successes['question_rate']:.1%} on their questions, by {', '.join(successes['solvers'])}",
            f"              compared with the question: {difficulties}",
        )
    for rate in accept_rates(counts.get("proposals", [])):
        output.say(
            f"acceptance    {rate.strategy}: {percent(rate)}; {rate.accepted:,} accepted of {rate.judged:,} "
            f"judged, {rate.unverified:,} unverified"
        )


def _print_version(header: "SetHeader", entries: "Sequence[SetEntry]") -> None:
    from rephraser.sets.card import provenance

    output.say(f"{header.ref}, tags: {', '.join(header.tags) or 'none'}")
    print_counts(header)
    output.say("", provenance(header))
    for entry in entries:
        output.say("", f"{entry.question.id}  answer: {entry.question.answer}", entry.question.text)
        for number, neighbor in enumerate(entry.neighbors, start=1):
            rates = ""
            if (counts := neighbor.successes) is not None:
                rates = (
                    f"; correct {counts.neighbor_right}/{counts.neighbor_drawn}, question "
                    f"{counts.question_right}/{counts.question_drawn}, {counts.difficulty}"
                )
            made = f"{neighbor.strategy}, {neighbor.model}{rates}"
            output.say(f"  {number}. [{_judged(neighbor)}] {made}", f"     {neighbor.text}")
        if not entry.neighbors:
            output.say("  no neighbors")


def _print_diff(difference: "SetDiff", limit: int) -> None:
    """Print a difference: the counts, then up to `limit` lines of each kind."""
    output.say(f"{difference.a.ref} -> {difference.b.ref}")
    if difference.same:
        output.say("the same content")
    for title, lines in (
        ("questions added", [f"+ {key}" for key in difference.questions_added]),
        ("questions removed", [f"- {key}" for key in difference.questions_removed]),
        ("neighbors added", [f"+ {p.question_id}  {_line(p.neighbor)}" for p in difference.added]),
        (
            "neighbors removed",
            [
                f"- {p.question_id}  {_line(p.neighbor)}{f'  (now {p.now})' if p.now else ''}"
                for p in difference.removed
            ],
        ),
        (
            "neighbors changed",
            [f"{p.question_id}  {', '.join(p.fields)}  {_line(p.neighbor)}" for p in difference.changed],
        ),
        ("questions with reordered neighbors", list(difference.reordered)),
    ):
        if lines:
            output.say(f"{title}: {len(lines):,}")
            output.say_some(lines, limit, "--limit, or --json for all")


def _line(neighbor: "Neighbor") -> str:
    return f"[{_judged(neighbor)}] {one_line(neighbor.text)}"


def _judged(neighbor: "Neighbor") -> str:
    posterior = "" if neighbor.posterior is None else f" {neighbor.posterior:.4g}"
    return f"{neighbor.verdict}{posterior}{', reviewed' if neighbor.reviewed else ''}"
