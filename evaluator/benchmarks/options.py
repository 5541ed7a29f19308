"""Multiple-choice questions: options in a shuffled order, written into the text with letters."""

from collections.abc import Sequence

from service.hashing import content_hash

LETTERS = "ABCDEFGHIJ"


def render_options(question: str, options: Sequence[str], seed: int) -> tuple[str, str]:
    """Return the question's text with its options as (A), (B), ..., and the letter of the right one.

    `options` holds the right option first. The order depends on the seed, the question and the options, not
    on the row's place, so that other copies of the same question are shuffled alike.

    Raises:
        ValueError: fewer than two options or more than ten.
    """
    if not 2 <= len(options) <= len(LETTERS):
        raise ValueError(f"{len(options)} options; a choice has 2 to {len(LETTERS)}")
    keys = [
        content_hash("option-order", [seed, question, list(options), place]) for place in range(len(options))
    ]
    order = sorted(range(len(options)), key=keys.__getitem__)
    lines = [f"({letter}) {options[place]}" for letter, place in zip(LETTERS, order, strict=False)]
    return "\n".join([question, "", *lines]), LETTERS[order.index(0)]
