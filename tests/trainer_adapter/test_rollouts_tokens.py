"""Log-ratios of single tokens: places of tokens in texts, and in the record."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from trainer_adapter.record.rollout import TokenLengths, TokenRatios, token_ratios_text

TEXTS = (
    "So 12 + 30 = 42.",
    "\\boxed{\\frac{1}{2}}  two  spaces\n\n\ttab",
    "Größe ≈ 3½ · 10⁻³, 答案是四十二",
    "👩‍👩‍👧 and e\u0301 and \u202e",
    " a space first",
    "",
)


Encoder = Callable[[str], list[int]]
Decoder = Callable[[list[int]], str]


def letter(encode: Encoder) -> int:
    return encode("A")[-2]  # the end is behind it


def byte_level() -> tuple[Encoder, Decoder]:
    """Return an encoder of bytes with a few merges, as Qwen and Llama 3 have it, with its decoder."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["So 12 + 30 = 42. and and spaces spaces"], trainer)
    return lambda text: [*tokenizer.encode(text).ids, 0], tokenizer.decode


def sentence_piece() -> tuple[Encoder, Decoder]:
    """Return what Llama 2 has: runs of spaces as tokens, bytes for what is unknown, a first space dropped."""
    pieces = ["▁", "▁▁", "▁▁▁", "▁So", "▁12", "▁+", "▁30", "▁=", "▁42", ".", "▁b", "a", "x", ":", "b", "A"]
    vocabulary = ["<end>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    merges = [("▁", "▁"), ("▁▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE({piece: at for at, piece in enumerate(vocabulary)}, merges, byte_fallback=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<end>"])
    known = {piece: at for at, piece in enumerate(vocabulary)}

    def encode(text: str) -> list[int]:
        marked, ids = "▁" + text.replace(" ", "▁"), []
        while marked:
            longest = max((piece for piece in pieces if marked.startswith(piece)), key=len, default="")
            ids += [known[longest]] if longest else [known[f"<0x{b:02X}>"] for b in marked[0].encode()]
            marked = marked[len(longest) or 1 :]
        return [*ids, 0]

    return encode, tokenizer.decode


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_each_token_has_its_stretch_of_the_text(
    make: Callable[[], tuple[Encoder, Decoder]], text: str
) -> None:
    encode, decode = make()
    ids = encode(text)
    assert decode(ids) == text
    lengths = TokenLengths(decode, letter(encode)).of(ids, text)
    assert lengths is not None
    assert (len(lengths), sum(lengths), lengths[-1]) == (len(ids), len(text), 0)
    pieces = TokenRatios(lengths, (0.5,) * len(ids)).pieces(text)
    assert "".join(piece for piece, _ in pieces) == text
    for id, (piece, _) in zip(ids, pieces, strict=True):
        alone = decode([id])
        if alone.isascii() and alone.strip():
            assert piece.lstrip(" ") == alone.lstrip(" ")


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_a_response_may_be_cut_within_a_character(make: Callable[[], tuple[Encoder, Decoder]]) -> None:
    encode, decode = make()
    for text in TEXTS:
        ids = encode(text)
        for end in range(len(ids)):
            cut = decode(ids[:end])
            lengths = TokenLengths(decode, letter(encode)).of(ids[:end], cut)
            assert lengths is not None, (text, end)
            assert (len(lengths), sum(lengths)) == (end, len(cut))


def test_a_text_of_other_tokens_has_no_lengths() -> None:
    encode, decode = byte_level()
    ids = encode("So 12 + 30 = 42.")
    assert TokenLengths(decode, letter(encode)).of(ids, "So 12 + 31 = 43.") is None
    assert TokenLengths(decode, letter(encode)).of(ids[:3], "So 12 + 30 = 42.") is None


def test_the_recorded_form_keeps_a_thousandth_of_a_nat() -> None:
    text = token_ratios_text((3, 0), np.array([-1.23456, math.nan]))
    assert text == "[[3,0],[-1235,null]]"
    found = TokenRatios.from_text(text)
    assert found == TokenRatios((3, 0), (-1.235, None))
    assert found.pieces("abc") == [("abc", -1.235), ("", None)]
    with pytest.raises(ValueError, match="2 token lengths, but 1 log-ratios"):
        token_ratios_text((1, 2), np.array([0.0]))
