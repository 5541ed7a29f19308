"""Files of JSON lines."""

import json
from pathlib import Path
from typing import Any


def write_rows(path: Path | str, *rows: Any) -> Path:
    """Write one row a line and return the path."""
    path = Path(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_rows(path: Path | str) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
