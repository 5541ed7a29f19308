"""The page "Sets"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Sets", "Published neighbor sets: what is in them, and what changed.")
with reading() as session:
    pass
