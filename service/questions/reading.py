"""Reads a whole source into members of a set: columns found, rows checked, exact duplicates folded."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from service.answer_kinds import AnswerKind
from service.errors import InputError, first_lines
from service.questions import hub
from service.questions.columns import (
    PROGRAM_CANDIDATES,
    Columns,
    RowLimits,
    RowProblem,
    lacking_columns,
    read_program,
    read_question,
    resolve,
)
from service.questions.files import BadRow, RawRow, Source, open_file
from service.questions.images import RowImages
from service.questions.programs.rows import BESIDE
from service.questions.store import Member

BAD_ROWS_BEFORE_GIVING_UP = 100
ROWS_LOOKED_AT = 100  # for the names of columns, where each row names its own


@dataclass(frozen=True)
class ReadRows:
    """A source that was read: its questions in order, and what was odd about its rows."""

    source: str
    stem: str
    members: tuple[Member, ...]  # each different question once, at its first row
    rows: int  # bad and repeated ones included
    duplicates: tuple[tuple[int, int], ...]  # (row, earlier row with the same text and answer)
    bad: tuple[BadRow, ...]
    columns: Columns
    limits: RowLimits
    limit: int | None
    origin: dict[str, Any] = field(repr=False)
    images: RowImages = field(default_factory=RowImages, repr=False)
    kind: AnswerKind = AnswerKind.LATEX  # of all of its questions
    references: Mapping[str, str] = field(default_factory=dict, repr=False)  # programs, by question's id
    left_out: Mapping[str, int] = field(default_factory=dict)  # columns that may belong to a question: rows


def read_source(
    source: str,
    *,
    columns: Columns,
    limits: RowLimits,
    kind: AnswerKind = AnswerKind.LATEX,
    limit: int | None = None,
    skip_bad_rows: bool = False,
    configs: Sequence[str] = (),
    split: str | None = None,
    revision: str | None = None,
) -> ReadRows:
    """Read a file, or a data set of the Hub where no such file exists and the name reads like an id."""
    opened = open_source(source, configs, split, revision)
    present: Collection[str] = opened.columns or ()
    if opened.columns is not None:
        columns = resolve(columns, opened.columns, opened.name, kind)
        tops = {name if name in opened.columns else name.split(".")[0] for name in columns.names()}
        tops |= set(columns.left_out(opened.columns))
        if kind is AnswerKind.CODE:
            tops |= {*BESIDE, *PROGRAM_CANDIDATES["answer"], *PROGRAM_CANDIDATES["solution"]}
        rows = opened.read([column for column in opened.columns if column in tops])
        head = list(islice(rows, ROWS_LOOKED_AT))
    else:
        rows = opened.read(None)
        head = list(islice(rows, ROWS_LOOKED_AT))
        present = dict.fromkeys(name for row in head if isinstance(row, RawRow) for name in row.values)
        if not present:
            _refuse([row for row in head if isinstance(row, BadRow)], opened.name)
        if head:
            columns = resolve(columns, tuple(present), opened.name, kind)
    if not head:
        raise InputError(f"{opened.name}: contains no rows.")
    bad: list[BadRow] = []
    members: list[Member] = []
    rows_by_id: dict[str, int] = {}
    duplicates: list[tuple[int, int]] = []
    images = RowImages(opened.folder)
    references: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    number_read = 0
    for row in chain(head, rows):
        if limit is not None and row.number >= limit:
            break
        number_read += 1
        if isinstance(row, RawRow):
            try:
                if kind is AnswerKind.CODE:
                    question, reference = read_program(row.values, columns, limits)
                    references.setdefault(question.id, reference)
                else:
                    question = read_question(row.values, columns, limits, images)
                    left_out.update(lacking_columns(row.values, columns, question.text))
            except RowProblem as problem:
                row = BadRow(row.number, row.place, str(problem))
        if isinstance(row, BadRow):
            bad.append(row)
            if len(bad) >= BAD_ROWS_BEFORE_GIVING_UP and not skip_bad_rows:
                break
            continue
        earlier = rows_by_id.setdefault(question.id, row.number)
        if earlier != row.number:
            duplicates.append((row.number, earlier))
            continue
        members.append(Member(row.number, question))
    if not skip_bad_rows or not members:
        _refuse(bad, opened.name)
    if not any(member.question.answer for member in members):
        lacking = (
            f'no text in "{columns.solution}" has a \\boxed{{}} with the answer'
            if columns.answer is None
            else f'no row has an answer in column "{columns.answer}"'
        )
        raise InputError(
            f"{opened.name}: {lacking}. Name the column of the answers with --column answer=NAME; available: "
            f"{', '.join(sorted(present))}."
        )
    return ReadRows(
        source=source,
        stem=opened.stem,
        members=tuple(members),
        rows=number_read,
        duplicates=tuple(duplicates),
        bad=tuple(bad),
        columns=columns,
        limits=limits,
        limit=limit,
        origin=opened.origin,
        images=images,
        kind=kind,
        references=references,
        left_out=left_out,
    )


def open_source(source: str, configs: Sequence[str], split: str | None, revision: str | None) -> Source:
    """Open a file, or a data set of the Hub where no such file exists and the name reads like an id."""
    path = Path(source)
    if not path.exists() and hub.is_id(source):
        return hub.open_dataset(source, configs=configs, split=split, revision=revision)
    if configs or split or revision:
        raise InputError(f"{source}: --config, --split and --revision apply to Hub datasets only.")
    return open_file(path, " or a Hub dataset id like org/name")


def _refuse(bad: Sequence[BadRow], source: str) -> None:
    if not bad:
        return
    listed = first_lines([f"{row.place}: {row.problem}" for row in bad])
    least = "at least " if len(bad) >= BAD_ROWS_BEFORE_GIVING_UP else ""
    raise InputError(
        f"{source}: {least}{len(bad)} row{'s' * (len(bad) > 1)} cannot be used, so nothing was imported:"
        f"{listed}\nFix them, or pass --skip-bad-rows to leave them out."
    )
