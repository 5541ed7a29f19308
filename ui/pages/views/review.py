"""The page "Review"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Review", "Decide on neighbors by keyboard.")
with reading() as session:
    pass
