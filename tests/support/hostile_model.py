"""A tiny chat model whose tokens are whole responses: right, hostile, a million characters long, or empty.

A random model never says such things. This one draws its tokens with known probabilities, whatever it
is asked, so that hostile texts take the way of every other response through verl: tokens from the rollout,
decoded by verl's reward worker, graded, recorded.
"""

import math
from pathlib import Path

from tiny_model import SPECIAL_TOKENS, byte_tokenizer, tiny_qwen

GOLD = "4"
"""The answer to every question that this model is to be asked."""

ANSWER = r"It is \boxed{4}. "
HALF = r"So \boxed{2"
"""A response that was cut while it said its answer."""

TOWER = r"\boxed{\int_0^{9} e^{x^{x^x}} dx}"
"""An answer that no algebra settles in time."""

NESTED = r"\boxed{" + r"\frac{" * 166_667
"""A million characters, as deep as they are long."""

BYTES = b"\x00\xff\xfe\xed\xa0\x80\x1b[2J \\boxed{\xc3}"
"""A null, a lone surrogate, what is no UTF-8, and a terminal's control code."""

PROBABILITIES = {ANSWER: 0.26, HALF: 0.08, TOWER: 0.05, NESTED: 0.08, BYTES: 0.08}
"""Of the tokens; the rest ends the response."""

EMPTY = 1 - sum(PROBABILITIES.values())


def save_hostile_model(folder: Path) -> Path:
    """Save the model with its tokenizer, which has one token a byte and one for each text above."""
    import torch

    texts = {_spelled(text): share for text, share in PROBABILITIES.items()}
    pieces = [*SPECIAL_TOKENS, *sorted(_letters()), *texts]
    byte_tokenizer(pieces).save_pretrained(folder)
    end, width = SPECIAL_TOKENS.index("<|im_end|>"), 48
    model = tiny_qwen(len(pieces), width, tie_word_embeddings=False)
    logits = torch.full((len(pieces),), -30.0)
    logits[end] = math.log(EMPTY)
    for piece, share in texts.items():
        logits[pieces.index(piece)] = math.log(share)
    with torch.no_grad():
        # The first of the model's dimensions is large in every embedding and so the same in every last state.
        model.get_input_embeddings().weight[:, 0] = 10.0
        model.get_output_embeddings().weight[:, 0] = logits / math.sqrt(width)
    model.save_pretrained(folder)
    return folder


def decoded(text: str | bytes) -> str:
    """Return what a tokenizer makes of a text or of bytes."""
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def _spelled(text: str | bytes) -> str:
    letters = _letters()
    return "".join(letters[byte] for byte in (text.encode() if isinstance(text, str) else text))


def _letters() -> list[str]:
    """Return the letter that byte-level vocabularies write for each byte, as GPT-2 began it."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]
