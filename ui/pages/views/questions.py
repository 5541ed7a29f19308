"""The page "Questions"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title(
    "Questions", "Questions with their neighbors side by side, and the evidence behind every verdict."
)
with reading() as session:
    pass
