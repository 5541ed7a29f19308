"""Importing what pages need before one is asked for, so that the first is as quick as the others."""

import ast
import gc
import importlib
from pathlib import Path

ALWAYS = (
    "pandas",
    "pyarrow",
    "altair",
    "streamlit.elements.vega_charts",
    "scipy.special",
)


def warm(folder: Path) -> None:
    """Import what the scripts of the pages in a folder import; where that fails, the page says so.

    What is there by then stays for as long as the server runs. Streamlit collects garbage after every run of
    a script, with all threads waiting: 100 ms where it looks through all modules, so they are left out.
    """
    for name in (*ALWAYS, *imported(folder)):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.collect()
    gc.freeze()


def imported(folder: Path) -> list[str]:
    """Return the modules that scripts import at their top, sorted."""
    names: set[str] = set()
    for path in folder.glob("*/view.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return sorted(names)
