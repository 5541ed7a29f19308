"""The page "Review"."""

from ui.pages.review_queue.page import show

show()
