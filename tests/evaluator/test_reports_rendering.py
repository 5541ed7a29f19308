"""Documents and rows as text."""

from collections.abc import Callable

import pytest

from evaluator.reports.documents.document import Commands, Document, Heading, Picture, Points, Table, Text
from evaluator.reports.documents.rendering import finite, render_latex, render_markdown

WHOLE = Document(
    [
        Text("It is **so** & `x<y`."),
        Heading("One_1"),
        Table(("name", "k|1"), (("a", "1"), ("b", "2"))),
        Points(("first", "`a_b`")),
        Picture("shares", "What it shows", {}),
        Commands(("tagrpo demo --folder 'a b'",)),
    ],
    ("**so** & `x<y`",),
    title="A <title>",
)


@pytest.mark.parametrize(
    ("render", "parts"),
    [
        (
            render_markdown,
            (
                "# A \\<title\\>\n\nIt is **so** & `x<y`.\n\n## One\\_1\n\n",
                "| name | k\\|1 |\n| --- | ---: |\n| a | 1 |\n| b | 2 |\n\n- first\n- `a_b`\n\n",
                "![What it shows](pictures/shares.svg)\n\n```bash\ntagrpo demo --folder 'a b'\n```\n",
            ),
        ),
        (
            render_latex,
            (
                "\\begin{table}\n\\centering\n\\begin{tabular}{lr}\n",
                "\\begin{itemize}\n\\footnotesize\n\\item \\textbf{so} \\& \\texttt{x\\textless{}y}\n",
            ),
        ),
    ],
)
def test_documents_as_text_and_tables_and_notes_as_latex(
    render: Callable[[Document], str], parts: tuple[str, ...]
) -> None:
    text = render(WHOLE)
    assert [part for part in parts if part not in text] == []


def test_infinity_is_named_where_json_has_no_number() -> None:
    value = {"a": [1 / 3, float("inf")], "b": {"z": -float("inf")}, "c": ("x", None, True)}
    assert finite(value) == {
        "a": [1 / 3, "Infinity"],
        "b": {"z": "-Infinity"},
        "c": ["x", None, True],
    }
    assert finite(2.5) == 2.5
