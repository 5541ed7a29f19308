"""The demo's report: one HTML file for both screens, and its pictures."""

import re
from xml.etree import ElementTree

import pytest

from evaluator.reports.documents.document import Commands, Document, Heading, Picture, Points, Table, Text
from evaluator.reports.documents.html import STYLE, render_html
from ui.charts.saving import draw
from ui.charts.theme import DARK_PAPER, FONT, GRID, INK, MUTED, PAPER, darken
from ui.demo_report.findings import Trained
from ui.demo_report.pictures import share_chart, training_chart

CHART = share_chart(
    [
        {"label": "a & b", "share": 0.25, "low": 0.1, "high": 0.4},
        {"label": "c", "share": 1, "low": 0.9, "high": 1},
    ],
    title="Shares",
    subtitle="of what",
    x_title="share",
)
DOCUMENT = Document(
    [
        Text("It is **so** & `x<y`."),
        Heading("One"),
        Table(("name", "k|1"), (("a", "1"), ("b", "2")), title="Which?"),
        Points(("first", "`second`")),
        Picture("shares", "What it shows", CHART),
        Commands(("tagrpo demo --folder 'a b'",)),
    ],
    title="A <title>",
)


def test_html_loads_nothing_and_holds_each_picture_twice() -> None:
    light, dark = {"shares": draw(CHART, ".svg").decode()}, {"shares": draw(darken(CHART), ".svg").decode()}
    text = render_html(DOCUMENT, light, dark)
    assert "<h1>A &lt;title&gt;</h1>" in text
    assert "<p>It is <strong>so</strong> &amp; <code>x&lt;y</code>.</p>" in text
    assert "<td class=word>a</td><td>1</td>" in text
    assert "<caption>Which?</caption>" in text
    assert "<pre>tagrpo demo --folder &#x27;a b&#x27;</pre>" in text
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(https?:)?//|@import|<script', text)
    assert text.count("<svg") == 2
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = re.findall(r"url\(#([^)]+)\)", text)
    assert set(used) <= set(ids)
    for svg in (light, dark):
        ElementTree.fromstring(svg["shares"])


def test_a_training_is_drawn_as_means_of_steps() -> None:
    steps = [{"tagrpo/correct/mean": step / 40, "tagrpo/zero/group/share": 0.25} for step in range(40)]
    spec = training_chart({"a": Trained(tuple(steps), 400), "b": Trained(tuple(steps[:5]), 400)})
    values = [
        row
        for layer in spec["concat"][0]["layer"]
        for row in (layer.get("data") or {}).get("values", [])
        if row.get("label") == "a" and "responses" in row
    ]
    drawn = {row["responses"]: row["value"] for row in values}
    assert drawn[20] == pytest.approx((0 + 1 + 2 + 3) / 4 / 40)
    assert max(drawn) == 380
    assert len(drawn) == 10


def test_the_page_has_the_colours_and_font_of_its_pictures() -> None:
    assert all(value in STYLE for value in (PAPER, DARK_PAPER, INK, MUTED, GRID, FONT))


def test_without_pictures_their_words_stand_there() -> None:
    assert 'aria-label="What it shows">What it shows</figure>' in render_html(DOCUMENT)
