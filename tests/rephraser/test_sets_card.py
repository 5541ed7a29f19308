"""The card of an exported set says what is not known, and nothing in it breaks its tables."""

from pathlib import Path

from runs import Asked, Proposed, add_run, make_spec

from rephraser import sets
from service.database import Database


def test_a_card_without_licence_or_solver_says_so(db: Database, tmp_path: Path) -> None:
    asked: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?", ("unverified",))])]
    add_run(db, "rules", asked, spec=make_spec(solvers=(), seed=20260))
    sets.publish(db, "rules", run="rules", include=("unverified",))

    sets.export_hf(db, "rules", tmp_path / "out")

    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\nlicense: other\n")
    assert "Not stated by the publisher." in text
    assert "0 of 1 were; 1 unverified." in text
    assert "| all | 0 | 0 | 1 | not measured |" in text
    assert "| solvers | none |" in text
    assert "| seed | 20260 |" in text
    assert "Rule of the verdicts" not in text


def test_a_tag_and_the_cells_of_tables_cannot_break_the_card(db: Database, tmp_path: Path) -> None:
    asked: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?", strategy="a|b\nc")])]
    add_run(db, "odd", asked)
    sets.publish(db, "odd", run="odd")

    sets.export_hf(db, "odd", tmp_path / "out")

    assert "| a\\|b c | 1 |" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
