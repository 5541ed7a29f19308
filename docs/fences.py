"""What mkdocs is told of the fenced blocks of these pages.

The words behind a language are for tests/ui/test_docs.py: `no-run`, or the file that the reader writes.
mkdocs takes no line with them for the start of a block.
"""

import re
from typing import Any

_FENCE = re.compile(r"^```(\w+) (\S+)$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with file names as titles of their blocks, and without `no-run`."""
    return _FENCE.sub(
        lambda fence: f"```{fence[1]}" + ("" if fence[2] == "no-run" else f' title="{fence[2]}"'), markdown
    )
