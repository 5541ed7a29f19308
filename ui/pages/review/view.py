"""The page "Review"."""

from ui.pages.review.page import show

show()
