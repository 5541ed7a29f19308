"""Import a source as a named set: read, check golds against themselves, compare, store."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol

from service.answer_kinds import AnswerKind
from service.database import Database
from service.questions.duplicates import compare_members
from service.questions.images import store_images
from service.questions.question import is_solution
from service.questions.reading import ReadRows
from service.questions.store import (
    Member,
    default_set_name,
    find_same_set,
    load_members,
    members_hash,
    store_set,
)
from service.runs.store import check_name
from service.telling import TellProgress, TellStage, tell_nobody


class AnswerChecker(Protocol):
    """What compares answers; the evaluator's `Grader` is one."""

    @property
    def version(self) -> str: ...

    def check_golds(self, golds: Sequence[str], progress: TellProgress | None = None) -> Sequence[Any]: ...

    def check_programs(self, golds: Sequence[tuple[str, str]]) -> Sequence[Any]: ...

    def equal_many(self, pairs: Sequence[tuple[str, str]]) -> Sequence[str]: ...


def store_import(
    db: Database,
    rows: ReadRows,
    grader: AnswerChecker,
    *,
    name: str | None = None,
    progress: TellStage = tell_nobody,
) -> tuple[dict[str, Any], list[str]]:
    """Check the rows of `read_source` and store them as a set, all of it in one transaction or nothing.

    A gold that does not grade as correct against itself is held back with the reason; tests, where the row's
    own program does not pass them, or where they pass without one. Importing the same questions under the
    same name again changes nothing.

    Returns:
        The machine-readable form, with rows counted from 0; and warnings, with the way out.
    """
    name = default_set_name(rows.opened.stem) if name is None else name
    check_name(name)
    content = members_hash((member.position, member.question.id) for member in rows.members)
    with db.read() as session:
        stored = find_same_set(session, name, content)
        members: Sequence[Member] = rows.members if stored is None else load_members(session, name)
    if stored is None:
        members = _check_golds(rows, grader, progress)

    def agree(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        if rows.kind is AnswerKind.CODE:
            return [first == second for first, second in pairs]
        return [value == "correct" for value in grader.equal_many(pairs)]

    listed: dict[str, list[Any]] = {
        "held": [member.to_json() for member in members if member.held is not None],
        "duplicates": [{"row": row, "earlier": earlier} for row, earlier in rows.duplicates],
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
    solutions = sum(
        member.held is None and rows.kind is not AnswerKind.CODE and is_solution(member.question.answer)
        for member in members
    )
    record = {
        "set": name,
        "source": rows.source,
        "created": stored is None,
        "rows": rows.rows,
        "usable": len(members) - len(listed["held"]),
        "new_questions": new_questions,
        "images": len(images),
        "new_images": new_images,
        "left_out_columns": dict(rows.left_out),
        "golds_that_are_solutions": solutions,
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


def _check_golds(rows: ReadRows, grader: AnswerChecker, progress: TellStage) -> list[Member]:
    """Return the members; those whose golds cannot be used are held back with the reason."""
    answers = [member.question.answer for member in rows.members]
    if rows.kind is AnswerKind.CODE:
        programs = [rows.references.get(member.question.id, "") for member in rows.members]
        grades = grader.check_programs(list(zip(answers, programs, strict=True)))
    else:
        grades = grader.check_golds(answers, partial(progress, "checking golds"))
    return [
        member if grade.value == "correct" else replace(member, held=_held_reason(grade, rows.kind))
        for member, grade in zip(rows.members, grades, strict=True)
    ]


def _held_reason(grade: Any, kind: AnswerKind) -> str:
    programs = kind is AnswerKind.CODE
    if grade.reason == "no answer":
        return "no tests" if programs else "no answer"
    if not programs:
        return f"gold answer graded against itself: {grade.value} ({grade.reason})"
    what = "its own solution does not pass" if grade.value == "wrong" else "its tests cannot be used"
    return f"{what}: {grade.extracted or grade.reason}"
