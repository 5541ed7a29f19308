"""The page "Curves"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Curves", "pass@k of any evaluation runs, and the problems behind every point.")
with reading() as session:
    pass
