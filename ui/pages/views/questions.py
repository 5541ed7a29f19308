"""The page "Questions"."""

from ui.pages.questions_parts.page import show

show()
