"""Files of JSON lines."""

import json
from pathlib import Path
from typing import Any


def write_rows(path: Path, *rows: Any) -> Path:
    """Write one row a line and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
