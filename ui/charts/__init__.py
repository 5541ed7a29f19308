"""Charts: plain Altair functions from rows to a chart, shared by the command line and the UI."""

from service.errors import PrerequisiteError

try:
    from altair.utils import schemapi
except ImportError as error:
    raise PrerequisiteError("charts need altair. Install it with `pip install 'tagrpo[ui]'`.") from error

schemapi.disable_debug_mode()  # `to_dict()` checks the whole chart; checking every part too takes as long
