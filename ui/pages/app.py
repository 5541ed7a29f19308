"""The script that Streamlit runs: list the pages, then run the one in the address."""

import base64
import sys
from pathlib import Path

import streamlit as st

from ui.pages.server.serving import spare_modules
from ui.pages.state import links, settings
from ui.pages.state.links import PAGES
from ui.pages.text.markup import escaped


def _picture(name: str) -> str:
    """Return a picture as an address that contains it; for a file, Streamlit would load Pillow (5 MB)."""
    content = base64.b64encode(Path(__file__).with_name(name).read_bytes()).decode()
    return f"data:image/png;base64,{content}"


SIGN_OUT = '<a href="/logout" target="_self" style="font-size: 0.875rem; color: inherit">Sign out</a>'

st.set_page_config(
    page_title="tagrpo", page_icon=_picture("icon.png"), layout="wide", initial_sidebar_state=230
)
st.logo(_picture("logo.png"), icon_image=_picture("icon.png"))
chosen = st.navigation(
    [
        st.Page(links.page_file(name), title=title, icon=icon, url_path=name, default=name == "overview")
        for name, title, icon in PAGES
    ],
    position="sidebar",
)
now = settings.current()
with st.sidebar:
    mode = "reviews enabled" if now.review else "read only"
    st.caption(f"{escaped('shipped demo' if now.shipped else now.place_name)}, {escaped(mode)}")
    if now.signing_in:
        st.html(SIGN_OUT)  # safe: a constant
if now.shipped:
    st.caption(f":blue-badge[shipped demo] {escaped(now.shipped)}")
chosen.run()
spare_modules(len(sys.modules))
