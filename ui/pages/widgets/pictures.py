"""Images of a question on a page: loaded from the database, limited in number and size."""

from collections.abc import Sequence

import streamlit as st

from service.questions.images import load_images
from ui.pages.state.database import fetch
from ui.pages.widgets import layout

MOST_PICTURES = 8
MOST_BYTES, MOST_PIXELS = 4_000_000, 12_000_000
"""Maximum bytes of a picture; a larger one is only named, since drawing it takes the server's time."""
SIDE = 360
"""Maximum width and height of a picture on the page, in pixels; a smaller one keeps its size."""
CAPTION = 180
"""Minimum width of a caption, in pixels."""


def show_pictures(ids: Sequence[str]) -> None:
    """Show images in the order in which the text refers to them, with number, format and size."""
    if not ids:
        return
    first = tuple(ids[:MOST_PICTURES])
    by_id = fetch(load_images, first)
    images = [by_id[id] for id in first]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        for number, image in enumerate(images, start=1):
            words = f"image {number}: {image}"
            if len(image.data) > MOST_BYTES or image.width * image.height > MOST_PIXELS:
                layout.caption(f"{words}, too large to show here")
                continue
            width = max(1, int(image.width * min(1, SIDE / image.width, SIDE / image.height)))
            with st.container(width=max(width, CAPTION), gap="xxsmall"):
                st.image(image.data, width=width)
                layout.caption(words)
    if len(ids) > len(images):
        layout.caption(f"and {len(ids) - len(images)} more images")
