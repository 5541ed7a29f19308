"""Figures of the documentation: `speed` against named alternatives, `pages` in a browser, `studies` on data.

Run from the repository: `python -m benchmarks.speed.rollouts`. The last line of each is one JSON object.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
