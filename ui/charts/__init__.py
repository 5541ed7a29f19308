"""Charts: plain Altair functions from rows to a chart, shared by the command line and the UI."""

from service.errors import PrerequisiteError

try:
    import altair  # noqa: F401
except ImportError as error:
    raise PrerequisiteError("charts need altair. Install it with `pip install 'tagrpo[ui]'`.") from error
