"""Log-ratios of single tokens: places of tokens in texts, in shards, in the database."""

import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counted import assert_counts_hold
from rollout_shards import make_record
from runs import open_empty
from sqlalchemy import func, select
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from service.database import Database
from service.errors import InputError
from service.runs.store import find_run
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.browsing import page_rollouts, read_rollout_texts, read_token_ratios
from trainer_adapter.record.importing import import_rollouts
from trainer_adapter.record.joint_groups import read_joint_group
from trainer_adapter.record.reading import read_rollouts
from trainer_adapter.record.rollout import TokenLengths, TokenRatios, token_ratios_text
from trainer_adapter.record.tables import RolloutTokensRow

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


def test_runs_of_spaces_are_not_lost_by_a_decoder_that_drops_the_first() -> None:
    encode, decode = sentence_piece()
    ids = encode("x:\n    b")
    assert TokenLengths(decode, letter(encode)).of(ids, "x:\n    b") == (0, 1, 1, 1, 3, 2, 0)


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


def test_bytes_that_are_no_text_are_counted_or_left_out() -> None:
    encode, decode = byte_level()
    chance = random.Random(3)
    counted = 0
    for _ in range(300):
        ids = [chance.randrange(300) for _ in range(chance.randrange(12))]
        text = decode(ids)
        lengths = TokenLengths(decode, letter(encode)).of(ids, text)
        assert lengths is None or (len(lengths), sum(lengths)) == (len(ids), len(text))
        counted += lengths is not None
    assert counted > 200


def test_very_many_broken_bytes_are_given_up() -> None:
    encode, decode = byte_level()
    asked = []
    lengths = TokenLengths(lambda ids: asked.append(ids) or decode(ids), letter(encode))
    ids = [130] * 20_000
    text = decode(ids)
    assert lengths.of(ids, text) is None
    assert len(asked) < 100  # what was decoded is known


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
    with pytest.raises(ValueError, match="2 lengths for 1 log-ratios"):
        token_ratios_text((1, 2), np.array([0.0]))


def with_tokens(step: int, session: int) -> RolloutRecord:
    one = make_record(step, 0, session)
    ratios = np.array([-0.5 - step, -math.inf, 0.25])
    return replace(one, tokens=3, token_ratios=token_ratios_text((len(one.response) - 2, 2, 0), ratios))


def write(folder: Path, *steps: int) -> Path:
    """Write steps of four responses with and four without log-ratios of tokens."""
    with RolloutWriter(folder, "ta", background=False) as writer:
        for step in steps:
            records = [with_tokens(step, session) for session in range(4)]
            writer.write(step, [*records, *(make_record(step, 0, session) for session in range(4, 8))])
    return folder


def stored(db: Database) -> int:
    with db.read() as session:
        return int(session.scalar(select(func.count()).select_from(RolloutTokensRow)) or 0)


def test_they_are_imported_replaced_and_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "rollouts", 1, 2)
    read = list(read_rollouts(folder))
    assert read[0].token_ratios == f"[[{len(read[0].response) - 2},2,0],[-1500,null,250]]"
    assert read[4].token_ratios is None
    db = open_empty(tmp_path / "t.db")
    run = import_rollouts(db, folder, texts=True).run
    assert stored(db) == 8
    with db.read() as session:
        run_id = find_run(session, run).id
        headers = page_rollouts(session, run_id)
        first, last = read_token_ratios(session, headers[0].id), read_token_ratios(session, headers[4].id)
        text = read_rollout_texts(session, [headers[0].id])[headers[0].id]
        assert read_joint_group(session, run_id, 1, headers[0].question_id).has_tokens
    assert first == TokenRatios((len(text) - 2, 2, 0), (-1.5, None, 0.25))
    assert last is None
    write(folder, 2)  # the same again
    with RolloutWriter(folder, "ta", background=False) as writer:
        writer.write(2, [make_record(2, 0, session) for session in range(8)])
    assert import_rollouts(db, folder, texts=True).replaced == 1
    assert stored(db) == 4
    assert db.integrity_report() == []
    assert_counts_hold(db)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("[[1,2],[0]]", "2 lengths for 1 log-ratios"),
        ("[[1,-2],[0,0]]", "a length is no whole number from 0 on"),
        ("[[1,null],[0,0]]", "a length is no whole number from 0 on"),
        ('[[1,2],[0,"x"]]', "a log-ratio is no whole number of thousandths"),
        ("{}", "not two lists"),
        ("[[1", "token_ratios"),
        ("[[1,1,1],[0,0,0]]", "tells of 3 tokens with 3 characters, the response has 3 with"),
    ],
)
def test_log_ratios_of_other_tokens_are_named_before_anything_is_written(
    tmp_path: Path, said: str, named: str
) -> None:
    folder = write(tmp_path / "rollouts", 1)
    (path,) = folder.glob("step-*.parquet")
    table = pq.read_table(path)
    place = table.schema.get_field_index("token_ratios")
    field = table.schema.field(place)
    torn = [said, *table.column("token_ratios").to_pylist()[1:]]
    pq.write_table(table.set_column(place, field, pa.array(torn, field.type)), path)
    db = open_empty(tmp_path / "t.db")
    with pytest.raises(InputError, match=re.escape(named)):
        import_rollouts(db, folder, texts=True)
    assert stored(db) == 0
