"""Recording a step of training: decoded beside it, for a share of the questions, none lost without a word."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout_shards import make_step, read_rollouts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.metrics import StepBatch
from trainer_adapter.record.rollout import TokenRatios
from trainer_adapter.verl.plugin.responses import StepResponses
from trainer_adapter.verl.step_texts import record_step

QUESTIONS, SESSIONS, VARIANTS = 50, 8, 2


class Bytes:
    """A tokenizer as transformers has them, a token for each byte; it notes the threads that decode."""

    def __init__(self) -> None:
        letters = pre_tokenizers.ByteLevel.alphabet()
        self._bytes = Tokenizer(models.BPE({letter: at for at, letter in enumerate(sorted(letters))}, []))
        self._bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._bytes.decoder = decoders.ByteLevel()
        self.threads: set[str] = set()

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(self._bytes.encode(text).ids)

    def decode(self, ids: list[int], **_: Any) -> str:
        self.threads.add(threading.current_thread().name)
        return str(self._bytes.decode(ids))

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
    batch = StepBatch(
        step=3,
        question_B=question_B,
        variant_B=variant_B,
        group_B=question_B,
        rewards_B=rewards_B,
        correct_B=rewards_B > 0,
        unknown_B=row_B == 1,
        truncated_B=row_B == 2,
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
        question_B=question_B,
        scores_B=rewards_B,
        correct_B=rewards_B > 0,
        unknown_B=row_B == 1,
        truncated_B=row_B == 2,
        tensors_BT={"responses": ids_BT},
    )
    return responses, batch, texts


@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_step_is_decoded_beside_training(tmp_path: Path, with_tokens: bool) -> None:
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
        assert record.token_ratios is not None
        ratios = TokenRatios.from_text(record.token_ratios)
        assert "".join(piece for piece, _ in ratios.pieces(record.response)) == texts[row]
        measured = [value for value in ratios.log_ratios if value is not None]
        assert measured == pytest.approx((old_T - sampling_T).tolist(), abs=6e-4)
    else:
        assert record.token_ratios is None


def test_a_share_keeps_all_responses_of_the_same_questions(tmp_path: Path) -> None:
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
            assert record.token_ratios is not None
            assert sum(TokenRatios.from_text(record.token_ratios).lengths) == len(texts[row])
    assert 0 < len(kept[0.3]) < len(kept[0.6]) < QUESTIONS
    assert kept[0.3] < kept[0.6]


def test_a_step_whose_making_fails_is_named_and_the_others_are_there(tmp_path: Path) -> None:
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
