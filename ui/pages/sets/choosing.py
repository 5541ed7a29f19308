"""Choice of a version: set names, the versions of the chosen one, and its numbers."""

import streamlit as st

from rephraser.sets.store import list_sets
from rephraser.sets.types import SetHeader
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent
from ui.pages.widgets.tables import Column, page_table

_COLUMNS = [
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


def choose_version(headers: list[SetHeader]) -> SetHeader:
    """Show the choice of a version, the newest one by default."""
    ordered = sorted(headers, key=lambda header: (header.name, -header.version))
    by_ref = {header.ref: header for header in ordered}
    chosen = choose(
        st.selectbox,
        "Version",
        "set",
        list(by_ref),
        max(headers, key=lambda header: (header.created_at, header.version)).ref,
        resets=["against", "after", "neighbor"],
        pinned=True,
        width=320,
    )
    note_absent("set", list(by_ref), "set", chosen)
    return by_ref[chosen]


def show_numbers(header: SetHeader) -> None:
    """Show the numbers of a version."""
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
    """Show the versions of a name, newest first; a single one as a line."""
    rows = [row(header) for header in reversed(headers) if header.name == name]
    if len(rows) == 1:
        only = rows[0]
        tags = f", tagged {only['tags']}" if only["tags"] else ""
        st.caption(
            escaped(
                f"Only version: from run {only['run']}, published {only['published']} UTC{tags}. Content "
                f"hash {str(only['hash'])[:16]}…"
            )
        )
        return
    page_table(rows, _COLUMNS, "versions", name="versions")


def row(header: SetHeader) -> dict[str, object]:
    """Return a version as a row."""
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
