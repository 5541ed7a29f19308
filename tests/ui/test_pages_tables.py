"""Tables on pages: CSV that no spreadsheet computes, cells on one line."""

import csv
import io

import pytest

pytest.importorskip("streamlit")

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from ui.pages.kit.tables import _shown, csv_bytes, guarded


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
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


@given(st.text(max_size=30))
def test_no_cell_begins_like_a_formula_unless_it_is_a_number(cell):
    shown = guarded(cell)
    if shown.lstrip(" ")[:1] in tuple("=+-@\t\r\n"):
        float(shown) if shown else None


def test_mappings_and_frames_become_the_same_file():
    rows = [{"name": "=a", "value": -1.5}, {"name": 'b,"c"\nd', "value": None}]
    expected = [["name", "value"], ["'=a", "-1.5"], ['b,"c"\nd', ""]]
    assert list(csv.reader(io.StringIO(csv_bytes(rows).decode(), newline=""))) == expected
    frame = pd.DataFrame({"name": ["=a"], "value": [-1.5]})
    assert list(csv.reader(io.StringIO(csv_bytes(frame).decode()))) == expected[:2]
    assert csv_bytes([], ["a", "=b"]) == b"a,'=b\r\n"
    assert csv_bytes([{"a": 1, "b": 2}], ["b"]) == b"b\r\n2\r\n"


def test_cells_stand_on_one_line_and_are_cut():
    assert _shown("a\n b\u202e", "text") == "a b⟨U+202E⟩"
    assert _shown("x" * 1000, "text") == "x" * 400 + "…"
    assert _shown(0.125, "share") == 12.5
    assert _shown(None, "share") is None
    assert _shown(3, "whole") == 3
