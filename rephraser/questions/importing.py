"""Import a source as a named set: read its rows, check golds against themselves, compare, store."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from evaluator.grading import Grade, GradeCase, Grader
from rephraser.questions.duplicates import compare_members
from rephraser.questions.store import Member, find_same_set, load_members, members_hash, store_set
from service.answer_kinds import AnswerKind
from service.database import Database
from service.errors import InputError, first_lines
from service.questions.columns import (
    Columns,
    RowLimits,
    RowProblem,
    column_of,
    lacking_columns,
    read_question,
    resolve,
)
from service.questions.files import RawRow, Source
from service.questions.hub import open_source
from service.questions.images import RowImages, store_images
from service.questions.programs import PROGRAM_COLUMNS, read_program
from service.questions.question import is_solution
from service.runs.store import check_name, default_name
from service.telling import TellStage, tell_nobody

BAD_ROWS_BEFORE_GIVING_UP = 100


@dataclass
class ReadRows:
    """A source that was read: its questions in order, and what was odd about its rows."""

    opened: Source
    columns: Columns
    limits: RowLimits
    limit: int | None
    kind: AnswerKind  # of all of its questions
    images: RowImages = field(repr=False)
    rows: int = 0  # bad and repeated ones included
    members: list[Member] = field(default_factory=list)  # each different question once, at its first row
    duplicates: list[dict[str, int]] = field(default_factory=list)  # a row, and the equal earlier one
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
    """Read a file or a data set of the Hub: resolve its columns, check its rows, fold equal ones."""
    opened = open_source(source, configs, split, revision)
    name, present = opened.name, opened.columns
    columns = resolve(columns, present, name, kind)
    wanted = {column_of(each, present) for each in columns.names()}
    wanted.update(columns.left_out(present), PROGRAM_COLUMNS if kind is AnswerKind.CODE else ())
    read = ReadRows(opened, columns, limits, limit, kind, RowImages(opened.folder))
    rows_by_id: dict[str, int] = {}
    for row in opened.read([column for column in present if column in wanted]):
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
            read.duplicates.append({"row": row.number, "earlier": earlier})
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


def store_import(
    db: Database,
    rows: ReadRows,
    grader: Grader,
    *,
    name: str | None = None,
    progress: TellStage = tell_nobody,
) -> tuple[dict[str, Any], list[str]]:
    """Check the rows of `read_source` and store them as a set, all of it in one transaction or nothing.

    A gold that does not grade as correct against itself is held back with the reason; tests, if the row's own
    program does not pass them, or if they pass without one. Importing the same questions under the same name
    again changes nothing.

    Returns:
        The machine-readable form, with rows counted from 0; and warnings, with the way out.
    """
    name = check_name(default_name(rows.opened.stem) if name is None else name)
    content = members_hash((member.position, member.question.id) for member in rows.members)
    with db.read() as session:
        stored = find_same_set(session, name, content)
        members = [] if stored is None else load_members(session, name)
    if stored is None:
        members = _check_golds(rows, grader, progress)

    def agree(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        if rows.kind is AnswerKind.CODE:
            return [first == second for first, second in pairs]
        return [value == "correct" for value in grader.equal_many(pairs)]

    listed: dict[str, list[Any]] = {
        "held": [member.to_json() for member in members if member.held is not None],
        "duplicates": rows.duplicates,
        **compare_members(members, agree, partial(progress, "comparing texts")),
        "bad_rows": [f"{bad.place}: {bad.problem}" for bad in rows.bad],
    }
    images = {id: None for member in members for id in member.question.images}
    spec = {
        "kind": "import",
        **rows.opened.origin,
        "content_hash": content,
        "answer_kind": str(rows.kind),
        "columns": rows.columns.as_dict(),
        "further_columns": list(rows.columns.further),
        "answer_from": "answer column" if rows.columns.answer else "last box of the solution column",
        "limit": rows.limit,
        **vars(rows.limits),
        "images": len(images),
        "rows": rows.rows,
        **{key: len(values) for key, values in listed.items()},
        "grader": grader.version,
        "tagrpo": version("tagrpo"),
    }
    new_questions = new_images = 0
    if stored is None:
        with db.write() as session:
            # Another process may have been quicker since we looked.
            stored = find_same_set(session, name, content)
            if stored is None:
                new_images = store_images(session, rows.images.read(images))
                new_questions = store_set(session, name, members, spec)
    answers = [member.question.answer for member in members if member.held is None]
    record = {
        "set": name,
        "source": rows.opened.origin["source"],
        "created": stored is None,
        "rows": rows.rows,
        "usable": len(answers),
        "new_questions": new_questions,
        "images": len(images),
        "new_images": new_images,
        "left_out_columns": dict(rows.left_out),
        "golds_that_are_solutions": 0 if rows.kind is AnswerKind.CODE else sum(map(is_solution, answers)),
        **listed,
        "spec": spec if stored is None else stored.spec,
    }
    return record, list(_warnings(rows, record))


def _warnings(rows: ReadRows, record: dict[str, Any]) -> Iterator[str]:
    if held := record["held"]:
        yield f"{len(held):,} held back (`tagrpo questions list {record['set']} --held`)"
    if conflicts := record["conflicts"]:
        yield f"rows whose answer contradicts an earlier row: {len(conflicts):,}"
    if rows.bad:
        yield f"rows left out: {len(rows.bad):,}"
    if rows.left_out:
        columns = filter(None, (rows.columns.question, *rows.columns.further, *rows.left_out))
        options = " ".join(f"--column {shlex.quote(f'question={column}')}" for column in columns)
        yield (
            f"questions may lack the content of {', '.join(rows.left_out)}: in "
            f"{max(rows.left_out.values()):,} rows, these columns contain text that the question lacks. If "
            "the questions need it, import under another --name and list the question's columns in order: "
            f"{options}"
        )
    if solutions := record["golds_that_are_solutions"]:
        yield (
            f"gold answers that are whole solutions, which hardly any response matches: {solutions:,}. "
            "Import under another --name and name the column of the final answer with --column answer=NAME. "
            "From a solution column, tagrpo reads the last \\boxed{} or the text after ####"
        )


def _check_golds(rows: ReadRows, grader: Grader, progress: TellStage) -> list[Member]:
    """Return the members; those whose golds cannot be used are held back with the reason."""
    questions = [member.question for member in rows.members]
    cases = [GradeCase(rows.references.get(each.id, ""), each.answer, rows.kind) for each in questions]
    grades = grader.check_golds(cases, partial(progress, "checking golds"))
    return [
        member if grade.value == "correct" else replace(member, held=_held_reason(grade, rows.kind))
        for member, grade in zip(rows.members, grades, strict=True)
    ]


def _held_reason(grade: Grade, kind: AnswerKind) -> str:
    if grade.reason == "no answer":
        return "no tests" if kind is AnswerKind.CODE else "no answer"
    if kind is not AnswerKind.CODE:
        return f"gold answer graded against itself: {grade.value} ({grade.reason})"
    what = "its own solution does not pass" if grade.value == "wrong" else "its tests cannot be used"
    return f"{what}: {grade.extracted or grade.reason}"
