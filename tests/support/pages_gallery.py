"""A Streamlit script that shows every text of a JSON file in every way the pages know."""

import json
import os
from pathlib import Path

import altair as alt
import streamlit as st

from ui.charts.building import apply_theme
from ui.charts.theme import PALETTE
from ui.pages.state import links
from ui.pages.text.differences import LEGEND, compare, show_difference
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import layout
from ui.pages.widgets.charts import show_chart
from ui.pages.widgets.tables import Column, page_table

texts = json.loads(Path(os.environ["GALLERY_TEXTS"]).read_text(encoding="utf-8"))

layout.title("Gallery", "Every text in every way.")
layout.numbers(("questions", "12,345", "all of them"), *((text[:300],) * 3 for text in texts[:12]))
with layout.row():
    for verdict in layout.VERDICTS:
        layout.verdict_chip(verdict)
    for grade in layout.GRADES:
        layout.grade_chip(grade)
    layout.chip(texts[0][:60])
search = st.text_input("Search", **links.bind("q", lambda: links.text("q")))
st.markdown(f"Searched: {escaped(search)}")
layout.section(texts[0], texts[0])
for place, text in enumerate(texts):
    with layout.card():
        show_math_text(text, f"math{place}")
        with st.expander(escaped(text[:80])):
            show_text(text, f"text{place}")
st.markdown(LEGEND)
left, right = st.columns(2)
for place in range(0, len(texts) - 1, 2):
    difference = compare(texts[place], texts[place + 1])
    with left:
        show_difference(difference.original, f"original{place}")
    with right:
        show_difference(difference.neighbor, f"neighbor{place}")
rows = [{"text": text, "length": len(text), "share": 0.125, "usd": 1.5} for text in texts]
columns = [Column("text", "text"), Column("length", "characters", "whole")]
columns += [Column("share", "share", "share"), Column("usd", "cost", "usd")]
page_table(rows, columns, "table", name="texts", on_choose=lambda place: None)
values = [{"k": 2**i, "value": 0.2 + i * 0.1, "run": run} for i in range(6) for run in ("a", "b")]
runs = alt.Color("run:N", scale=alt.Scale(range=list(PALETTE[:2])), legend=None)
log = alt.X("k:Q", scale=alt.Scale(type="log", base=2))
chart = alt.Chart(alt.Data(values=values), title="A chart").mark_line().encode(x=log, y="value:Q", color=runs)
show_chart(apply_theme(chart).to_dict(), "chart", "chart", rows=values)
layout.empty_state("Nothing here yet.", "Do this:", commands=("tagrpo questions list",))
