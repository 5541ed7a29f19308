"""Reads a whole source into members of a set: columns found, rows checked, exact duplicates folded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

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
from service.questions.programs import BESIDE
from service.questions.store import Member

BAD_ROWS_BEFORE_GIVING_UP = 100
ROWS_LOOKED_AT = 100  # for the names of columns, where each row names its own


@dataclass
class ReadRows:
    """A source that was read: its questions in order, and what was odd about its rows."""

    source: str
    opened: Source
    columns: Columns
    limits: RowLimits
    limit: int | None
    kind: AnswerKind  # of all of its questions
    images: RowImages = field(repr=False)
    rows: int = 0  # bad and repeated ones included
    members: list[Member] = field(default_factory=list)  # each different question once, at its first row
    duplicates: list[tuple[int, int]] = field(default_factory=list)  # (row, equal earlier row)
    bad: list[BadRow] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict, repr=False)  # programs, by question's id
    left_out: Counter[str] = field(default_factory=Counter)  # columns that may belong to a question: rows


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
    name, present, needed = opened.name, opened.columns, None
    if present is not None:
        columns = resolve(columns, present, name, kind)
        tops = {each if each in present else each.split(".")[0] for each in columns.names()}
        tops |= set(columns.left_out(present))
        if kind is AnswerKind.CODE:
            tops |= {*BESIDE, *PROGRAM_CANDIDATES["answer"], *PROGRAM_CANDIDATES["solution"]}
        needed = [column for column in present if column in tops]
    rows = opened.read(needed)
    head = list(islice(rows, ROWS_LOOKED_AT))
    if not head:
        raise InputError(f"{name}: contains no rows.")
    if present is None:
        present = tuple(dict.fromkeys(key for row in head if isinstance(row, RawRow) for key in row.values))
        if not present:
            _refuse([row for row in head if isinstance(row, BadRow)], name)
        columns = resolve(columns, present, name, kind)
    read = ReadRows(source, opened, columns, limits, limit, kind, RowImages(opened.folder))
    rows_by_id: dict[str, int] = {}
    for row in chain(head, rows):
        if limit is not None and row.number >= limit:
            break
        read.rows += 1
        try:
            if isinstance(row, BadRow):
                raise RowProblem(row.problem)
            if kind is AnswerKind.CODE:
                question, reference = read_program(row.values, columns, limits)
                read.references.setdefault(question.id, reference)
            else:
                question = read_question(row.values, columns, limits, read.images)
                read.left_out.update(lacking_columns(row.values, columns, question.text))
        except RowProblem as problem:
            read.bad.append(BadRow(row.number, row.place, str(problem)))
            if len(read.bad) >= BAD_ROWS_BEFORE_GIVING_UP and not skip_bad_rows:
                break
            continue
        earlier = rows_by_id.setdefault(question.id, row.number)
        if earlier == row.number:
            read.members.append(Member(row.number, question))
        else:
            read.duplicates.append((row.number, earlier))
    if not skip_bad_rows or not read.members:
        _refuse(read.bad, name)
    if not any(member.question.answer for member in read.members):
        lacking = (
            f'no text in "{columns.solution}" has a \\boxed{{}} with the answer'
            if columns.answer is None
            else f'no row has an answer in column "{columns.answer}"'
        )
        raise InputError(
            f"{name}: {lacking}. Name the column of the answers with --column answer=NAME; available: "
            f"{', '.join(sorted(present))}."
        )
    return read


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
