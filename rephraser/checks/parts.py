"""Parts that a candidate must keep: figure code, images and answer options."""

import re

from rephraser.checks.finding import Finding
from rephraser.checks.reading import FIGURE
from service.questions.images import PLACEHOLDER, count_placeholders

_OPTION = re.compile(
    r"\\(?:textbf|mathbf|text|mathrm|mathsf)\s*\{\s*(?:\(\s*([A-H])\s*\)?|([A-H])\s*[).:])\s*\}|\(([A-H])\)|"
    r"(?:^|(?<=\s))([A-H])[.):](?=\s)",
    re.MULTILINE,
)


def check_figures(original: str, candidate: str) -> list[Finding]:
    """Return finding figure_missing."""
    before, after = (sum(1 for _ in FIGURE.finditer(text)) for text in (original, candidate))
    if after < before:
        return [Finding("figure_missing", f"{before - after} of {before} figures are missing")]
    return []


def check_images(original: str, candidate: str) -> list[Finding]:
    """Return findings image_missing and image_added. Swapped images are not seen."""
    before, after = count_placeholders(original), count_placeholders(candidate)
    if after == before:
        return []
    name = "image_missing" if after < before else "image_added"
    return [Finding(name, f"{after} {PLACEHOLDER} for {before} of the original")]


def options_of(text: str) -> str:
    """Return the letters of the answer options: the longest run from A that is certainly a list.

    Two of "A." may end sentences about a point A; three in a row, or two of "(A)", are options.
    """
    best, run, in_brackets = "", "", False
    for match in _OPTION.finditer(FIGURE.sub(" ", text)):
        letter = match[match.lastindex or 0]
        run = run + letter if letter == chr(ord("A") + len(run)) else "A" * (letter == "A")
        if len(run) > len(best):
            best, in_brackets = run, match.lastindex != 4
    return best if len(best) >= (2 if in_brackets else 3) else ""


def check_options(original: str, candidate: str) -> list[Finding]:
    """Return finding options_missing."""
    missing = options_of(original).removeprefix(options_of(candidate))
    if missing:
        return [Finding("options_missing", f"the answer options {', '.join(missing)} are missing")]
    return []
