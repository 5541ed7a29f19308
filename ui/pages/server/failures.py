"""What a page shows and a terminal says when a page fails: no trace on the page, no data in the log."""

import logging
import sys
import traceback

from service.errors import TagrpoError

_STREAMLITS_LOGGER = "streamlit.error_util"


def show_failure(error: Exception) -> bool:
    """Show an error on the page it happened on; say that it has been shown.

    An error of ours says itself where, what and how to go on. Anything else is a bug: its frames, without the
    message, which may quote a text, are printed for whoever runs the server.
    """
    from ui.pages.widgets import layout

    if isinstance(error, TagrpoError):
        layout.error_box("This page cannot be shown.", str(error))
        return True
    layout.error_box(
        "Something went wrong on this page.",
        f"{type(error).__name__}. Reload it, or go on with another page; the terminal that runs the server "
        "says where it happened.",
    )
    frames = "".join(traceback.format_tb(error.__traceback__)[-6:])
    print(f"a page failed ({type(error).__name__}):\n{frames}", file=sys.stderr, end="", flush=True)
    return True


def keep_messages_out_of_the_log() -> None:
    """Stop Streamlit from logging the same error with its message."""
    logging.getLogger(_STREAMLITS_LOGGER).addFilter(lambda record: record.exc_info is None)
