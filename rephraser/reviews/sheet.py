"""Decisions as JSON Lines files: the blind sheet of an audit, and files of decisions read back."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy.orm import Session

from rephraser.candidates import find_candidate
from rephraser.reviews.audit import Audit
from rephraser.reviews.store import Decision, ReviewItem, read_items
from service.errors import InputError, NotFoundError, first_lines
from service.questions.files import read_objects
from service.writing import write_text


class _SheetRow(BaseModel):
    model_config = ConfigDict(strict=True, str_strip_whitespace=True)

    candidate: str = Field(min_length=1)
    decision: Literal["", "accept", "accepted", "reject", "rejected"] | None = None
    reason: str | None = None
    reviewer: str | None = None
    audit: int | None = None

    @field_validator("decision", mode="before")
    @classmethod
    def _lower(cls, word: Any) -> Any:
        return word.strip().lower() if isinstance(word, str) else word


def write_sheet(session: Session, audit: Audit, path: Path) -> int:
    """Write the blind sheet of an audit to a new file, in its order, and return the number of rows.

    Verdict, model and strategy are left out. In an audit of groups, `group` is the same number for all
    neighbors of a question.
    """
    rows = []
    groups: dict[tuple[str, str], int] = {}
    for item in read_items(session, [member.candidate_id for member in audit.members]):
        group = groups.setdefault((item.question, item.answer), len(groups) + 1)
        grouped = {"group": group} if audit.kind == "groups" else {}
        rows.append({"audit": audit.id, **grouped, **_blank_row(item)})
    return _write_rows(path, rows)


def write_flagged(session: Session, flagged: Sequence[Mapping[str, Any]], path: Path) -> tuple[int, int]:
    """Write a row for each flagged neighbor that is a candidate of the database, with its success rates.

    Return the number of rows, and that of flagged neighbors that are no candidates here.
    """
    ids = [str(row["source_id"]) for row in flagged]
    items = {item.candidate_id: item for item in read_items(session, ids)}
    known = {row["source_id"]: row for row in flagged if row["source_id"] in items}
    if not known:
        raise InputError(
            f"none of the {len(flagged)} flagged neighbors is a candidate in this database, so none can be "
            "reviewed here. Give the database in which they were proposed with --db."
        )
    rows = [
        {
            **_blank_row(items[id]),
            "flag": row["flag"],
            "correct": f"{row['correct']} of {row['known']}",
            "original_correct": f"{row['original_correct']} of {row['original_known']}",
            "p_value": row["p_value"],
        }
        for id, row in known.items()
    ]
    return _write_rows(path, rows), sum(id not in items for id in ids)


def _blank_row(item: ReviewItem) -> dict[str, Any]:
    """Return a row with a candidate, its question and an empty decision."""
    return {
        "candidate": item.candidate_id,
        "question": item.question,
        "answer": item.answer,
        "candidate_text": item.candidate,
        "decision": "",
        "reason": "",
    }


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> int:
    """Write a sheet to a new file and return the number of rows."""
    if path.exists():
        raise InputError(f"{path}: already exists and may be filled in. Choose another file or delete it.")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(path, text, overwrite=None)
    return len(rows)


def read_sheet(
    session: Session, path: Path, *, reviewer: str | None, audit_id: int | None
) -> tuple[list[Decision], int]:
    """Return the decisions of a file, and the number of rows without one; an error names the bad lines.

    `reviewer` and `audit_id` apply to rows without their own. A repeated row counts once.
    """
    decisions: dict[tuple[str, str, int | None], tuple[int, Decision]] = {}
    blank, problems = 0, []
    for number, values in read_objects(path, 'like {"candidate": ..., "decision": ..., "reason": ...}'):
        try:
            decision = _read_decision(session, values, reviewer, audit_id)
            if decision is None:
                blank += 1
                continue
            key = (decision.candidate_id, decision.reviewer, decision.audit_id)
            earlier = decisions.setdefault(key, (number, decision))
            if earlier[1] != decision:
                raise InputError(
                    f"contradicts line {earlier[0]} about {decision.candidate_id}. Keep one of them."
                )
        except (InputError, NotFoundError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        rows = f"{len(problems)} row{'s' * (len(problems) > 1)}"
        raise InputError(f"{path}: {rows} cannot be used, so nothing was recorded:{first_lines(problems)}")
    if not decisions:
        rows = f"none of its {blank} rows has" if blank else "no row has"
        raise InputError(f'{path}: {rows} a "decision". Fill in accept or reject.')
    return [decision for _, decision in decisions.values()], blank


def _read_decision(
    session: Session, values: Mapping[str, Any], reviewer: str | None, audit_id: int | None
) -> Decision | None:
    try:
        row = _SheetRow.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InputError(f'"{first["loc"][0]}" is {first["input"]!r}: {first["msg"]}.') from None
    if not row.decision:
        return None
    if row.audit is not None and audit_id is not None and row.audit != audit_id:
        raise InputError(f"belongs to audit {row.audit}, not to --audit {audit_id}.")
    return Decision(
        candidate_id=find_candidate(session, row.candidate).id,
        decision="accepted" if row.decision.startswith("accept") else "rejected",
        reason=row.reason or "",
        reviewer=row.reviewer or reviewer or "",
        audit_id=audit_id if row.audit is None else row.audit,
    )
