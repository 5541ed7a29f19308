"""Verifying a version, and the commands that take it elsewhere."""

import streamlit as st

from rephraser.sets.types import SetHeader
from rephraser.sets.verify import VerifyReport, verify
from ui.pages.state import settings
from ui.pages.state.database import reading
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout


def show_using(header: SetHeader) -> None:
    """Show how to check and use a version."""
    layout.section(
        "Verify",
        "Hash, id, counts and the ids of all texts are derived again from the members, and compared with "
        "what was published.",
    )
    if st.button("Verify now", icon=":material/verified:", key="verify"):
        with st.spinner("Deriving everything again"), reading() as session:
            _show(verify(session, header.id))
    st.caption("Content hash, the same wherever the same members are published; id of this version")
    st.code(f"{header.content_hash}\n{header.id}", language=None, wrap_lines=True)
    layout.section("Export", "Everything in it, or the files that training with verl reads.")
    for words, command in commands(header):
        st.caption(escaped(words))
        st.code(command, language=None, wrap_lines=True)
    with layout.folded("What made it", icon=":material/receipt_long:"):
        st.json(header.spec, expanded=2)


def commands(header: SetHeader) -> list[tuple[str, str]]:
    """Return what can be done with a version: words, and the command of it."""
    folder, ref = f"{header.name}-{header.version}", header.ref
    words = (
        ("Training files for verl", f"sets export {ref} --format verl --out {folder}-verl"),
        ("A Hugging Face data set with its card", f"sets export {ref} --format hf --out {folder}"),
        ("One file", f"sets export {ref} --format parquet --out {folder}.parquet"),
        ("Verify on the command line", f"sets verify {ref}"),
    )
    return [(what, settings.command(command)) for what, command in words]


def _show(report: VerifyReport) -> None:
    if report.ok:
        st.success(
            escaped(f"{report.header.ref} is what was published: everything derived again is the same."),
            icon=":material/verified:",
        )
    else:
        layout.error_box(f"{report.header.ref} is not what was published.", " ".join(report.problems))
