"""Verification of a version, and the commands that export it."""

import streamlit as st

from rephraser.sets.types import SetHeader
from rephraser.sets.verify import verify
from ui.pages.state import settings
from ui.pages.state.database import reading
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout


def show_using(header: SetHeader) -> None:
    """Show how to verify and use a version."""
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
    """Return the uses of a version, each with its command."""
    folder, ref = f"{header.name}-{header.version}", header.ref
    words = (
        ("Training files for verl", f"sets export {ref} --format verl --out {folder}-verl"),
        ("A Hugging Face dataset with its card", f"sets export {ref} --format hf --out {folder}"),
        ("One file", f"sets export {ref} --format parquet --out {folder}.parquet"),
        ("Verify on the command line", f"sets show {ref} --verify"),
    )
    return [(what, settings.command(command)) for what, command in words]
