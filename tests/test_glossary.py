"""The glossary against the names of the code: one word one row, every table once, every place there."""

import re
from importlib import import_module
from pathlib import Path

from service.database.base import Base
from service.database.schema import TABLES

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
][1:]


def code(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_every_word_stands_once() -> None:
    words = [word for row in ROWS for word in row[0].split(", ")]
    assert len(set(words)) == len(words) > 25


def test_every_table_stands_once() -> None:
    for module in TABLES:
        import_module(module)
    assert sorted(table for row in ROWS for table in code(row[2])) == sorted(Base.metadata.tables)


def test_every_place_is_there() -> None:
    places = [place for row in ROWS for place in code(row[3])]
    assert len(places) == len(ROWS)
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_every_path_that_contributors_are_sent_to_is_there() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    paths = re.findall(
        r"`((?:service|evaluator|rephraser|trainer_adapter|sandbox|ui|tests|benchmarks|docs)/[^` ]*)`", page
    )
    assert len(paths) > 30
    assert [path for path in paths if not list(ROOT.glob(path))] == []
