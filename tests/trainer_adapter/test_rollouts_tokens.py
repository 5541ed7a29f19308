"""Recording a step with its tokens: places of tokens in texts, shares of the questions, log-ratios."""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from rollout_shards import make_step, read_rollouts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.metrics import StepBatch
from trainer_adapter.record.rollout import TokenLengths, TokenRatios, token_ratios_text
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.step_texts import record_step

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
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    settings = {"vocab_size": 300, "special_tokens": ["<end>"], "show_progress": False}
    trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    tokenizer.train_from_iterator(["So 12 + 30 = 42. and and spaces spaces"], trainer)
    return lambda text: [*tokenizer.encode(text).ids, 0], tokenizer.decode


def sentence_piece() -> tuple[Encoder, Decoder]:
    """Return what Llama 2 has: runs of spaces as tokens, bytes for what is unknown, a first space dropped."""
    pieces = ["▁", "▁▁", "▁▁▁", "▁So", "▁12", "▁+", "▁30", "▁=", "▁42", ".", "▁b", "a", "x", ":", "b", "A"]
    vocabulary = ["<end>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    known = {piece: at for at, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(known, [("▁", "▁"), ("▁▁", "▁")], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<end>"])

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
def test_each_token_has_its_stretch_of_the_text(make, text):
    encode, decode = make()
    ids = encode(text)
    assert decode(ids) == text
    lengths = TokenLengths(decode, letter(encode)).of(ids, text)
    assert (len(lengths), sum(lengths), lengths[-1]) == (len(ids), len(text), 0)
    pieces = TokenRatios(lengths, (0.5,) * len(ids)).pieces(text)
    assert "".join(piece for piece, _ in pieces) == text
    for id, (piece, _) in zip(ids, pieces, strict=True):
        alone = decode([id])
        if alone.isascii() and alone.strip():
            assert piece.lstrip(" ") == alone.lstrip(" ")


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_a_response_may_be_cut_within_a_character(make):
    encode, decode = make()
    for text in TEXTS:
        ids = encode(text)
        for end in range(len(ids)):
            cut = decode(ids[:end])
            lengths = TokenLengths(decode, letter(encode)).of(ids[:end], cut)
            assert lengths is not None, (text, end)
            assert (len(lengths), sum(lengths)) == (end, len(cut))


def test_a_text_of_other_tokens_has_no_lengths():
    encode, decode = byte_level()
    ids = encode("So 12 + 30 = 42.")
    assert TokenLengths(decode, letter(encode)).of(ids, "So 12 + 31 = 43.") is None
    assert TokenLengths(decode, letter(encode)).of(ids[:3], "So 12 + 30 = 42.") is None


def test_the_recorded_form_keeps_a_thousandth_of_a_nat():
    text = token_ratios_text((3, 0), np.array([-1.23456, math.nan]))
    assert text == "[[3,0],[-1235,null]]"
    found = TokenRatios.from_text(text)
    assert found == TokenRatios((3, 0), (-1.235, None))
    assert found.pieces("abc") == [("abc", -1.235), ("", None)]
    with pytest.raises(ValueError, match="2 token lengths, but 1 log-ratios"):
        token_ratios_text((1, 2), np.array([0.0]))


QUESTIONS, SESSIONS, VARIANTS = 50, 8, 2


class Bytes:
    """A tokenizer as transformers has them; it notes the threads that decode."""

    def __init__(self) -> None:
        self._encode, self._decode = byte_level()
        self.threads: set[str] = set()

    def encode(self, text: str, **_: Any) -> list[int]:
        return self._encode(text)[:-1]  # without the end

    def decode(self, ids: list[int], **_: Any) -> str:
        self.threads.add(threading.current_thread().name)
        return self._decode(ids)

    def batch_decode(self, rows: list[list[int]], **_: Any) -> list[str]:
        return [self.decode(row) for row in rows]


def drawn(tokenizer: Bytes) -> tuple[StepResponses, StepBatch, list[str]]:
    """Return a step's responses with their texts."""
    rows = QUESTIONS * SESSIONS
    row_B = torch.arange(rows)
    question_B, session_B = row_B // SESSIONS, row_B % SESSIONS
    variant_B = session_B // (SESSIONS // VARIANTS)
    texts = [f"Größe {row}: \\boxed{{{row % 7}}}" for row in range(rows)]
    ids = [tokenizer.encode(text) for text in texts]
    tokens_B = torch.tensor([len(row) for row in ids])
    ids_BT = torch.zeros(rows, int(tokens_B.max()), dtype=torch.long)
    for row, of_row in enumerate(ids):
        ids_BT[row, : len(of_row)] = torch.tensor(of_row)
    mask_BT = (torch.arange(ids_BT.shape[1]) < tokens_B[:, None]).long()
    chance = torch.Generator().manual_seed(0)
    old_BT, sampling_BT, entropies_BT = (-torch.rand(ids_BT.shape, generator=chance) for _ in range(3))
    rewards_B = (row_B % 3 == 0).double()
    variants = variant_B.tolist()
    shared = {"question_B": question_B, "correct_B": rewards_B > 0}
    shared |= {"unknown_B": row_B == 1, "truncated_B": row_B == 2}
    batch = StepBatch(
        **shared,
        step=3,
        variant_B=variant_B,
        group_B=question_B,
        rewards_B=rewards_B,
        tokens_B=tokens_B,
        prompt_tokens_B=tokens_B,
        mask_BT=mask_BT,
        old_log_probs_BT=old_BT,
        sampling_log_probs_BT=sampling_BT,
        ref_log_probs_BT=None,
        entropies_BT=entropies_BT,
        advantages_B=rewards_B,
    )
    responses = StepResponses(
        real_A=row_B >= 0,
        mask_AT=mask_BT,
        about=tuple(
            {
                "prompt_ids": tokenizer.encode(f"question {row // SESSIONS}, wording {variants[row]}"),
                "question_id": f"q_{row // SESSIONS:024x}",
                "neighbor_id": f"c_{variants[row]}" if variants[row] else None,
                "session": row % SESSIONS,
                "strategy": "rules" if variants[row] else None,
                "weights_version": 2,
            }
            for row in range(rows)
        ),
        graded=tuple({"reason": "exact", "extracted": str(row % 7)} for row in range(rows)),
        scores_B=rewards_B,
        tensors_BT={"responses": ids_BT},
        **shared,
    )
    return responses, batch, texts


@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_step_is_decoded_beside_training(tmp_path, with_tokens):
    tokenizer = Bytes()
    responses, batch, texts = drawn(tokenizer)
    with RolloutWriter(tmp_path, "ta") as writer:
        record_step(writer, responses, batch, tokenizer, with_tokens=with_tokens)
    assert tokenizer.threads == {"rollout-writer_0"}
    records = list(read_rollouts(tmp_path))
    assert [record.response for record in records] == texts
    assert records[5].prompt == "question 0, wording 1"
    row = 13
    record, tokens = records[row], int(batch.tokens_B[row])
    assert (record.question_id, record.session, record.variant) == (f"q_{1:024x}", 5, 1)
    assert (record.strategy, record.weights_version, record.extracted) == ("rules", 2, "6")
    assert [each.grade for each in records[:3]] == ["correct", "unknown", "wrong"]
    old_T, sampling_T = batch.old_log_probs_BT[row, :tokens], batch.sampling_log_probs_BT[row, :tokens]  # type: ignore[index]
    assert record.old_log_prob == pytest.approx(float(old_T.double().sum()), rel=1e-12)
    assert record.ref_log_prob is None
    assert record.entropy == pytest.approx(float(batch.entropies_BT[row, :tokens].double().mean()))  # type: ignore[index]
    if with_tokens:
        ratios = TokenRatios.from_text(record.token_ratios)
        assert "".join(piece for piece, _ in ratios.pieces(record.response)) == texts[row]
        measured = [value for value in ratios.log_ratios if value is not None]
        assert measured == pytest.approx((old_T - sampling_T).tolist(), abs=6e-4)
    else:
        assert record.token_ratios is None


def test_a_share_keeps_all_responses_of_the_same_questions(tmp_path):
    tokenizer = Bytes()
    responses, batch, texts = drawn(tokenizer)
    kept = {}
    for share in (0.3, 0.6):
        with RolloutWriter(tmp_path / str(share), "ta") as writer:
            record_step(writer, responses, batch, tokenizer, with_tokens=True, share=share)
        records = list(read_rollouts(tmp_path / str(share)))
        kept[share] = {record.question_id for record in records}
        assert len(records) == SESSIONS * len(kept[share])
        for record in records:
            row = SESSIONS * int(record.question_id[2:], 16) + record.session
            assert record.response == texts[row]
            assert sum(TokenRatios.from_text(record.token_ratios).lengths) == len(texts[row])
    assert 0 < len(kept[0.3]) < len(kept[0.6]) < QUESTIONS
    assert kept[0.3] < kept[0.6]


def test_a_step_whose_making_fails_is_named_and_the_others_are_there(tmp_path):
    def broken() -> Any:
        yield make_step(2)[0]
        raise OSError(28, "No space left on device")

    with RolloutWriter(tmp_path, "ta") as writer:
        writer.write(1, lambda: make_step(1))
        writer.write(2, broken)
        writer.write(3, lambda: make_step(3))
        writer.flush()
        assert sorted(path.name[-9:] for path in tmp_path.glob("step-*")) == ["1.parquet", "3.parquet"]
        assert len(writer.failures) == 1
        assert "step 2" in writer.failures[0]
        assert "No space left" in writer.failures[0]
    assert not list(tmp_path.glob(".*.partial"))
