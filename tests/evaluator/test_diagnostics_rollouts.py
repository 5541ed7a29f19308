"""Rollouts from files: layouts, steps, ids, and what is refused with its place."""

from pathlib import Path
from typing import Any

import pytest
from json_rows import write_rows

from evaluator.signal.sources.rollouts import file_source
from service.errors import InputError


def row(question: str, reward: Any, **more: Any) -> dict[str, Any]:
    return {"question_id": question, "reward": reward, **more}


def test_rows_become_groups_by_question_and_neighbor(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "r.jsonl",
        row("a", 1, tokens=10),
        row("a", 0, tokens=20),
        row("a", 1, neighbor_id="c_2", strategy="rename"),
        row("a", None, neighbor_id="c_1"),
        row("b", True),
        row("b", "wrong", variant=1, neighbor_id="c_9"),
    )
    read = file_source(path)
    (checkpoint,) = read.checkpoints
    assert (checkpoint.label, read.notes) == ("all", ())
    first, second = checkpoint.groups
    original, renamed, other = first.prompts
    assert (original.correct, original.wrong, original.tokens, original.token_samples) == (1, 1, 30, 2)
    assert (renamed.variant, renamed.source_id, renamed.strategy) == (1, "c_2", "rename")
    assert (other.variant, other.source_id, other.unknown) == (2, "c_1", 1)
    assert [(p.variant, p.correct, p.wrong) for p in second.prompts] == [(0, 1, 0), (1, 0, 1)]


def test_a_folder_as_verl_writes_it(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        write_rows(
            tmp_path / f"{step}.jsonl",
            *(
                {"input": f"user\n{question}", "output": "...", "gts": "4", "score": score, "step": step}
                for question in ("2+2?", "1+3?")
                for score in (1.0, -1.0)
            ),
        )
    read = file_source(tmp_path, windows=2)
    assert [checkpoint.label for checkpoint in read.checkpoints] == ["steps 1-2", "step 10"]
    assert "some rows have no question id" in read.notes[0]
    assert len(read.checkpoints[0].groups) == 4
    assert {group.prompts[0].correct for group in read.checkpoints[0].groups} == {1}


def test_shaped_rewards_need_a_threshold(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", row("a", 0.9), row("a", -0.4))
    with pytest.raises(InputError, match=r"r\.jsonl:1: .*0\.9.*--correct-above"):
        file_source(path)
    (prompt,) = file_source(path, threshold=0.5).checkpoints[0].groups[0].prompts
    assert (prompt.correct, prompt.wrong) == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"reward": 1}', "the row has no question"),
        ('{"question_id": "a"}', "has no reward"),
        ('{"question_id": "a", "reward": "yes"}', "boolean; or .*number; or .*'correct'"),
        ('{"question_id": "a", "reward": 1, "tokens": -1}', '"tokens" is -1'),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"question_id": "z", "reward": 0}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message) as refused:
        file_source(path)
    assert str(refused.value).startswith(f"{path}:2: ")


def test_contradictions_are_refused(tmp_path: Path) -> None:
    rows = [row("a", 1, neighbor_id="c", variant=variant) for variant in (1, 2)]
    with pytest.raises(InputError, match="variant 2 here but 1 in an earlier row"):
        file_source(write_rows(tmp_path / "r.jsonl", *rows))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        file_source(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"contains no \.jsonl or \.parquet files"):
        file_source(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="contains no rollouts"):
        file_source(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"question_id": "\xe9"}\n')
    with pytest.raises(InputError, match="not UTF-8"):
        file_source(tmp_path / "latin.jsonl")
