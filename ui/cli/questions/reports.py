"""What `tagrpo questions` prints: the report of an import, a page of questions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ui.cli import output

if TYPE_CHECKING:
    from rephraser.views.suspects import Suspect
    from service.questions import ImportReport, Member, Question

PAIRS_SHOWN = 10
TEXT_SHOWN = 90
ID_SHOWN = 12  # long enough for `show`


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 row`, `7,500 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def print_suspects(suspects: "Sequence[Suspect]", total: int) -> None:
    """Print questions whose gold the solvers contradict."""
    if not suspects:
        output.say("no question whose solvers agree on another answer than the gold")
        return
    output.table(
        ["question", "gold", "agreed", "on question", "on neighbors", "neighbors", "gold given", "run"],
        [
            [
                one.question_id[:ID_SHOWN],
                one.gold,
                one.agreed,
                f"{one.question_agreeing} of {one.question_drawn}",
                f"{one.neighbor_agreeing} of {one.neighbor_drawn}",
                one.neighbors,
                one.gold_given,
                one.run,
            ]
            for one in suspects
        ],
    )
    more = f"; the first {len(suspects)} (--limit, --json has all)" if len(suspects) < total else ""
    output.say(
        f"{plural(total, 'question')}{more}: the gold is wrong, or the solver always errs; look at them"
    )


def print_report(report: "ImportReport") -> None:
    """Print an import as sentences: the counts first, then what was odd."""
    what = "imported as" if report.created else "nothing new: it is already the set"
    output.say(f'{report.source}: {what} "{report.name}"')
    mapped = ", ".join(f"{part} from {name}" for part, name in report.columns.as_dict().items())
    output.say(f"columns: {mapped}")
    counts = [
        f"{plural(report.rows, 'row')} read",
        f"{report.usable:,} usable",
        f"{len(report.held):,} held back",
    ]
    if report.duplicates:
        counts.append(f"{len(report.duplicates):,} repeated")
    if report.bad_rows:
        counts.append(f"{len(report.bad_rows):,} left out")
    output.say(", ".join(counts))
    if report.created:
        known = report.usable + len(report.held) - report.counts.new
        old = f", {known:,} were there already" if known else ""
        output.say(f"{plural(report.counts.new, 'question')} new in the database{old}")
    if report.counts.other_labels:
        output.say(
            f"{report.counts.other_labels:,} of these have another level or subject there; "
            "those of the first import stay"
        )
    for member in report.held:
        output.say(f"  held back: row {member.position}  {member.question.id}  {member.held}")
    for line in report.bad_rows:
        output.say(f"  left out: {line}")
    likeness = report.likeness
    _print_pairs("repeated (stored once)", [f"rows {b} and {a}" for a, b in report.duplicates])
    _print_pairs(
        "same question, different answers", [f"rows {p.earlier} and {p.row}" for p in likeness.conflicts]
    )
    _print_pairs(
        "near-duplicates with the same answer (kept)",
        [f"rows {p.earlier} and {p.row} ({p.ratio:.1f}%)" for p in likeness.near_duplicates],
    )
    if likeness.look_alikes:
        output.say(
            f"{plural(len(likeness.look_alikes), 'row')} worded like an earlier one, with other numbers or "
            "another answer (kept; --json lists them)"
        )
    if report.several_boxes:
        rows = ", ".join(str(row) for row in report.several_boxes[:PAIRS_SHOWN])
        more = ", ..." if len(report.several_boxes) > PAIRS_SHOWN else ""
        output.say(
            f"{plural(len(report.several_boxes), 'solution')} ending in several boxes, of which the last was "
            f"taken: rows {rows}{more}"
        )


def _print_pairs(title: str, lines: list[str]) -> None:
    if lines:
        more = f"; and {len(lines) - PAIRS_SHOWN:,} more (--json)" if len(lines) > PAIRS_SHOWN else ""
        output.say(f"{len(lines):,} {title}: {'; '.join(lines[:PAIRS_SHOWN])}{more}")


def attention(report: "ImportReport") -> str:
    """Say in one line what of an import needs attention."""
    parts = []
    if report.held:
        parts.append(f"{len(report.held):,} held back (`tagrpo questions list {report.name} --held`)")
    if report.likeness.conflicts:
        parts.append(
            f"{plural(len(report.likeness.conflicts), 'row')} with another answer than an earlier one"
        )
    if report.bad_rows:
        parts.append(f"{plural(len(report.bad_rows), 'row')} left out")
    return "; ".join(parts)


def report_json(report: "ImportReport") -> dict[str, Any]:
    """Return an import as one JSON object."""
    pairs = {
        kind: [{"row": pair.row, "earlier": pair.earlier, "ratio": pair.ratio} for pair in found]
        for kind, found in (
            ("conflicts", report.likeness.conflicts),
            ("near_duplicates", report.likeness.near_duplicates),
            ("look_alikes", report.likeness.look_alikes),
        )
    }
    return {
        "set": report.name,
        "source": report.source,
        "created": report.created,
        "rows": report.rows,
        "usable": report.usable,
        "held": [member_json(member) for member in report.held],
        "new_questions": report.counts.new,
        "other_labels": report.counts.other_labels,
        "duplicates": [{"row": row, "earlier": earlier} for row, earlier in report.duplicates],
        **pairs,
        "bad_rows": list(report.bad_rows),
        "several_boxes": list(report.several_boxes),
        "spec": report.spec,
    }


def print_page(name: str, members: "Sequence[Member]", total: int, after: int | None) -> None:
    """Print questions as a table, and how to go on."""
    if not members:
        output.say(f"no question of {name} matches" if not total else f"no more questions of {name}")
        return
    with_reason = any(member.held for member in members)
    columns = ["row", "id", "level", "subject", "question", "answer", *(["held back"] if with_reason else [])]
    rows = [
        [
            str(member.position),
            member.question.id[:ID_SHOWN],
            member.question.level,
            member.question.subject,
            _short(member.question.text, TEXT_SHOWN),
            _short(member.question.answer, 30),
            *([member.held] if with_reason else []),
        ]
        for member in members
    ]
    output.table(columns, rows)
    if after is not None:
        output.say(f"{total:,} in all; go on with --after {after}")


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."


def question_json(question: "Question") -> dict[str, Any]:
    """Return a question as JSON."""
    return {
        "id": question.id,
        "question": question.text,
        "answer": question.answer,
        "level": question.level,
        "subject": question.subject,
    }


def member_json(member: "Member") -> dict[str, Any]:
    """Return a member of a set as JSON."""
    return {"row": member.position, **question_json(member.question), "held": member.held}
