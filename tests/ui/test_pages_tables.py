"""Tables on pages: CSV that no spreadsheet computes, cells on one line."""

import csv
import io

import pytest
from pages import tables
from streamlit.testing.v1 import AppTest

from ui.pages.widgets.tables import cell
from ui.rendering import guarded, render_csv


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\n=1"),
        ("\n=1", "'\n=1"),
        ("  =1", "'  =1"),
        ("＝1", "'＝1"),
        ("-5", "-5"),
        ("+1e-3", "+1e-3"),
        ("-5 apples", "'-5 apples"),
        (-5, -5),
        (0.25, 0.25),
        (None, None),
        ("x=1", "x=1"),
        ("", ""),
    ],
)
def test_cells_that_a_spreadsheet_would_compute_are_text(cell, expected):
    assert guarded(cell) == expected


def test_rows_become_a_file():
    rows = [{"name": "=a", "value": -1.5}, {"name": 'b,"c"\nd', "value": None}, {"name": "a\r=1"}]
    expected = [["name", "value"], ["'=a", "-1.5"], ['b,"c"\nd', ""], ["a\n=1", ""]]
    assert list(csv.reader(io.StringIO(render_csv(rows), newline=""))) == expected
    assert render_csv([], ["a", "=b"]) == "a,'=b\n"
    assert render_csv([]) == ""
    assert render_csv([{"a": 1, "b": 2}], ["b"]) == "b\n2\n"


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        ("a\n b\u202e", "text", "a b⟨U+202E⟩"),
        ("x" * 1000, "text", "x" * 400 + "…"),
        (1234567.4, "whole", "1,234,567"),
        (0.000012345, "number", "1.234e-05"),
        (-0.0004, "fixed", "0.000"),
        (-1.5, "fixed", "\u22121.500"),
        (0.125, "share", "12.5%"),
        (-0.125, "points", "\u221212.5"),
        (0.0001, "points", "0.0"),
        (0.03, "points", "+3.0"),
        (2.5, "usd", "2.5000"),
        (0.00004, "p", "<0.0001"),
        (0.0, "p", "<0.0001"),
        (0.0001, "p", "0.0001"),
        (0.13849, "p", "0.1385"),
        ("62.70 [58, 67]", "figure", "62.70 [58, 67]"),
        (True, "yes", "✓"),
        (False, "yes", ""),
        (None, "share", ""),
        (float("nan"), "number", ""),
    ],
)
def test_cells_are_one_line_of_text(value, kind, shown):
    assert cell(value, kind) == shown


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1.985, 2, 2.027, None], ["1.985", "2.000", "2.027", ""]),
        ([0.8, 0.7937, 1], ["0.8000", "0.7937", "1.0000"]),
        ([0.02318, 0.2963], ["0.0232", "0.2963"]),
        ([123456, 7], ["123,456", "7"]),
        ([-0.5, 0.25], ["\u22120.50", "0.25"]),
        ([0.000012345, 3], ["1.234e-05", "3"]),  # four decimals would hide the small one
        ([float("nan")], [""]),
    ],
)
def test_numbers_of_a_column_end_at_one_place(values, shown):
    def page():
        import streamlit as st

        from ui.pages.widgets.tables import Column, page_table

        page_table([{"x": one} for one in st.session_state["values"]], [Column("x", "x", "number")], "t")

    app = AppTest.from_function(page)
    app.session_state["values"] = values
    app.run()
    assert not app.exception
    assert list(tables(app)[0]["x"]) == shown
