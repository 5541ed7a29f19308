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

_CELL = r"^# %% {}(?:: ?(\w+(?:, ?\w+)*))?[^\S\n]*(?:\n|\Z)"
_PROMPT, _TESTS = (re.compile(_CELL.format(name), re.MULTILINE) for name in ("prompt", "tests"))


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
    tests = _TESTS.search(text)
    if tests is None:
        return ProgramGold(text)
    cell = _PROMPT.search(text, 0, tests.start())
    prompt = text[cell.end() : tests.start()].removesuffix("\n") if cell else ""
    return ProgramGold(text[tests.end() :], tuple(re.findall(r"\w+", tests[1] or "")), prompt)
