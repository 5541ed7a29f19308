"""The page "Questions"."""

from ui.pages.questions.page import show

show()
