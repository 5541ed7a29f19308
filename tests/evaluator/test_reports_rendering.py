"""Documents and rows as text."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.reports.document import Document, Sheet
from evaluator.reports.rendering import (
    escape_latex,
    finite,
    render_csv,
    render_json,
    render_latex,
    render_markdown,
    render_text,
)

SHEET = Sheet("A_1, 95%", ("method", "x"), (("a|b", "1.00\n[0.1, 2.0]"), ("c & d", "-")), breaks=(1,))
DOCUMENT = Document((SHEET,), ("run `tagrpo eval grade a_b` on 50% of #1",))


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
        "- run `tagrpo eval grade a_b` on 50% of #1\n"
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
        "- run `tagrpo eval grade a_b` on 50% of #1\n"
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
            r"\item run \texttt{tagrpo eval grade a\_b} on 50\% of \#1",
            r"\end{itemize}",
            "",
        ]
    )


def test_a_bracket_at_a_rows_begin_is_no_argument() -> None:
    sheet = Sheet("t", ("a", "b"), (("[1, 2]", "x"),))
    assert "\n{[1, 2]} & x \\\\\n" in render_latex(Document((sheet,), ()))


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
