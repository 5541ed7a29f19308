"""Charts: plain Altair functions from rows to a chart, shared by the command line and the UI."""

from service.errors import missing_extra

try:
    import altair
except ImportError as error:
    raise missing_extra("charts need altair", "ui") from error

# `to_dict()` checks the whole chart; checking every part as well takes as long.
altair.utils.schemapi.disable_debug_mode()
