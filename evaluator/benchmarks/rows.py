"""Reads the rows of a source as problems: question, gold, kind of answer, tolerance, options."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.benchmarks.options import render_options
from evaluator.benchmarks.types import BenchmarkColumns
from evaluator.evals.problems import Problem, make_problem, number_copies
from evaluator.grading import AnswerKind
from evaluator.grading.kinds import read_tolerance
from service.errors import InputError
from service.questions.columns import Columns, RowLimits, RowProblem, read_question, resolve
from service.questions.files import BadRow, JsonNumber, RawRow, Source

ROWS_NAMED = 5
_DEGREES = re.compile(r"\^(?:\{\\circ\}|\\circ)|°")
_INTEGER = re.compile(r"([-+]?)(\d+|\d{1,3}(?:,\d{3})+)(?:\.0*)?")


@dataclass(frozen=True)
class RowRules:
    """How rows become problems; `exact` means that every named column must be there (a Hub data set)."""

    columns: BenchmarkColumns
    kind: AnswerKind
    tolerance: str | None
    options_seed: int
    secret: bool  # say nothing of a row's content
    exact: bool
    own: bool  # a benchmark of the user's own: extra columns that are named must be there, `kind` counts


def read_problems(source: Source, rules: RowRules) -> tuple[Problem, ...]:
    """Read every row of a source as a problem, in order; repeated ones are numbered.

    Raises:
        InputError: a column is missing, there are no rows, or rows cannot be used; the message names them.
    """
    rows = list(source.rows)
    good = [row for row in rows if isinstance(row, RawRow)]
    problems = [_describe(row.place, row.problem, rules.secret) for row in rows if isinstance(row, BadRow)]
    if not rows:
        raise InputError(f"{source.name}: there are no rows in it.")
    made: list[Problem] = []
    if good:
        present = source.columns or tuple(dict.fromkeys(name for row in good for name in row.values))
        columns, extra = _columns(rules, present, source.name)
        for row in good:
            try:
                made.append(_problem(row.values, columns, extra, rules))
            except RowProblem as problem:
                problems.append(_describe(row.place, _cause(problem), rules.secret))
    if problems:
        more = f"\n  and {len(problems) - ROWS_NAMED} more" if len(problems) > ROWS_NAMED else ""
        named = "\n  ".join(problems[:ROWS_NAMED])
        raise InputError(
            f"{source.name}: {len(problems)} of {len(rows)} rows cannot be used:\n  {named}{more}\n"
            "A benchmark is taken whole; mend these rows."
        )
    return tuple(number_copies(made))


def _describe(place: str, problem: str, secret: bool) -> str:
    return (
        f"{place}: cannot be used (rows of a gated benchmark are not shown)"
        if secret
        else f"{place}: {problem}"
    )


def _cause(problem: RowProblem) -> str:
    """What is wrong, without the ways out of an import, which benchmarks do not have."""
    return str(problem).partition("; ")[0]


def _columns(rules: RowRules, present: Collection[str], name: str) -> tuple[Columns, BenchmarkColumns]:
    """Return the columns of question and answer, and the extra ones, of those there are."""
    wanted = rules.columns
    if wanted.options:
        missing = [column for column in (wanted.question, *wanted.options) if column not in present]
        if missing:
            raise InputError(f"{name}: no column {', '.join(map(repr, missing))}; {_there(present)}.")
        return Columns(question=wanted.question), BenchmarkColumns(options=wanted.options)
    asked = {"question": wanted.question, "answer": wanted.answer, "solution": wanted.solution}
    if not rules.exact:  # a file may hold the same rows under other names
        asked = {
            part: column for part, column in asked.items() if column is not None and _has(present, column)
        }
        if "answer" in asked:
            asked.pop("solution", None)
    try:
        columns = resolve(Columns(**asked), present, name)
    except InputError:
        missing = [column for column in asked.values() if column and not _has(present, column)]
        what = f"no column {', '.join(map(repr, missing))}" if missing else "no question and answer found"
        raise InputError(
            f"{name}: {what}; {_there(present)}. A .toml names other columns: [columns], question = ..."
        ) from None
    extra: dict[str, str | None] = {}
    for part in ("kind", "tolerance"):
        column = getattr(wanted, part)
        if column is not None and column not in present and rules.own:
            raise InputError(f'{name}: no column "{column}"; {_there(present)}.')
        usual = part in present and (part == "tolerance" or rules.own)
        extra[part] = column if column in present else part if usual else None
    return columns, BenchmarkColumns(kind=extra["kind"], tolerance=extra["tolerance"])


def _has(present: Collection[str], column: str) -> bool:
    return column in present or column.split(".")[0] in present


def _there(present: Collection[str]) -> str:
    return f"there are: {', '.join(sorted(present)) or 'none'}"


def _problem(
    values: Mapping[str, Any], columns: Columns, extra: BenchmarkColumns, rules: RowRules
) -> Problem:
    if extra.options:
        return _choice(values, columns, extra.options, rules.options_seed)
    question = read_question(values, columns, RowLimits())
    tolerance = _short_text(values.get(extra.tolerance), extra.tolerance) if extra.tolerance else None
    kind = _short_text(values.get(extra.kind), extra.kind) if extra.kind else None
    chosen = _kind(kind) if kind else AnswerKind.TOLERANCE if tolerance else rules.kind
    if chosen is AnswerKind.TOLERANCE:
        tolerance = tolerance or rules.tolerance
        try:
            read_tolerance(tolerance)
        except InputError as error:
            raise RowProblem(str(error)) from error
    elif tolerance:
        raise RowProblem(f'has a tolerance, but the kind "{chosen}"; only the kind "tolerance" takes one')
    answer = canonical_integer(question.answer) if chosen is AnswerKind.INTEGER else question.answer
    return make_problem(question.text, answer, chosen, tolerance)


def _choice(values: Mapping[str, Any], columns: Columns, names: Sequence[str], seed: int) -> Problem:
    rendered, letter = render_options(
        _checked_text(values, columns.question or ""), [_checked_text(values, name) for name in names], seed
    )
    return make_problem(rendered, letter, AnswerKind.CHOICE)


def _checked_text(values: Mapping[str, Any], name: str) -> str:
    """The text of a column, checked as a question is; an option may also be a number."""
    value = values.get(name)
    text = str(value) if isinstance(value, int | float | JsonNumber) else value
    return read_question(
        {name: text, "answer": ""}, Columns(question=name, answer="answer"), RowLimits()
    ).text


def _short_text(value: Any, column: str) -> str | None:
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, list | Mapping | bytes | bool):
        raise RowProblem(f'"{column}" is no text')
    return str(value).strip() or None


def _kind(name: str) -> AnswerKind:
    try:
        return AnswerKind(name.lower())
    except ValueError:
        raise RowProblem(f'"{name}" is no kind of answer ({", ".join(AnswerKind)})') from None


def canonical_integer(answer: str) -> str:
    r"""Return an integer in its plain spelling: `27.0`, `027`, `1,450,000` and `336^\circ` lose what varies.

    Copies of one benchmark spell the same golds differently. Anything else is returned as it is.
    """
    bare = _DEGREES.sub("", answer.strip().strip("$")).strip()
    found = _INTEGER.fullmatch(bare)
    if found is None:
        return answer
    value = int(found[2].replace(",", ""))
    return str(-value if found[1] == "-" else value)
