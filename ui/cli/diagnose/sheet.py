"""Neighbors with an implausible success rate, as a sheet for `tagrpo neighbors review --sheet`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import InputError
from ui.cli import output
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.signal.difficulty import NeighborRow


def write_review_sheet(path: Path, flagged: "Sequence[NeighborRow]", db: Db) -> int:
    """Write a row for each flagged neighbor that is a candidate of the database; return their number.

    `candidate`, the texts, what was seen of it, and `decision` and `reason` to be filled in.

    Raises:
        InputError: the file exists (it may be filled in), or none of them is a candidate.
    """
    from rephraser.reviews.queue import read_item
    from rephraser.tables import CandidateRow
    from service.writing import write_file

    rows, foreign = {}, 0
    with db.reading() as session:
        for row in flagged:
            if row.source_id is None or session.get(CandidateRow, row.source_id) is None:
                foreign += 1
                continue
            item = read_item(session, row.source_id)
            rows[row.source_id] = {
                "candidate": item.candidate_id,
                "question": item.question,
                "answer": item.answer,
                "candidate_text": item.candidate,
                "flag": row.flag,
                "correct": f"{row.correct} of {row.known}",
                "original_correct": f"{row.original_correct} of {row.original_known}",
                "p_value": row.p_value,
                "decision": "",
                "reason": "",
            }
    if not rows:
        raise InputError(
            f"none of the {len(flagged)} flagged neighbors is a candidate of this database, so there is "
            "nothing to review here; name the database they were proposed in with --db."
        )
    if foreign:
        output.note(f"{foreign:,} flagged neighbors are no candidates of this database and are left out")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values())

    def write(made: Path) -> None:
        made.write_text(text, encoding="utf-8", newline="\n")

    write_file(path, write, overwrite=None)
    return len(rows)
