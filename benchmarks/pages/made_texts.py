"""Texts of a large database for measuring pages: prose about arithmetic, responses of models, from a seed."""

import math
import random
import re
from dataclasses import dataclass

import zstandard

from service.database.base import ZSTD_LEVEL

WORDS = re.findall(
    "[a-z]+",
    """the sum product remainder area triangle number ways second term side value total cost ratio slope line
    digit coefficient result equation largest factor angle circle square root integer divisor prime multiple
    sequence polynomial therefore we obtain simplify substitute multiply divide subtract add both consider let
    denote that this equals so hence now recall from which follows note case first each between distance speed
    hours minutes workers students meters tank fraction percent average median set subset order edge diagonal
    chord tangent height base volume cylinder plane axis origin focus function domain limit bound since""",
)


@dataclass
class Texts:
    """Generated prose about arithmetic with formulas, and compressed responses to draw from."""

    chance: random.Random

    def prose(self, shortest: int, longest: int) -> str:
        """Return sentences of about so many characters."""
        wanted = self.chance.randint(shortest, longest)
        parts: list[str] = []
        length = 0
        while length < wanted:
            words = self.chance.choices(WORDS, k=self.chance.randint(6, 14))
            a, b = self.chance.randint(2, 999), self.chance.randint(2, 99)
            words.insert(
                len(words) // 2, self.chance.choice((f"${a}x + {b} = 0$", f"$\\frac{{{a}}}{{{b}}}$", str(a)))
            )
            parts.append(" ".join(words).capitalize() + ".")
            length += len(parts[-1]) + 1
        return " ".join(parts)

    def responses(self, count: int, shortest: int, longest: int) -> list[bytes]:
        """Return compressed responses; lengths are spread as those of models, many short and few long."""
        compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
        found = []
        for _ in range(count):
            length = min(longest, int(shortest * math.exp(abs(self.chance.gauss(0, 0.8)))))
            text = f"{self.prose(length, length + 100)} So it is \\boxed{{{self.chance.randint(0, 99)}}}."
            found.append(compress(text.encode()))
        return found
