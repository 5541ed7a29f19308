"""A version of a neighbor set: its numbers, statistics, verification and exports."""

import dataclasses
from collections.abc import Mapping, Sequence

import streamlit as st

from rephraser.sets.counts import RATE_DEFINITION, AcceptRate, accept_rates
from rephraser.sets.store import list_sets
from rephraser.sets.types import SetHeader
from rephraser.sets.verify import verify
from ui.charts.intervals import rate_dots
from ui.charts.stacked_bars import stacked_bars
from ui.charts.theme import PALETTE
from ui.pages.state import settings
from ui.pages.state.database import cached, reading
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.charts import cached_chart, show_chart
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


read_versions = cached(list_sets)

_RATES = [
    Column("strategy", "name"),
    Column("accepted", "accepted", "whole"),
    Column("judged", "judged", "whole"),
    Column("unverified", "unverified", "whole"),
    Column("rate", "acceptance rate, %", "share"),
    Column("low", "95% from, %", "share"),
    Column("high", "to, %", "share"),
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
    layout.numbers(
        [
            layout.Number("questions", f"{questions:,}", hint=f"{without:,} of them without a neighbor."),
            layout.Number("neighbors", f"{neighbors:,}", hint=f"{verdicts}." if verdicts else None),
            layout.Number(
                "per question",
                f"{neighbors / questions:.2f}" if questions else "-",
                "neighbors",
                "Mean number of neighbors.",
            ),
            layout.Number(
                "reviewed",
                f"{counts['reviewed']:,}",
                hint="Neighbors whose verdict comes from a reviewer.",
            ),
        ]
    )


def show_versions(headers: list[SetHeader], name: str) -> None:
    rows = [row(header) for header in reversed(headers) if header.name == name]
    page_table(rows, _VERSIONS, "versions", name="versions")


def row(header: SetHeader) -> dict[str, object]:
    return {
        "set": header.ref,
        "questions": header.counts["questions"],
        "neighbors": header.counts["neighbors"],
        "reviewed": header.counts["reviewed"],
        "tags": ", ".join(header.tags),
        "run": ", ".join(run["name"] for run in header.runs) or "imported",
        "published": header.created_at.replace("T", " ").removesuffix("Z"),
        "hash": header.content_hash,
    }


def show_statistics(header: SetHeader) -> None:
    proposals = header.counts.get("proposals", ())
    rates_by = {by: accept_rates(proposals, by) for by in ("strategy", "model")}
    if any(len(rates) > 1 for rates in rates_by.values()):
        for column, (by, rates) in zip(st.columns(2, gap="large"), rates_by.items(), strict=True):
            with column:
                _rates(rates, by)
    else:
        page_table([dataclasses.asdict(rate) for rate in rates_by["strategy"]], _RATES, "rates")
    _successes(header)
    if header.counts.get("proposals"):
        st.caption(escaped(f"Acceptance rate: {RATE_DEFINITION}."))
    sizes = sorted(header.counts["questions_by_neighbors"].items(), key=lambda entry: int(entry[0]))
    left, right = st.columns(2, gap="large")
    with left:
        named = {f"{size} neighbor{'' if size == '1' else 's'}": count for size, count in sizes}
        _bars(named, "questions", "Questions by number of neighbors", "questions-by-neighbors")
    with right:
        strategies = header.counts["neighbors_by_strategy"]
        _bars(strategies, "neighbors", "Neighbors by strategy", "neighbors-by-strategy")


def _rates(rates: Sequence[AcceptRate], by: str) -> None:
    drawn = [rate for rate in rates if rate.rate is not None]
    if not drawn:
        if by == "strategy":
            st.caption("No acceptance rates, because the version was imported or no answers were compared.")
        return
    show_chart(
        cached_chart(
            rate_dots,
            [{"name": rate.strategy, **dataclasses.asdict(rate)} for rate in drawn],
            rate="rate",
            title=f"Acceptance rate by {by}",
            x_title="accepted share of judged candidates; bars: 95% interval",
            colour=PALETTE[2],
        ),
        f"accept-rates-by-{by}",
        f"rates-{by}",
        rows=[dataclasses.asdict(rate) for rate in rates],
    )
    with layout.folded("Numbers"):
        page_table(
            [dataclasses.asdict(rate) for rate in rates],
            _RATES,
            f"rates-{by}-table",
            name=f"accept-rates-by-{by}",
        )


def _successes(header: SetHeader) -> None:
    """Show the difficulty of neighbors compared with their questions, measured by the solvers."""
    known = header.counts.get("successes")
    if not known:
        return
    layout.numbers(
        [
            layout.Number(
                "solved neighbors",
                f"{known['neighbor_rate']:.1%}",
                hint=f"Mean share of correct answers on {known['neighbors']:,} neighbors, by "
                f"{', '.join(known['solvers'])}.",
            ),
            layout.Number("their questions", f"{known['question_rate']:.1%}"),
            *(
                layout.Number(name, f"{count:,}", hint=_DIFFICULTY)
                for name, count in known["difficulty"].items()
            ),
        ]
    )


def _bars(counts: Mapping[str, int], unit: str, title: str, name: str) -> None:
    rows = [{"name": bar, "part": unit, "count": count} for bar, count in counts.items()]
    if rows:
        chart = cached_chart(stacked_bars, rows, title=title, colours={unit: PALETTE[0]}, unit=unit)
        show_chart(chart, name, name, rows=rows)


def show_using(header: SetHeader) -> None:
    layout.section(
        "Verify",
        "Recomputes the hash, id, counts and text ids from the set's content and compares them with the "
        "published values.",
    )
    if st.button("Verify now", icon=":material/verified:", key="verify"):
        with st.spinner("Recomputing"), reading() as session:
            report = verify(session, header.id)
        if report.ok:
            words = f"{header.ref} matches its published content. All recomputed values are equal."
            st.success(escaped(words), icon=":material/verified:")
        else:
            layout.error_box(f"{header.ref} differs from its published content.", " ".join(report.problems))
    st.caption("Content hash, equal for equal content on every machine, and id of this version")
    st.code(f"{header.content_hash}\n{header.id}", language=None, wrap_lines=True)
    layout.section("Export", "Export the full content, or training files for verl.")
    for words, command in commands(header):
        st.caption(escaped(words))
        st.code(command, language=None, wrap_lines=True)
    with layout.folded("Provenance", icon=":material/receipt_long:"):
        st.json(header.spec, expanded=2)


def commands(header: SetHeader) -> list[tuple[str, str]]:
    folder, ref = f"{header.name}-{header.version}", header.ref
    words = (
        ("Training files for verl", f"sets export {ref} --format verl --out {folder}-verl"),
        ("A Hugging Face dataset with its card", f"sets export {ref} --format hf --out {folder}"),
        ("One file", f"sets export {ref} --format parquet --out {folder}.parquet"),
        ("Verify on the command line", f"sets show {ref} --verify"),
    )
    return [(what, settings.command(command)) for what, command in words]
