"""Candidates from files: which column is which, which row belongs to which question."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rephraser.config import FileProposer
from rephraser.proposing.file import FileCandidates, read_candidates
from service.errors import InputError
from service.questions import make_question

FIRST, SECOND = make_question("What is $1+1$?", "2"), make_question("What is $2+2$?", "4")


def read(folder: Path, rows: Sequence[Any], **options: Any) -> FileCandidates:
    path = folder / "c.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    proposer = FileProposer(kind="file", candidates=str(path), **options)
    return read_candidates(proposer, [FIRST, SECOND])


def test_a_pair_is_understood_by_the_side_that_is_known(tmp_path: Path) -> None:
    pair = {"question": "Add $1$ and $1$.", "original_question": "What is $1+1$?"}
    assert read(tmp_path, [pair]).by_question == {FIRST.id: ("Add $1$ and $1$.",)}
    other = {"question": "What is $1+1$?", "rephrased_question": "Add $1$ and $1$."}
    assert read(tmp_path, [other]).by_question == {FIRST.id: ("Add $1$ and $1$.",)}


def test_lists_objects_and_several_rows_add_up_in_order(tmp_path: Path) -> None:
    rows = [
        {"question_id": FIRST.id, "candidates": ["a", {"text": "b"}]},
        {"question_id": SECOND.id, "candidates": "d"},
        {"question_id": FIRST.id, "candidates": ["b", "c"]},
    ]
    assert read(tmp_path, rows).by_question == {FIRST.id: ("a", "b", "c"), SECOND.id: ("d",)}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"question": FIRST.text, "candidate": " "}], {}, r'c\.jsonl:1: "candidate" contains no text'),
        ([{"question": FIRST.text, "candidates": []}], {}, r'c\.jsonl:1: "candidates" contains no text'),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, rows: list[Any], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, rows, **options)
