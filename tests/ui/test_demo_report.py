"""The demo's report: the same blocks in both formats, both screens, and words that intervals allow."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from ui.charts.saving import draw
from ui.charts.theme import in_dark
from ui.demo_report.document import Commands, Page, Picture, Points, Section, Table, Text
from ui.demo_report.html import render_html
from ui.demo_report.markdown import render_markdown
from ui.demo_report.pictures import share_chart, training_chart, window
from ui.demo_report.words import joined, percent, points, span, verdict

CHART = share_chart(
    [
        {"label": "a & b", "share": 0.25, "low": 0.1, "high": 0.4},
        {"label": "c", "share": 1, "low": 0.9, "high": 1},
    ],
    title="Shares",
    subtitle="of what",
    x_title="share",
)
PAGE = Page(
    "A <title>",
    [Text("It is **so** & `x<y`.")],
    [
        Section("One", [Table(("name", "k|1"), (("a", "1"), ("b", "2"))), Points(("first", "`second`"))]),
        Section(
            "Two", [Picture("shares", "What it shows", CHART), Commands(("tagrpo demo --folder 'a b'",))]
        ),
    ],
)


def test_markdown_holds_every_block() -> None:
    text = render_markdown(PAGE, "pictures")
    assert text.startswith("# A <title>\n\nIt is **so** & `x<y`.\n\n## One\n\n")
    assert "| name | k\\|1 |\n| --- | ---: |\n| a | 1 |\n| b | 2 |" in text
    assert "- first\n- `second`" in text
    assert "![What it shows](pictures/shares.svg)" in text
    assert "```bash\ntagrpo demo --folder 'a b'\n```" in text


def test_html_loads_nothing_and_holds_each_picture_twice() -> None:
    light, dark = {"shares": draw(CHART, ".svg").decode()}, {"shares": draw(in_dark(CHART), ".svg").decode()}
    text = render_html(PAGE, light, dark)
    assert "<h1>A &lt;title&gt;</h1>" in text
    assert "<p>It is <strong>so</strong> &amp; <code>x&lt;y</code>.</p>" in text
    assert "<td>a</td><td>1</td>" in text
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
    spec = training_chart({"a": steps, "b": steps[:5]})
    values = [
        row
        for layer in spec["concat"][0]["layer"]
        for row in (layer.get("data") or {}).get("values", [])
        if row.get("label") == "a" and "step" in row
    ]
    assert window(40) == 4
    drawn = {row["step"]: row["value"] for row in values}
    assert drawn[2.5] == pytest.approx((0 + 1 + 2 + 3) / 4 / 40)
    assert max(drawn) == 38.5
    assert len(drawn) == 10


def test_numbers_are_said_with_their_intervals() -> None:
    assert (percent(0.1234), percent(None)) == ("12.3%", "-")
    assert (points(-0.0125), points(0.5)) == ("\N{MINUS SIGN}1.2", "+50.0")
    assert (span(0.1, 0.25), span(None, 0.2)) == ("[10.0, 25.0]", "-")
    assert span(-0.01, 0.02, signed=True) == "[\N{MINUS SIGN}1.0, +2.0]"
    assert (joined(["1"]), joined(["1", "8", "32"])) == ("1", "1, 8 and 32")


@dataclass(frozen=True)
class Span:
    low: float | None
    high: float | None


@dataclass(frozen=True)
class At:
    k: int
    interval: Span


@dataclass(frozen=True)
class Compared:
    points: list[At]


@dataclass(frozen=True)
class Part:
    comparison: Compared


@dataclass(frozen=True)
class Found:
    label_a: str
    label_b: str
    parts: list[Part]


def test_a_side_is_ahead_only_where_the_interval_leaves_zero_out() -> None:
    spans = {1: Span(-0.05, -0.01), 8: Span(0.01, 0.03), 16: Span(0.0, 0.03), 32: Span(None, None)}
    found = Found("x", "y", [Part(Compared([At(k, each) for k, each in spans.items()]))])
    assert verdict(found) == (  # type: ignore[arg-type]
        "**x** is ahead at k = 8; **y** is ahead at k = 1; the interval contains 0 at k = 16 and 32"
    )
    level = Found("x", "y", [Part(Compared([At(1, Span(-0.05, 0.01)), At(8, Span(None, None))]))])
    assert verdict(level) == "the intervals tell no difference at any k"  # type: ignore[arg-type]
