"""The page "Training signal"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Training signal", "How much of what is sampled teaches anything.")
with reading() as session:
    pass
