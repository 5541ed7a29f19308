"""The card of an exported set says what is not known, and nothing in it breaks its tables."""

from pathlib import Path

from runs import Asked, Proposed, add_run

from rephraser import sets
from service.database import Database


def test_a_tag_and_the_cells_of_tables_cannot_break_the_card(db: Database, tmp_path: Path) -> None:
    asked: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?", strategy="a|b\nc")])]
    add_run(db, "odd", asked)
    sets.publish(db, "odd", run="odd")

    sets.export_hf(db, "odd", tmp_path / "out")

    assert "| a\\|b c | 1 |" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
