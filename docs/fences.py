"""A hook of mkdocs: rewrite the first lines of fenced blocks, which mkdocs does not read otherwise.

The word after a language is for tests/ui/test_docs.py: `no-run`, `output`, or the name of a file.
"""

import re
from typing import Any

_FENCE = re.compile(r"^```(\w+) (\S+)$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with file names as titles of their blocks, and without the other words."""
    return _FENCE.sub(
        lambda fence: f"```{fence[1]}" + (f' title="{fence[2]}"' if "." in fence[2] else ""), markdown
    )
