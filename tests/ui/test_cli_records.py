"""Records and documents as the terminal shows them."""

import pytest

from evaluator.reports.document import Commands, Document, Heading, Picture, Points, Table, Text
from ui.cli.output import Terminal, say

RECORD = {
    "set": "math@1",
    "created": True,
    "questions": 1234,
    "rate": 0.123456,
    "unknown": None,
    "notes": [],
    "tags": ["a", "b"],
    "counts": {"accepted": 3, "rejected": 0},
    "text": "two\nlines",
    "rows": [{"k": 1, "value": 0.5, "ends": [0.25, 0.75]}, {"k": 32, "value": None, "more": "x"}],
    "nested": {"kind": "llm", "sampling": {"temperature": 1.0, "stop": {"words": ["a"]}}},
    "deep": [{"name": "one", "inner": [{"a": "x\ny"}]}],
}


def test_text_has_the_values_of_json_in_lines_tables_and_sections(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().show(RECORD, "the note", hidden=("tags",))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "set        math@1",
        "created    yes",
        "questions  1,234",
        "rate       0.1235",
        "counts     accepted=3, rejected=0",
        *("", "text", "two", "lines"),
        *(
            "",
            "rows",
            " k  value  ends          more",
            " 1    0.5  0.25 to 0.75  -",
            "32      -  -             x",
        ),
        *("", "nested", "kind  llm", "", "nested sampling", "temperature  1", ""),
        *("nested sampling stop", "words  a"),
        *("", "deep", "name  one", "", "deep inner a", "x", "y"),
        "the note",
    ]


def test_a_document_is_printed_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [
        Text("It is **so** & `x<y`."),
        Heading("One_1"),
        Table(("name", "k|1"), (("a", "1"), ("b", "20"))),
        Points(("first", "`a_b`")),
        Picture("shares", "What it shows", {}),
        Commands(("tagrpo demo --folder 'a b'",)),
    ]
    say(Document(blocks, notes=("a note",), title="A <title>"))
    assert capsys.readouterr().out == (
        "A <title>\nIt is so & `x<y`.\n\nOne_1\nname  k|1\na       1\nb      20\n"
        "- first\n- `a_b`\n[shares: What it shows]\n  tagrpo demo --folder 'a b'\n\n- a note\n"
    )
