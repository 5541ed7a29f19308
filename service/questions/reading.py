"""Reads a whole source into members of a set: columns found, rows checked, exact duplicates folded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from service.answer_kinds import AnswerKind
from service.errors import InputError, first_lines
from service.questions import hub
from service.questions.columns import (
    Columns,
    RowLimits,
    RowProblem,
    lacking_columns,
    read_question,
    resolve,
)
from service.questions.files import RawRow, Source, open_file
from service.questions.images import RowImages
from service.questions.programs import PROGRAM_COLUMNS, read_program
from service.questions.store import Member

BAD_ROWS_BEFORE_GIVING_UP = 100


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
    bad: list[RawRow] = field(default_factory=list)  # with their problems
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
    name, present = opened.name, opened.columns
    columns = resolve(columns, present, name, kind)
    tops = {each if each in present else each.split(".")[0] for each in columns.names()}
    tops |= set(columns.left_out(present))
    if kind is AnswerKind.CODE:
        tops |= PROGRAM_COLUMNS
    read = ReadRows(source, opened, columns, limits, limit, kind, RowImages(opened.folder))
    rows_by_id: dict[str, int] = {}
    for row in opened.read([column for column in present if column in tops]):
        if limit is not None and row.number >= limit:
            break
        read.rows += 1
        try:
            if row.problem:
                raise RowProblem(row.problem)
            if kind is AnswerKind.CODE:
                question, reference = read_program(row.values, columns, limits)
                read.references.setdefault(question.id, reference)
            else:
                question = read_question(row.values, columns, limits, read.images)
                read.left_out.update(lacking_columns(row.values, columns, question.text))
        except (RowProblem, RecursionError) as problem:  # values may be nested deeply
            read.bad.append(replace(row, values={}, problem=str(problem)))
            if len(read.bad) >= BAD_ROWS_BEFORE_GIVING_UP and not skip_bad_rows:
                break
            continue
        earlier = rows_by_id.setdefault(question.id, row.number)
        if earlier == row.number:
            read.members.append(Member(row.number, question))
        else:
            read.duplicates.append((row.number, earlier))
    if not read.rows:
        raise InputError(f"{name}: contains no rows.")
    if read.bad and not (skip_bad_rows and read.members):
        listed = first_lines([f"{row.place}: {row.problem}" for row in read.bad])
        least = "at least " if len(read.bad) >= BAD_ROWS_BEFORE_GIVING_UP else ""
        raise InputError(
            f"{name}: {least}{len(read.bad)} row{'s' * (len(read.bad) > 1)} cannot be used, so nothing was "
            f"imported:{listed}\nFix them, or pass --skip-bad-rows to leave them out."
        )
    if not any(member.question.answer for member in read.members):
        place = f'column "{columns.answer}"' if columns.answer else f'a \\boxed{{}} in "{columns.solution}"'
        raise InputError(
            f"{name}: no row has an answer in {place}. Name the column of the answers with --column "
            f"answer=NAME; available: {', '.join(sorted(present))}."
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
