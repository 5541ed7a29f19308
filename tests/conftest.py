"""Makes the helpers in tests/support importable by name (`from openai_server import OpenAIServer`).

They are no package: some distributions install a top-level `tests`, which would hide ours.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
