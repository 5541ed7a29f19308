"""The page "Overview"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Overview", "What is in the database, and what runs now.")
with reading() as session:
    pass
