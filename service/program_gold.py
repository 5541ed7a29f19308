"""The gold of a question that asks for a program: Python, in cells as editors know them (`# %%`).

    # %% prompt: shout
    def shout(text):
        '''Return the text in capitals.'''
    # %% tests: shout
    assert shout("a") == "A"

The cell of tests is all that is needed; a gold without any cell is tests.
"""

import re
from dataclasses import dataclass

_CELL = re.compile(r"# %% (prompt|tests)(?:: ?(\w+(?:, ?\w+)*))?\s*")


@dataclass(frozen=True)
class ProgramGold:
    """What a program is tested by.

    Attributes:
        tests: Python that is run against it, and raises where it is wrong.
        names: of the functions or classes that are asked for; none where nobody knows.
        prompt: Python that the question shows, up to where the program goes on; "" where it shows none.
    """

    tests: str
    names: tuple[str, ...] = ()
    prompt: str = ""

    @property
    def helpers(self) -> str:
        """What the prompt defines before the function asked for: imports, other functions."""
        if not self.names or not self.prompt:
            return ""
        start = re.search(
            rf"^(?:@.*\n)*(?:async )?(?:def|class) {self.names[0]}\b", self.prompt, re.MULTILINE
        )
        return self.prompt[: start.start()] if start else ""


def write_gold(gold: ProgramGold) -> str:
    """Return a gold as questions hold it."""
    titles = ": " + ", ".join(gold.names) if gold.names else ""
    cells = [f"# %% prompt{titles}", gold.prompt.strip("\n")] if gold.prompt.strip() else []
    return "\n".join([*cells, f"# %% tests{titles}", gold.tests.strip("\n")])


def read_gold(text: str) -> ProgramGold:
    """Return the gold that a question holds."""
    prompt: list[str] = []
    lines = text.split("\n")
    into: list[str] | None = None
    for number, line in enumerate(lines):
        cell = _CELL.fullmatch(line)
        if cell is None:
            if into is not None:
                into.append(line)
            continue
        if cell.group(1) == "tests":
            names = tuple(re.findall(r"\w+", cell.group(2) or ""))
            return ProgramGold("\n".join(lines[number + 1 :]), names, "\n".join(prompt))
        into = prompt
    return ProgramGold(text)
