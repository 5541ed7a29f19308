"""State in the address, downloads, both themes and failures, in a browser on scripts of the tests."""

import csv
import io
import json
import subprocess

import pytest
from page_view import SUPPORT, script_server, served

from service.database import Database

PAPER = "([part, paper]) => getComputedStyle(document.querySelector(part)).backgroundColor === paper"
SEARCH = "input[aria-label=Search]"
CHART = '[data-testid="stVegaLiteChart"] svg.marks'
SHOWN = "([n]) => document.querySelector('[data-testid=stMain]').innerText.includes('word '.repeat(n))"
TEXTS = ["Let $x=1$ be given. Find $x+1$.", "=1+1 is what? Find $x+2$.", "word " * 200_000, "Plain."]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    Database.open(folder / "t.db").close()
    (folder / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    command = script_server(SUPPORT / "pages_gallery.py", folder / "t.db")
    with served(command, GALLERY_TEXTS=str(folder / "texts.json")) as address:
        yield address


def test_back_and_forward_bring_the_search_back(url, view_of):
    view = view_of(url).open("/?q=one")
    field = view.tab.locator(SEARCH)
    assert field.input_value() == "one"
    for word in ("two", "three"):
        field.fill(word)
        field.press("Enter")
        view.until("([word]) => location.search === '?q=' + word", word)
        view.tab.get_by_text(f"Searched: {word}").wait_for()
    view.tab.go_back()
    view.tab.get_by_text("Searched: two").wait_for()
    view.until(
        "([label, word]) => document.querySelector(label).value === word", "[aria-label=Search]", "two"
    )
    view.tab.go_forward()
    view.tab.get_by_text("Searched: three").wait_for()
    assert view.tab.url == url + "/?q=three"
    view.check()


def test_long_texts_are_cut_until_all_is_asked_for(url, view_of):
    view = view_of(url).open("/")
    assert "word " * 700 not in view.text()
    view.tab.get_by_text("Show all 1,000,000 characters").first.click()
    view.until(SHOWN, 199_999)
    view.check()


def test_tables_and_charts_download(url, view_of, tmp_path):
    view = view_of(url).open("/")
    found = {}
    for label in ("CSV", "PNG", "SVG"):  # the table's, then what a chart has behind its button
        if label == "PNG":
            view.tab.locator('[data-testid="stPopover"] button').filter(has_text="Download").first.click()
        button = view.tab.locator('[data-testid="stDownloadButton"]').filter(has_text=label).first
        with view.tab.expect_download() as download:
            button.click()
        download.value.save_as(tmp_path / label)
        found[label] = download.value.suggested_filename, (tmp_path / label).read_bytes()
    names = {label: name for label, (name, _) in found.items()}
    assert names == {"CSV": "texts.csv", "PNG": "chart.png", "SVG": "chart.svg"}
    csv.field_size_limit(2_000_000)
    rows = list(csv.DictReader(io.StringIO(found["CSV"][1].decode())))
    assert [row["text"] for row in rows] == [TEXTS[0], "'" + TEXTS[1], *TEXTS[2:]]
    assert found["PNG"][1].startswith(b"\x89PNG")
    assert b"<svg" in found["SVG"][1]
    view.check()


@pytest.mark.parametrize(("dark", "paper"), [(False, "rgb(255, 255, 255)"), (True, "rgb(20, 23, 29)")])
def test_charts_and_pages_take_the_theme_of_the_browser(url, view_of, dark, paper):
    view = view_of(url, dark=dark).open("/")
    view.tab.wait_for_selector(CHART)
    for part in (CHART, '[data-testid="stApp"]'):
        view.until(PAPER, part, paper)
    view.check()


SECRET = "the text of a question that no log may hold"
SCRIPT = f"""
import streamlit as st
from service.errors import InputError

st.title("x")
if "bug" in st.query_params:
    raise RuntimeError(" ".join({SECRET.split()!r}))
raise InputError('runs: "a" is no <b>run</b>; name one of `tagrpo runs list`.')
"""


def test_a_failing_page(view_of, tmp_path):
    (tmp_path / "page.py").write_text(SCRIPT, encoding="utf-8")
    Database.open(tmp_path / "t.db").close()
    command, pipe = script_server(tmp_path / "page.py", tmp_path / "t.db"), subprocess.PIPE
    server = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().split()[-1]
    shown = {}
    for path in ("/", "/?bug=1"):
        view = view_of(url).open(path)
        view.check(errors=1)
        shown[path] = view.text()
    server.terminate()
    out, error = server.communicate(timeout=20)
    assert server.returncode == 0
    said = "".join(shown.values())
    assert SECRET not in said + out + error
    assert "Traceback" not in said
    assert 'runs: "a" is no <b>run</b>; name one of tagrpo runs list.' in shown["/"]
    assert "Something went wrong on this page.\nRuntimeError." in shown["/?bug=1"].replace("\n\n", "\n")
    assert f'File "{tmp_path}/page.py", line 7' in error
    assert "InputError" not in error
