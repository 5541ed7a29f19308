"""A version of a neighbor set: its numbers, statistics, verification and exports."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from rephraser.sets.store import RATE_DEFINITION, accept_rates, verify
from rephraser.sets.types import SetHeader
from ui.charts.intervals import rate_dots
from ui.charts.stacked_bars import stacked_bars
from ui.charts.theme import PALETTE
from ui.pages.state import settings
from ui.pages.state.database import reading
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.charts import draw_chart
from ui.pages.widgets.choices import choose, note_absent
from ui.pages.widgets.tables import Column, page_table

_VERSIONS = [
    Column("set", "version"),
    Column("questions", "questions", "whole"),
    Column("neighbors", "neighbors", "whole"),
    Column("reviewed", "reviewed", "whole", hint="Neighbors whose verdict comes from a reviewer."),
    Column("tags", "tags"),
    Column("run", "from run"),
    Column("published", "published (UTC)"),
    Column("hash", "content hash"),
]

_RATES = [
    Column("strategy", "name"),
    Column("accepted", "accepted", "whole"),
    Column("judged", "judged", "whole"),
    Column("unverified", "unverified", "whole"),
    Column("rate", "acceptance rate", "share"),
    Column("low", "95% from", "share"),
    Column("high", "to", "share"),
]
_DIFFICULTY = "Compared with the question; level: the rates differ by at most one standard error."


def choose_version(headers: list[SetHeader]) -> SetHeader:
    ordered = sorted(headers, key=lambda header: (header.name, -header.version))
    by_ref = {header.ref: header for header in ordered}
    chosen = choose(
        st.selectbox,
        "Version",
        "set",
        list(by_ref),
        max(headers, key=lambda header: (header.created_at, header.version)).ref,
        resets=["against", "after", "neighbor"],
        width=320,
    )
    note_absent("set", list(by_ref), "set", chosen)
    return by_ref[chosen]


def show_numbers(header: SetHeader) -> None:
    counts = header.counts
    questions, neighbors = counts["questions"], counts["neighbors"]
    without = int(counts["questions_by_neighbors"].get("0", 0))
    verdicts = ", ".join(
        f"{count:,} {name}" for name, count in counts["neighbors_by_verdict"].items() if count
    )
    mean = f"{neighbors / questions:.2f}" if questions else "-"
    layout.numbers(
        ("questions", f"{questions:,}", f"{without:,} of them without a neighbor."),
        ("neighbors", f"{neighbors:,}", f"{verdicts}." if verdicts else ""),
        ("per question", f"{mean} neighbors", "Mean number of neighbors."),
        ("reviewed", f"{counts['reviewed']:,}", "Neighbors whose verdict comes from a reviewer."),
    )


def show_versions(headers: list[SetHeader], name: str) -> None:
    rows = [
        {
            **header.counts,
            "set": header.ref,
            "tags": ", ".join(header.tags),
            "run": ", ".join(run["name"] for run in header.runs) or "imported",
            "published": header.created_at.replace("T", " ").removesuffix("Z"),
            "hash": header.content_hash,
        }
        for header in reversed(headers)
        if header.name == name
    ]
    page_table(rows, _VERSIONS, "versions", name="versions")


def show_statistics(header: SetHeader) -> None:
    proposals = header.counts.get("proposals", ())
    rates = {by: accept_rates(proposals, by) for by in ("strategy", "model")}
    if any(len(each) > 1 for each in rates.values()):
        for by in layout.in_columns(list(rates), gap="large"):
            _rates(rates[by], by)
    else:
        page_table(rates["strategy"], _RATES, "rates")
    if known := header.counts.get("successes"):  # difficulty compared with the questions, by the solvers
        solvers = ", ".join(known["solvers"])
        of = f"Mean share of correct answers on {known['neighbors']:,} neighbors, by {solvers}."
        layout.numbers(
            ("solved neighbors", f"{known['neighbor_rate']:.1%}", of),
            ("their questions", f"{known['question_rate']:.1%}"),
            *((name, f"{count:,}", _DIFFICULTY) for name, count in known["difficulty"].items()),
        )
    if proposals:
        layout.caption(f"Acceptance rate: {RATE_DEFINITION}.")
    sizes = sorted(header.counts["questions_by_neighbors"].items(), key=lambda entry: int(entry[0]))
    named = {f"{size} neighbor{'' if size == '1' else 's'}": count for size, count in sizes}
    bars = {"questions by number of neighbors": named}
    bars |= {"neighbors by strategy": header.counts["neighbors_by_strategy"]}
    for title in layout.in_columns([title for title, counts in bars.items() if counts], gap="large"):
        unit, key = title.split()[0], title.replace(" ", "-")
        rows = [{"name": name, "part": unit, "count": count} for name, count in bars[title].items()]
        look: dict[str, Any] = {"colours": {unit: PALETTE[0]}, "unit": unit}
        draw_chart(stacked_bars, rows, key, key, title=title.capitalize(), **look)


def _rates(rates: Sequence[dict[str, Any]], by: str) -> None:
    rows = [{**rate, "name": rate["strategy"]} for rate in rates]
    if not any(row["rate"] is not None for row in rows):
        if by == "strategy":
            st.caption("No acceptance rates, because the version was imported or no answers were compared.")
        return
    draw_chart(
        rate_dots,
        [row for row in rows if row["rate"] is not None],
        f"accept-rates-by-{by}",
        f"rates-{by}",
        rate="rate",
        title=f"Acceptance rate by {by}",
        x_title="accepted share; bars: 95% interval",
        colour=PALETTE[2],
    )
    key = f"rates-{by}-table"
    layout.folded(
        "Numbers", f"{key}-open", lambda: page_table(rows, _RATES, key, name=f"accept-rates-by-{by}")
    )


def show_using(header: SetHeader) -> None:
    layout.section(
        "Verify",
        "Recomputes the hash, id, counts and text ids from the set's content and compares them with the "
        "published values.",
    )
    if st.button("Verify now", icon=":material/verified:", key="verify"):
        with st.spinner("Recomputing"), reading() as session:
            report = verify(session, header.id)
        if not report.problems:
            words = f"{header.ref} matches its published content. All recomputed values are equal."
            st.success(escaped(words), icon=":material/verified:")
        else:
            layout.error_box(f"{header.ref} differs from its published content.", " ".join(report.problems))
    st.caption("Content hash, equal for equal content on every machine, and id of this version")
    st.code(f"{header.content_hash}\n{header.id}", language=None, wrap_lines=True)
    layout.section("Export", "Export the full content, or training files for verl.")
    folder, ref = f"{header.name}-{header.version}", header.ref
    for words, command in (
        ("Training files for verl", f"sets export {ref} --format verl --out {folder}-verl"),
        ("A Hugging Face dataset with its card", f"sets export {ref} --format hf --out {folder}"),
        ("One file", f"sets export {ref} --format parquet --out {folder}.parquet"),
        ("Verify on the command line", f"sets show {ref} --verify"),
    ):
        layout.caption(words)
        st.code(settings.command(command), language=None, wrap_lines=True)
    provenance = partial(st.json, header.spec, expanded=2)
    layout.folded("Provenance", "provenance", provenance, icon=":material/receipt_long:")
