"""Documents and rows as text."""

import csv
import io
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.reports.documents.document import (
    Commands,
    Document,
    Heading,
    Picture,
    Points,
    Table,
    Text,
    hundredths,
    joined,
    number,
    percent,
    points,
    span,
)
from evaluator.reports.documents.rendering import escape_latex, render_latex, render_markdown
from evaluator.reports.records import finite, render_csv, render_json
from ui.cli.documents import render_text

TABLE = Table(("method", "x"), (("a|b", "1.00\n[0.1, 2.0]"), ("c & d", "-")), "A_1, 95%", breaks=(1,))
DOCUMENT = Document((TABLE,), ("run `tagrpo eval score a_b` on 50% of #1",))


WHOLE = Document(
    [
        Text("It is **so** & `x<y`."),
        Heading("One_1"),
        Table(("name", "k|1"), (("a", "1"), ("b", "2"))),
        Points(("first", "`a_b`")),
        Picture("shares", "What it shows", {}),
        Commands(("tagrpo demo --folder 'a b'",)),
    ],
    title="A <title>",
)


@pytest.mark.parametrize(
    ("render", "parts"),
    [
        (
            render_text,
            (
                "A <title>\nIt is so & `x<y`.\n\nOne_1\nname  k|1\n----  ---\na       1\nb       2\n",
                "- first\n- `a_b`\n[shares: What it shows]\n  tagrpo demo --folder 'a b'\n",
            ),
        ),
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
                "\\section*{A \\textless{}title\\textgreater{}}\n",
                "It is \\textbf{so} \\& \\texttt{x\\textless{}y}.\n",
                "\\subsection*{One\\_1}\n\n\\begin{table}\n\\centering\n\\begin{tabular}{lr}\n",
                "\\begin{itemize}\n\\item first\n\\item \\texttt{a\\_b}\n\\end{itemize}\n",
                "\\includegraphics[width=\\linewidth]{pictures/shares}\n\\caption{What it shows}\n",
                "\\begin{verbatim}\ntagrpo demo --folder 'a b'\n\\end{verbatim}\n",
            ),
        ),
    ],
)
def test_every_block_stands_in_every_format(
    render: Callable[[Document], str], parts: tuple[str, ...]
) -> None:
    text = render(WHOLE)
    assert [part for part in parts if part not in text] == []


def test_wide_tables_are_folded_to_the_terminal() -> None:
    table = Table(("strategy of it", "share"), (("a rather long name", "10.0%"),))
    text = render_text(Document((table,)), width=18)
    assert text == ("strategy of\nit           share\n-----------  -----\na rather     10.0%\nlong name\n")
    assert render_text(Document((table,)), width=25) == render_text(Document((table,)))


def test_numbers_are_written_with_their_intervals() -> None:
    assert (percent(0.1234), percent(None)) == ("12.3%", "-")
    assert (hundredths(0.627), points(-0.0125), points(0.5, 2)) == ("62.70", "-1.2", "+50.00")
    assert (span(0.1, 0.25), span(None, 0.2), span(-0.01, 0.02, points)) == (
        "[10.0, 25.0]",
        "-",
        "[-1.0, +2.0]",
    )
    assert (number(1234.56), number(None)) == ("1,234.6", "-")
    assert (joined(["1"]), joined(["1", "8", "32"])) == ("1", "1, 8 and 32")


def test_a_terminal_gets_aligned_columns() -> None:
    assert render_text(DOCUMENT) == (
        "A_1, 95%\n"
        "method           x\n"
        "------  ----------\n"
        "a|b           1.00\n"
        "        [0.1, 2.0]\n"
        "------  ----------\n"
        "c & d            -\n"
        "\n"
        "- run `tagrpo eval score a_b` on 50% of #1\n"
    )


def test_markdown_is_a_pipe_table_with_nothing_read_as_markup() -> None:
    assert render_markdown(DOCUMENT) == (
        "**A\\_1, 95%**\n"
        "\n"
        "| method | x |\n"
        "| --- | ---: |\n"
        "| a\\|b | 1.00<br>[0.1, 2.0] |\n"
        "| c & d | - |\n"
        "\n"
        "- run `tagrpo eval score a_b` on 50% of #1\n"
    )


def test_latex_is_a_booktabs_table_with_everything_escaped() -> None:
    assert render_latex(DOCUMENT) == "\n".join(
        [
            r"% needs \usepackage{booktabs} and \usepackage[T1]{fontenc}",
            "",
            r"\begin{table}",
            r"\centering",
            r"\caption{A\_1, 95\%}",
            r"\begin{tabular}{lr}",
            r"\toprule",
            r"method & x \\",
            r"\midrule",
            r"a\textbar{}b & \shortstack[r]{1.00\\{\scriptsize [0.1, 2.0]}} \\",
            r"\midrule",
            r"c \& d & - \\",
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
            r"\begin{itemize}",
            r"\footnotesize",
            r"\item run \texttt{tagrpo eval score a\_b} on 50\% of \#1",
            r"\end{itemize}",
            "",
        ]
    )


def test_a_bracket_at_a_rows_begin_is_no_argument() -> None:
    table = Table(("a", "b"), (("[1, 2]", "x"),))
    assert "\n{[1, 2]} & x \\\\\n" in render_latex(Document((table,)))


@given(st.text(alphabet=st.sampled_from('ab \\{}#$%&_~^<>|"[]*'), max_size=30))
def test_latex_is_balanced_whatever_a_label_holds(label: str) -> None:
    text = escape_latex(label)
    bare = re.sub(r"\\[{}#$%&_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"[#$%&_~^<>|\"]", bare)
    assert set(re.findall(r"\\([a-z]+)\{\}", bare)) <= {
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
        "textbar",
        "textquotedbl",
    }


def test_csv_keeps_full_precision_and_empty_fields() -> None:
    rows = [{"label": 'a, "b"', "value": 1 / 3, "low": None}, {"label": "ü", "value": 1e-17, "low": 2}]
    read = list(csv.DictReader(io.StringIO(render_csv(rows))))
    assert [float(row["value"]) for row in read] == [1 / 3, 1e-17]
    assert [(row["label"], row["low"]) for row in read] == [('a, "b"', ""), ("ü", "2")]
    assert render_csv([]) == ""


def test_json_keeps_full_precision_and_names_infinity() -> None:
    value = {"a": [1 / 3, float("inf")], "b": {"z": -float("inf")}, "c": ("x", None, True)}
    assert json.loads(render_json(value)) == {
        "a": [1 / 3, "Infinity"],
        "b": {"z": "-Infinity"},
        "c": ["x", None, True],
    }
    assert finite(2.5) == 2.5
    with pytest.raises(ValueError):
        render_json({"a": float("nan")})
