"""Existing candidates from a file or Hub dataset, matched to questions by id or text."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rephraser.config import FileProposer
from service.errors import InputError
from service.hashing import canonical_text, content_hash
from service.questions.files import RawRow
from service.questions.hub import open_source
from service.questions.question import Question

ID_COLUMNS = ("question_id", "original_id", "qid")
QUESTION_COLUMNS = ("original_question", "question", "problem", "original", "prompt")
CANDIDATE_COLUMNS = (
    *("candidate", "candidates", "neighbors", "rephrasing", "rephrasings"),
    *("rephrased_question", "rephrased", "paraphrase", "text"),
)


@dataclass(frozen=True)
class FileCandidates:
    """Candidates of all questions of a set, in the order of the file, and a hash of them."""

    by_question: Mapping[str, tuple[str, ...]]
    source: str
    content: str
    rows: int
    unmatched: int  # rows whose question is not among the first `limit`


def read_candidates(
    proposer: FileProposer, questions: Sequence[Question], limit: int | None = None
) -> FileCandidates:
    """Read candidates from a file (JSON Lines, CSV, parquet) or a Hub data set.

    A row names its question by id or by the question's text, and holds one candidate or a list of them
    (texts, or objects with a `text`). Rows of other questions are left out.
    """
    opened = open_source(proposer.candidates)
    question_ids = _index(questions)
    wanted = {question.id for question in questions[:limit]}
    texts_of: dict[str, list[str]] = defaultdict(list)
    rows = unmatched = 0
    chosen: tuple[str, str] | None = None
    for row in opened.rows:
        if row.problem:
            raise InputError(f"{row.place}: {row.problem}. Fix or remove this row.")
        rows += 1
        chosen = chosen or _choose(opened.name, row, question_ids, proposer)
        if chosen is None:
            unmatched += 1
            continue
        question_id = question_ids.get(_key(row.values.get(chosen[0])))
        if question_id == "":
            raise InputError(
                f'{row.place}: "{chosen[0]}" matches the text of several questions. Add a question_id.'
            )
        unmatched += question_id not in wanted
        if question_id is None:
            continue
        texts = _texts(row.values.get(chosen[1]))
        if not texts:
            raise InputError(f'{row.place}: "{chosen[1]}" contains no text. Fix or remove this row.')
        texts_of[question_id] += [text for text in texts if text not in texts_of[question_id]]
    if not rows:
        raise InputError(f"{opened.name}: contains no rows.")
    if wanted.isdisjoint(texts_of):
        raise InputError(
            f"{opened.name}: none of its {rows} rows belongs to "
            f"{'a question of this set' if limit is None else f'the first {limit} questions'}. Rows "
            "identify their question by id or exact text, in a column question_id, original_question or "
            "question. Choose another column with proposer.question_column."
        )
    by_question = {question_id: tuple(texts) for question_id, texts in texts_of.items()}
    content = content_hash("candidates", {key: list(value) for key, value in by_question.items()})
    return FileCandidates(by_question, opened.stem, content, rows, unmatched)


def _index(questions: Iterable[Question]) -> dict[str, str]:
    """Return ids by id and by text; "" for a text of several questions, as below several pictures."""
    index: dict[str, str] = {}
    for question in questions:
        index[question.id] = question.id
        text = canonical_text(question.text)
        index[text] = "" if text in index else question.id
    return index


def _choose(
    source: str, row: RawRow, question_ids: Mapping[str, str], proposer: FileProposer
) -> tuple[str, str] | None:
    """Return the columns of question and candidate, or None while no row has named a known question.

    Files of pairs call either side "question"; the side that is known tells which is which.
    """
    question, candidate = proposer.question_column, proposer.candidate_column
    for name, option in ((question, "proposer.question_column"), (candidate, "proposer.candidate_column")):
        if name is not None and name not in row.values:
            there = ", ".join(row.values)
            raise InputError(f"{source}: no column {name!r} ({option}). Available: {there}.")
    named = [question] if question else [*ID_COLUMNS, *QUESTION_COLUMNS]
    question = next((name for name in named if _key(row.values.get(name)) in question_ids), None)
    if question is None:
        return None
    usual = [candidate] if candidate else [*CANDIDATE_COLUMNS, "question"]
    candidate = next((name for name in usual if name in row.values and name != question), None)
    if candidate is None:
        raise InputError(
            f"{source}: no column looks like the candidates. Set proposer.candidate_column; available: "
            f"{', '.join(row.values)}."
        )
    return question, candidate


def _key(value: Any) -> str:
    return canonical_text(value) if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [canonical_text(value)] if value.strip() else []
    if isinstance(value, Mapping):
        return _texts(value.get("text"))
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []
