"""What `tagrpo sets` prints: headers with counts and accept rates, entries, differences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ui.cli import output

if TYPE_CHECKING:
    from rephraser.sets import Neighbor, PublishedSet, SetDiff, SetEntry, SetHeader

HASH_SHOWN = 12


def header_json(header: "SetHeader", *, with_spec: bool = False) -> dict[str, Any]:
    """Return a header with its accept rates as one JSON object."""
    from dataclasses import asdict

    from rephraser.sets import accept_rates

    result = {"set": header.ref, **asdict(header)}
    if not with_spec:
        del result["spec"]
    rates = accept_rates(header.counts.get("proposals", []))
    return {**result, "accept_rates": [asdict(rate) for rate in rates]}


def published_json(published: "PublishedSet") -> dict[str, Any]:
    """Return what publishing or importing came to as one JSON object."""
    return {
        **header_json(published.header),
        "created": published.created,
        "same_as": published.same_as,
    }


def print_published(published: "PublishedSet", verb: str) -> None:
    """Print what publishing or importing came to."""
    header = published.header
    if published.created:
        output.say(f"{verb} {header.ref}")
    else:
        output.say(f"unchanged: {header.ref} already has this content")
    if published.same_as:
        output.say(f"the content is identical to {published.same_as}")
    print_counts(header)


def print_headers(headers: Sequence["SetHeader"]) -> None:
    """Print versions as a table."""
    columns = ("set", "questions", "neighbors", "accepted", "unverified", "tags", "hash", "published")
    rows = [
        (
            header.ref,
            header.counts["questions"],
            header.counts["neighbors"],
            header.counts["neighbors_by_verdict"]["accepted"],
            header.counts["neighbors_by_verdict"]["unverified"],
            ", ".join(header.tags) or "-",
            header.content_hash[:HASH_SHOWN],
            header.created_at,
        )
        for header in headers
    ]
    output.table(
        columns,
        rows,
        empty="no neighbor sets yet; publish one with `tagrpo sets publish NAME --run RUN`",
    )


def print_version(header: "SetHeader", entries: "Sequence[SetEntry]") -> None:
    """Print all about a version, and some of its questions."""
    output.say(header.ref)
    print_counts(header)
    _print_origin(header)
    for entry in entries:
        _print_entry(entry)


def print_counts(header: "SetHeader") -> None:
    """Print hash, counts by verdict and by neighbors a question, and the accept rate of the run."""
    output.say(f"id            {header.id}")
    output.say(f"content hash  {header.content_hash}")
    print_members(header.counts)


def print_members(counts: Mapping[str, Any]) -> None:
    """Print what a version holds: questions, neighbors, success rates, and the accept rates of its runs."""
    from rephraser.sets import accept_rates
    from rephraser.sets.card import percent

    sizes = ", ".join(f"{number:,} with {size}" for size, number in counts["questions_by_neighbors"].items())
    output.say(f"questions     {counts['questions']:,}: {sizes} neighbors")
    if counts.get("questions_left_out"):
        output.say(f"              {counts['questions_left_out']:,} without neighbors were left out")
    if counts.get("adaptive"):
        needs = counts["adaptive"]
        output.say(
            f"              {needs['in need']:,} probably yield no gradient alone, {needs['unknown']:,} "
            f"have an unknown rate; {needs['alone']:,} have no neighbors"
        )
    verdicts = counts["neighbors_by_verdict"]
    by_verdict = ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items() if number)
    output.say(
        f"neighbors     {counts['neighbors']:,}: {by_verdict or 'none'}; {counts['reviewed']:,} reviewed"
    )
    left_out = {
        "too_like": "too similar to others",
        "duplicates": "also found in a second run",
        "contradicted": "rejected by the answers of another run",
    }
    for key, words in left_out.items():
        if counts.get(key):
            output.say(f"              {counts[key]:,} more were {words} and left out")
    if verdicts["unverified"]:
        output.say("              unverified: answers of question and neighbor were not compared")
    successes = counts.get("successes")
    if successes:
        difficulties = ", ".join(f"{number:,} {name}" for name, number in successes["difficulty"].items())
        output.say(
            f"success       {successes['neighbor_rate']:.1%} on {successes['neighbors']:,} neighbors, "
            f"{successes['question_rate']:.1%} on their questions, by {', '.join(successes['solvers'])}"
        )
        output.say(f"              compared with the question: {difficulties}")
    for rate in accept_rates(counts.get("proposals", [])):
        left = f", {rate.unverified:,} unverified" if rate.unverified else ""
        output.say(
            f"acceptance    {rate.strategy}: {percent(rate)}; {rate.accepted:,} accepted of {rate.judged:,} "
            f"judged{left}"
        )


def _print_origin(header: "SetHeader") -> None:
    spec = header.spec
    facts = [
        ("published", header.created_at),
        ("parent", header.parent_id or "none"),
        ("tags", ", ".join(header.tags) or "none"),
        *(fact for run in header.runs for fact in _run_facts(run)),
        ("selection", _selection(spec.get("publish", {}))),
    ]
    if not header.runs:
        facts.append(("run", "not recorded"))
    if "import" in spec:
        origin = spec["import"]
        edited = ", edited since its export" if origin.get("edited") else ""
        facts.append(("imported", f"{origin['file']}, {origin.get('name')}@{origin.get('version')}{edited}"))
    for name, value in facts:
        if value:
            output.say(f"{name:13} {value}")


def _run_facts(run: dict[str, Any]) -> list[tuple[str, Any]]:
    settings = run["spec"]
    strategies = (
        f"{item['name']} {item['version']} ({item['hash']})" for item in settings.get("strategies", ())
    )
    return [
        ("run", f"{run['name']} ({run['id']})"),
        ("model", settings.get("model")),
        ("strategies", ", ".join(strategies)),
        ("solvers", ", ".join(solver["model"] for solver in settings.get("solvers", ())) or "none"),
        ("rule", _rule(settings)),
    ]


def _print_entry(entry: "SetEntry") -> None:
    output.say()
    output.say(f"{entry.question.id}  answer: {entry.question.answer}")
    output.say(entry.question.text)
    for number, neighbor in enumerate(entry.neighbors, start=1):
        output.say(
            f"  {number}. [{_judged(neighbor)}] {neighbor.strategy}, {neighbor.model}{_rates(neighbor)}"
        )
        output.say(f"     {neighbor.text}")
    if not entry.neighbors:
        output.say("  no neighbors")


def print_diff(difference: "SetDiff", *, limit: int) -> None:
    """Print a difference: the counts, then up to `limit` lines of each kind."""
    output.say(f"{difference.a.ref} -> {difference.b.ref}")
    if difference.same:
        output.say("the same content")
        return
    _print_some("questions added", [f"+ {key}" for key in difference.questions_added], limit)
    _print_some("questions removed", [f"- {key}" for key in difference.questions_removed], limit)
    _print_some("neighbors added", [f"+ {_line(p.question_id, p.neighbor)}" for p in difference.added], limit)
    gone = [
        f"- {_line(p.question_id, p.neighbor)}{f'  (now {p.now})' if p.now else ''}"
        for p in difference.removed
    ]
    _print_some("neighbors removed", gone, limit)
    verdicts = [
        f"{change.question_id}  {change.before and change.before.verdict} -> {_line('', change.neighbor)}"
        for change in difference.verdicts_changed
    ]
    _print_some("verdicts changed", verdicts, limit)
    others = [
        f"{change.question_id}  {', '.join(change.fields)}  {output.one_line(change.neighbor.text)}"
        for change in difference.changed
        if not change.verdict_changed
    ]
    _print_some("neighbors changed otherwise", others, limit)
    _print_some("questions with reordered neighbors", list(difference.reordered), limit)


def _print_some(title: str, lines: list[str], limit: int) -> None:
    if lines:
        output.say(f"{title}: {len(lines):,}")
        output.say_some(lines, limit, "--limit, or --json for all")


def _line(question_id: str, neighbor: "Neighbor") -> str:
    return f"{question_id}  [{_judged(neighbor)}] {output.one_line(neighbor.text)}".lstrip()


def _judged(neighbor: "Neighbor") -> str:
    posterior = "" if neighbor.posterior is None else f" {neighbor.posterior:.4g}"
    return f"{neighbor.verdict}{posterior}{', reviewed' if neighbor.reviewed else ''}"


def _rates(neighbor: "Neighbor") -> str:
    successes = neighbor.successes
    if successes is None:
        return ""
    return (
        f"; correct {successes.neighbor_right}/{successes.neighbor_drawn}, question "
        f"{successes.question_right}/{successes.question_drawn}, {successes.difficulty}"
    )


def _rule(settings: dict[str, Any]) -> str:
    """Without a solver no answers are compared, so that the rule has judged nothing."""
    if not settings.get("solvers"):
        return ""
    return ", ".join(
        str(value) if key == "rule" else f"{key} {value}" for key, value in settings["rule"].items()
    )


def _selection(publish: dict[str, Any]) -> str:
    if not publish:
        return ""
    parts = [f"at most {publish['n']} per question" if publish.get("n") else "all that qualify"]
    parts.append(" and ".join(publish["include"]))
    parts += [f"{key} {', '.join(publish[key])}" for key in ("strategies", "models") if publish.get(key)]
    if publish.get("min_distance"):
        parts.append(f"distance at least {publish['min_distance']}")
    if publish.get("prefer", "any") != "any":
        parts.append(f"{publish['prefer']} ones first")
    if publish.get("adaptive"):
        rule = publish["adaptive"]
        parts.append(
            f"no neighbors if the chance of equal rewards is below {rule['unmixed']} with {rule['g']} "
            f"responses, by {'pilot ' + rule['pilot'] if rule['pilot'] else 'the answers of the verdicts'}"
        )
    if publish.get("only_with_neighbors"):
        parts.append("only questions with neighbors")
    return ", ".join(parts)
