"""A model that answers questions which ask for programs: right, wrong or not at all, by the request's seed."""

import json
from pathlib import Path

ROWS = [
    {
        "prompt": 'def shout(text):\n    """Return the text in capitals, and a mark."""\n',
        "entry_point": "shout",
        "test": "def check(candidate):\n    assert candidate('no') == 'NO!'\n",
        "canonical_solution": "    return text.upper() + '!'\n",
    },
    {
        "prompt": "Write a function to add up the digits of a number.",
        "test_list": ["assert digits(123) == 6", "assert digits(0) == 0"],
        "code": "def digits(number):\n    return sum(map(int, str(number)))",
    },
]
PROGRAMS = {
    "shout": ("def shout(text):\n    return text.upper() + '!'", "def shout(text):\n    return text.upper()"),
    "digit": ("def digits(number):\n    return sum(map(int, str(number)))", "def digits(n):\n    return n % 10"),
}


def write_rows(folder: Path) -> Path:
    """Write the questions as a file."""
    path = folder / "programs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def respond(question: str, right: bool) -> str:
    """Return a response to a question, or to a wording of it."""
    name = next((name for name in PROGRAMS if name in question), None)
    if name is None:
        return "I cannot."
    return f"Here you are:\n```python\n{PROGRAMS[name][0 if right else 1]}\n```"
