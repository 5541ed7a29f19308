import json
from pathlib import Path
from typing import Any

import pytest
from runs import Proposed, add_run

from rephraser.reviews.audit import Audit, open_audit
from rephraser.reviews.sheet import read_sheet, write_sheet
from rephraser.reviews.store import Decision
from rephraser.tables import candidate_id
from service.database import Database
from service.errors import InputError, TagrpoError
from service.questions import make_question

QUESTION = make_question("What is 2+3?", "5")
TEXTS = ("Add 2 and 3.", "Add 2\u2028and 4.")
GOOD, BAD = (candidate_id(QUESTION.id, text) for text in TEXTS)


@pytest.fixture
def audit(db: Database) -> Audit:
    proposed = [Proposed(TEXTS[0]), Proposed(TEXTS[1], ("rejected",), strategy="format")]
    run = add_run(db, "run", [(QUESTION.text, "5", proposed)])
    return open_audit(db, run, size=4, seed=0)[0]


def read(
    db: Database, path: Path, *rows: dict[str, Any] | str, audit_id: int | None = None
) -> tuple[list[Decision], int]:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with db.read() as session:
        return read_sheet(session, path, reviewer="ada", audit_id=audit_id)


def test_the_sheet_is_blind_and_comes_back_filled(db: Database, audit: Audit, tmp_path: Path) -> None:
    path = tmp_path / "sheet.jsonl"
    with db.read() as session:
        assert write_sheet(session, audit, path) == 2
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert [row["candidate"] for row in rows] == [member.candidate_id for member in audit.members]
    assert sorted(row["candidate_text"] for row in rows) == sorted(TEXTS)
    keys = {"audit", "candidate", "question", "answer", "candidate_text", "decision", "reason"}
    assert all(set(row) == keys for row in rows)
    assert "perspectives" not in path.read_text()
    with db.read() as session, pytest.raises(InputError, match="none of its 2 rows has"):
        read_sheet(session, path, reviewer="ada", audit_id=None)
    for row in rows:
        row["decision"], row["reason"] = ("Accept", "") if row["candidate"] == GOOD else ("reject", "4")
    path.write_text("\ufeff" + "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows))
    with db.read() as session:
        decisions, blank = read_sheet(session, path, reviewer="ada", audit_id=audit.id)
    assert blank == 0
    assert set(decisions) == {
        Decision(GOOD, "accepted", "", "ada", audit.id),
        Decision(BAD, "rejected", "4", "ada", audit.id),
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ({"candidate": GOOD, "decision": "maybe"}, "'maybe': Input should be '', 'accept'"),
        ({"candidate": GOOD, "decision": True}, '"decision" is True: '),
        ({"decision": "accept"}, '"candidate"'),
        ({"candidate": "c_zz", "decision": "accept"}, "no candidate has an id"),
        ({"candidate": "c_", "decision": "accept"}, "several candidates"),
        ({"candidate": GOOD, "decision": "reject", "reason": " "}, "needs a reason"),
        ({"candidate": GOOD, "decision": "accept", "audit": "1"}, '"audit" is '),
        ({"candidate": GOOD, "decision": "accept", "audit": 9}, "belongs to audit 9, not to --audit 1"),
        ({"candidate": BAD, "decision": "reject", "reason": "no"}, "contradicts line 1"),
    ],
)
def test_a_bad_row_is_named(
    db: Database, audit: Audit, tmp_path: Path, row: dict[str, Any] | str, said: str
) -> None:
    first = {"candidate": BAD, "decision": "accept"}
    with pytest.raises(TagrpoError) as error:
        read(db, tmp_path / "d.jsonl", first, row, audit_id=1)
    assert str(error.value).startswith(f"{tmp_path / 'd.jsonl'}:2: ")
    assert said in str(error.value)
