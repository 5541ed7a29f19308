"""`tagrpo sets`: publish, list, show and tag versions; `exports` has the files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from ui.cli import exits, output
from ui.cli.output import Terminal, one_line, some
from ui.cli.settings import Db, resume_command

if TYPE_CHECKING:
    from rephraser.sets import Draft, Neighbor, PublishedSet, SetDiff, SetEntry, SetHeader

Reference = Annotated[str, Argument(help="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.")]
HASH_SHOWN = 12
USUAL_G = 8
LINES_SHOWN = 10


def publish(
    name: str,
    run: Annotated[list[str], Option()],
    n: Annotated[int | None, Option("--n", min=1)] = None,
    adaptive: Annotated[int | None, Option(min=2)] = None,
    pilot: str | None = None,
    prefer: Literal["any", "easier", "harder", "level"] = "any",
    min_distance: Annotated[float | None, Option(min=0, max=1)] = None,
    include: list[str] | None = None,
    strategy: list[str] | None = None,
    model: list[str] | None = None,
    only_with_neighbors: bool = False,
    dry_run: bool = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Publish the neighbors of runs as the next, immutable version of a set.

    For every question it chooses accepted candidates, the most differently worded first. A review
    overrides a verdict. Questions without neighbors stay and are trained alone. If the newest version already
    has the same content, no new one is created.

    Exit code 3: a run is not finished, so the set may lack neighbors.

    Example: tagrpo sets publish math --run math-gpt4 --n 3

    Example: tagrpo sets publish math --run math-gpt4 --run math-qwen --adaptive 8

    Args:
        name: Name of the set.
        run: Name or id of a run to publish from.
        n: Maximum neighbors per question. Default: all that qualify.
        adaptive: Give no neighbors to questions that probably yield a gradient without them, in groups of
            this many responses.
        pilot: With --adaptive: eval run of the policy that gives the success rates. Default: the answers
            sampled for the verdicts.
        prefer: Neighbors to prefer, by success rate compared with the question's.
        min_distance: Minimum distance in wording from the question and from neighbors chosen earlier.
            Default: 0.15; 0 for runs by rules.
        include: Also include unverified, undecided or rejected candidates, ranked after accepted ones.
        strategy: Only neighbors from this strategy.
        model: Only neighbors from this model.
        only_with_neighbors: Leave out questions without neighbors.
        dry_run: Publish nothing; show the content and the expected yield of other choices.
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
            selection = sets.Selection(
                n=n,
                include=("accepted", *dict.fromkeys(include or ())),
                strategies=tuple(strategy or ()),
                models=tuple(model or ()),
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
    from evaluator.reports.diagnosis_layout import choice_blocks
    from evaluator.reports.documents.document import Document
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
    terminal.emit(
        record,
        "would be published:",
        *member_lines(counts),
        "" if rows else None,
        Document(choice_blocks(rows, g, len(draft.groups))) if rows else None,
    )
    if reason and not terminal.as_json:
        output.note(f"the yield of other numbers of neighbors is unknown: {reason}")


def list_(name: Annotated[str | None, Argument()] = None, *, db: Db, terminal: Terminal) -> None:
    """List the published versions with their counts and tags.

    Example: tagrpo sets list

    Args:
        name: Only versions of this set.
    """
    from rephraser import sets

    with db.reading() as session:
        if name is not None:
            sets.find_set(session, name)
        headers = sets.list_sets(session, name)
    terminal.rows(
        "sets",
        [_header_record(header) for header in headers],
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
    limit: Annotated[int, Option(min=0)] = 0,
    first: Annotated[int, Option(min=0)] = 0,
    diff: Annotated[str | None, Option(metavar="REFERENCE")] = None,
    verify: bool = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a version: hash, counts, acceptance rate, provenance and some of its questions.

    Exit code 3 (--verify): the version differs from its published content.

    Example: tagrpo sets show math@1 --limit 2

    Example: tagrpo sets show math@2 --diff math@1 --limit 10

    Example: tagrpo sets show math@1 --verify

    Args:
        limit: Number of questions, or of changes, to show.
        first: First question to show, counted from 0.
        diff: Show the changes from this other version to the one shown.
        verify: Recompute the hash from the members and compare it with the published one.
    """
    from rephraser import sets

    if diff is not None and verify:
        raise BadParameter("give only one of --diff and --verify")
    with db.reading() as session:
        if diff is not None:
            difference = sets.diff(session, diff, reference)
            terminal.emit(difference.to_json(), *_diff_lines(difference, limit or LINES_SHOWN))
            return
        if verify:
            report = sets.verify(session, reference)
            ref, ok, derived = report.header.ref, report.ok, report.derived_hash
            record = {"set": ref, "ok": ok, "content_hash": report.header.content_hash}
            terminal.emit(
                {**record, "derived_hash": derived, "problems": report.problems},
                f"{ref}: {'matches its published content' if ok else 'CHANGED'}, {derived}",
                *(f"  {each}" for each in report.problems),
            )
            if not ok:
                raise exits.needs_attention(f"{ref}: differs from its published content; do not train on it.")
            return
        header = sets.find_set(session, reference)
        places = range(first, min(first + limit, header.counts["questions"]))
        entries = sets.load_entries(session, header.id, places)
    record = {**_header_record(header), "spec": header.spec, **({"entries": entries} if limit else {})}
    terminal.emit(record, *_version_lines(header, entries))


def tag(
    reference: Reference,
    tag_name: Annotated[str, Argument(metavar="TAG")],
    remove: bool = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Point a tag, new or existing, to a version; NAME@TAG then refers to that version.

    Example: tagrpo sets tag math@2 paper

    Args:
        tag_name: Name of the tag.
        remove: Remove the tag from the set.
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
    terminal.emit(record, f"{header.name}@{tag_name} is {'removed' if remove else header.ref}")


def _header_record(header: "SetHeader") -> dict[str, Any]:
    from rephraser.sets import accept_rates

    rates = accept_rates(header.counts.get("proposals", []))
    described = {name: value for name, value in vars(header).items() if name != "spec"}
    return {"set": header.ref, **described, "accept_rates": rates}


def show_published(published: "PublishedSet", verb: str, terminal: Terminal) -> None:
    """Print the result of publishing or importing."""
    header = published.header
    record = {**_header_record(header), "created": published.created, "same_as": published.same_as}
    known = f"unchanged: {header.ref} already has this content"
    terminal.emit(
        record,
        f"{verb} {header.ref}" if published.created else known,
        f"the content is identical to {published.same_as}" if published.same_as else None,
        *count_lines(header),
    )


def count_lines(header: "SetHeader") -> list[str]:
    """Return id, hash and counts of a version."""
    named = [f"id            {header.id}", f"content hash  {header.content_hash}"]
    return [*named, *member_lines(header.counts)]


def member_lines(counts: Mapping[str, Any]) -> list[str]:
    """Return questions and neighbors by number and verdict, success rates and acceptance rates."""
    from rephraser.sets import accept_rates
    from rephraser.sets.card import percent

    sizes = ", ".join(f"{number:,} with {size}" for size, number in counts["questions_by_neighbors"].items())
    verdicts = counts["neighbors_by_verdict"]
    by_verdict = ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items() if number)
    needs = counts.get("adaptive") or {}
    lines = [
        f"questions     {counts['questions']:,}: {sizes} neighbors",
        f"neighbors     {counts['neighbors']:,}: {by_verdict or 'none'}; {counts['reviewed']:,} reviewed",
    ]
    for number, what in (
        (counts.get("questions_left_out"), "questions left out: they have no neighbors"),
        (needs.get("in need"), "questions probably yield no gradient without neighbors"),
        (needs.get("unknown"), "questions have an unknown success rate"),
        (needs.get("alone"), "questions got no neighbors, since they yield a gradient alone"),
        (counts.get("too_like"), "candidates left out: too similar to others"),
        (counts.get("duplicates"), "candidates left out: also found in another run"),
        (counts.get("contradicted"), "candidates left out: rejected by the answers of another run"),
        (verdicts["unverified"], "unverified: answers of question and neighbor were not compared"),
    ):
        lines += [f"              {number:,} {what}"] if number else []
    if successes := counts.get("successes"):
        difficulties = ", ".join(f"{number:,} {name}" for name, number in successes["difficulty"].items())
        lines.append(
            f"success       {successes['neighbor_rate']:.1%} on {successes['neighbors']:,} neighbors, "
            f"{successes['question_rate']:.1%} on their questions, by {', '.join(successes['solvers'])}"
        )
        lines.append(f"              compared with the question: {difficulties}")
    for rate in accept_rates(counts.get("proposals", [])):
        lines.append(
            f"acceptance    {rate.strategy}: {percent(rate)}; {rate.accepted:,} accepted of {rate.judged:,} "
            f"judged, {rate.unverified:,} unverified"
        )
    return lines


def _version_lines(header: "SetHeader", entries: "Sequence[SetEntry]") -> Iterator[str]:
    from rephraser.sets.card import provenance

    yield f"{header.ref}, tags: {', '.join(header.tags) or 'none'}"
    yield from (*count_lines(header), "", provenance(header))
    for entry in entries:
        yield from ("", f"{entry.question.id}  answer: {entry.question.answer}", entry.question.text)
        for number, neighbor in enumerate(entry.neighbors, start=1):
            rates = ""
            if (counts := neighbor.successes) is not None:
                rates = (
                    f"; correct {counts.neighbor_right}/{counts.neighbor_drawn}, question "
                    f"{counts.question_right}/{counts.question_drawn}, {counts.difficulty}"
                )
            yield f"  {number}. [{_judged(neighbor)}] {neighbor.strategy}, {neighbor.model}{rates}"
            yield f"     {neighbor.text}"
        if not entry.neighbors:
            yield "  no neighbors"


def _diff_lines(difference: "SetDiff", limit: int) -> Iterator[str]:
    """Yield a difference: the counts, then up to `limit` lines of each kind."""
    yield f"{difference.a.ref} -> {difference.b.ref}"
    if difference.same:
        yield "the same content"
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
            yield f"{title}: {len(lines):,}"
            yield from some(lines, limit, "--limit, or --json for all")


def _line(neighbor: "Neighbor") -> str:
    return f"[{_judged(neighbor)}] {one_line(neighbor.text)}"


def _judged(neighbor: "Neighbor") -> str:
    posterior = "" if neighbor.posterior is None else f" {neighbor.posterior:.4g}"
    return f"{neighbor.verdict}{posterior}{', reviewed' if neighbor.reviewed else ''}"
