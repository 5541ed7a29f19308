"""Candidates from files: which column is which, which row belongs to which question."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rephraser.proposing.file import FileCandidates, read_candidates
from service.errors import InputError
from service.questions import make_question

FIRST, SECOND = make_question("What is $1+1$?", "2"), make_question("What is $2+2$?", "4")


def read(folder: Path, rows: Sequence[Any], **options: Any) -> FileCandidates:
    path = folder / "c.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return read_candidates(str(path), [FIRST, SECOND], **options)


def test_a_file_of_blank_lines_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match=r"c\.jsonl: contains no rows"):
        read_candidates(str(tmp_path / "c.jsonl"), [FIRST])


def test_rows_by_id_and_by_text(tmp_path: Path) -> None:
    by_id = read(tmp_path, [{"question_id": FIRST.id, "candidate": "Add $1$ and $1$."}])
    by_text = read(tmp_path, [{"problem": "  What is $1+1$?\r\n", "rephrasing": "Add $1$ and $1$."}])
    assert by_id.by_question == by_text.by_question == {FIRST.id: ("Add $1$ and $1$.",)}
    assert by_id.content == by_text.content


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


def test_rows_of_other_questions_are_counted_even_before_the_first_known(tmp_path: Path) -> None:
    rows = [
        {"question": "Whose?", "candidate": "x"},
        {"question": FIRST.text, "candidate": "a"},
        {"question": "Where?", "candidate": "y"},
    ]
    found = read(tmp_path, rows)
    assert (found.rows, found.unmatched) == (3, 2)
    assert found.by_question == {FIRST.id: ("a",)}


def test_a_text_of_several_questions_belongs_to_none_of_them(tmp_path: Path) -> None:
    twins = [make_question("<image>Find x.", answer, images=[f"img_{answer}"]) for answer in ("3", "4")]
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"question": "<image>Find x.", "candidate": "<image>What is x?"}))
    with pytest.raises(InputError, match=r'c\.jsonl:1: "question" is the text of several questions'):
        read_candidates(str(path), twins)
    path.write_text(json.dumps({"question_id": twins[0].id, "candidate": "<image>What is x?"}))
    assert read_candidates(str(path), twins).by_question == {twins[0].id: ("<image>What is x?",)}


def test_the_content_hash_covers_what_is_taken_and_its_order(tmp_path: Path) -> None:
    rows = [{"question_id": FIRST.id, "candidates": ["a", "b"]}]
    base = read(tmp_path, rows).content
    assert read(tmp_path, [*rows, {"question_id": "q_0", "candidates": ["z"]}]).content == base
    assert read(tmp_path, [{"question_id": FIRST.id, "candidates": ["b", "a"]}]).content != base
    assert read(tmp_path, [{"question_id": SECOND.id, "candidates": ["a", "b"]}]).content != base


def test_a_trial_of_fewer_questions_reads_the_same_candidates(tmp_path: Path) -> None:
    rows = [{"question_id": SECOND.id, "candidate": "b"}, {"question_id": FIRST.id, "candidate": "a"}]
    whole, trial = read(tmp_path, rows), read(tmp_path, rows, limit=1)
    assert (trial.content, trial.by_question) == (whole.content, whole.by_question)
    assert (trial.unmatched, whole.unmatched) == (1, 0)
    with pytest.raises(InputError, match="none of its 1 rows belongs to the first 1 questions"):
        read(tmp_path, rows[:1], limit=1)


def test_named_columns_win(tmp_path: Path) -> None:
    rows = [{"key": FIRST.id, "candidate": "no", "mine": "yes"}]
    found = read(tmp_path, rows, question_column="key", candidate_column="mine")
    assert found.by_question == {FIRST.id: ("yes",)}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"key": FIRST.id, "candidate": "a"}], {}, "Choose another column with proposer.question_column"),
        ([], {}, "the file is empty"),
        ([{"question": "Whose?", "candidate": "a"}], {}, "none of its 1 rows belongs to a question"),
        ([{"question": FIRST.text, "mine": "a"}], {}, "proposer.candidate_column; available: question, mine"),
        ([{"question": FIRST.text}], {}, "no column looks like the candidates"),
        (
            [{"question": FIRST.text, "candidate": "a"}],
            {"candidate_column": "mine"},
            r"no column 'mine' \(proposer.candidate_column\)\. Available: question, candidate",
        ),
        ([{"question": FIRST.text, "candidate": " "}], {}, r'c\.jsonl:1: "candidate" contains no text'),
        ([{"question": FIRST.text, "candidates": []}], {}, r'c\.jsonl:1: "candidates" contains no text'),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, rows: list[Any], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, rows, **options)


def test_many_bad_rows_are_counted(tmp_path: Path) -> None:
    rows = [{"question": FIRST.text, "candidate": ""} for _ in range(8)]
    with pytest.raises(
        InputError, match=r'c\.jsonl:5: "candidate" contains no text and 3 more\. Fix or remove'
    ):
        read(tmp_path, rows)
