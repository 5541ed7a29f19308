"""The page "Rollouts"."""

from ui.pages.kit import layout
from ui.pages.kit.database import reading

layout.title("Rollouts", "What training drew, question by question and step by step.")
with reading() as session:
    pass
