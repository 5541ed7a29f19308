"""Reads the rows of a source as problems: question, gold, kind of answer, tolerance, options."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluator.benchmarks.types import Benchmark, BenchmarkColumns
from evaluator.evals.problems import Problem, make_problem, number_copies
from evaluator.grading import AnswerKind
from evaluator.grading.compare import read_tolerance
from service.errors import InputError
from service.hashing import content_hash
from service.questions.columns import (
    Columns,
    RowLimits,
    RowProblem,
    lacking_columns,
    read_program,
    read_question,
    resolve,
)
from service.questions.files import BadRow, JsonNumber, RawRow, Source
from service.questions.images import RowImages

ROWS_NAMED = 5
TESTED = frozenset({"entry_point", "test_list"})
"""Columns by which rows of HumanEval and MBPP are known."""
LETTERS = "ABCDEFGHIJ"
"""Of the options of a multiple-choice question."""

_DEGREES = re.compile(r"\^(?:\{\\circ\}|\\circ)|°")
_INTEGER = re.compile(r"([-+]?)(\d{1,4000}|\d{1,3}(?:,\d{3}){1,1000})(?:\.0*)?")  # Python reads 4,300 digits


def read_problems(
    source: Source, benchmark: Benchmark, images: RowImages, *, options_seed: int, exact: bool, own: bool
) -> tuple[tuple[Problem, ...], dict[str, str]]:
    """Read every row of a source as a problem of a benchmark, in order; repeated ones are numbered.

    Also returned are programs that have to pass a problem's tests, by its id, where rows have them.

    Args:
        images: keeps the images of the rows.
        options_seed: shuffles the options of multiple-choice questions.
        exact: every named column must be there (a Hub data set); a file may hold the rows under other names.
        own: a benchmark of the user's own: extra columns that are named must be there, `kind` counts, and
            rows as HumanEval or MBPP have them ask for programs.
    """
    only = benchmark.only
    rows = [
        row
        for row in source.rows
        if isinstance(row, BadRow) or only is None or row.values.get(only[0]) == only[1]
    ]
    good = [row for row in rows if isinstance(row, RawRow)]
    problems = [_describe(row.place, row.problem, benchmark) for row in rows if isinstance(row, BadRow)]
    if not rows:
        raise InputError(f"{source.name}: contains no rows.")
    made: list[Problem] = []
    references: dict[str, str] = {}
    if good:
        present = source.columns or tuple(dict.fromkeys(name for row in good for name in row.values))
        if own and benchmark.kind is AnswerKind.LATEX and not TESTED.isdisjoint(present):
            benchmark = replace(benchmark, kind=AnswerKind.CODE)
        programs = benchmark.kind is AnswerKind.CODE
        columns, extra = _columns(benchmark, present, source.name, exact=exact, own=own)
        for row in good:
            try:
                if programs:
                    question, reference = read_program(row.values, columns, RowLimits())
                    made.append(make_problem(question.text, question.answer, AnswerKind.CODE))
                    references[made[-1].id] = reference
                    continue
                problem = _problem(row.values, columns, extra, benchmark, options_seed, images)
                if own and benchmark.columns.question is None:
                    _refuse_lacking(row, columns, extra, problem.text)
                made.append(problem)
            except RowProblem as error:
                problems.append(_describe(row.place, str(error).partition("; ")[0], benchmark))
    if problems:
        more = f"\n  and {len(problems) - ROWS_NAMED} more" if len(problems) > ROWS_NAMED else ""
        named = "\n  ".join(problems[:ROWS_NAMED])
        raise InputError(
            f"{source.name}: {len(problems)} of {len(rows)} rows cannot be used:\n  {named}{more}\nA "
            "benchmark must be complete; fix these rows."
        )
    return tuple(number_copies(made)), references


def _describe(place: str, problem: str, benchmark: Benchmark) -> str:
    hidden = "cannot be used (rows of a gated benchmark are not shown)"
    return f"{place}: {hidden if benchmark.gated else problem}"


def _refuse_lacking(row: RawRow, columns: Columns, extra: BenchmarkColumns, text: str) -> None:
    lacking = [column for column in lacking_columns(row.values, columns, text) if column != extra.choices]
    if lacking:
        parts = ", ".join(f'"{name}"' for name in row.values if name in (columns.question, *lacking))
        raise InputError(
            f'{row.place}: "{lacking[0]}" contains text that the question in "{columns.question}" lacks. '
            f"Define the question in a .toml: [columns], then question = [{parts}], or only "
            f'"{columns.question}".'
        )


def _columns(
    benchmark: Benchmark, present: Collection[str], name: str, *, exact: bool, own: bool
) -> tuple[Columns, BenchmarkColumns]:
    """Return the columns of question and answer, and the extra ones, of those there are."""
    wanted = benchmark.columns
    if wanted.options:
        missing = [column for column in (wanted.question, *wanted.options) if column not in present]
        if missing:
            raise InputError(f"{name}: no column {', '.join(map(repr, missing))}; {_there(present)}.")
        return Columns(question=wanted.question), BenchmarkColumns(options=wanted.options)
    asked = {
        "question": wanted.question,
        "answer": wanted.answer,
        "solution": wanted.solution,
        "images": wanted.images,
    }
    if not exact:
        asked = {
            part: column for part, column in asked.items() if column is not None and _has(present, column)
        }
        if "answer" in asked and benchmark.kind is not AnswerKind.CODE:
            asked.pop("solution", None)
    try:
        columns = resolve(Columns(**asked, further=wanted.further), present, name, benchmark.kind)
    except InputError:
        missing = [
            column for column in (*asked.values(), *wanted.further) if column and not _has(present, column)
        ]
        what = f"no column {', '.join(map(repr, missing))}" if missing else "no question and answer found"
        raise InputError(
            f"{name}: {what}; {_there(present)}. Choose other columns in a .toml: [columns], question = ..."
        ) from None
    extra: dict[str, str | None] = {}
    for part in ("kind", "tolerance"):
        column = getattr(wanted, part)
        if column is not None and column not in present and own:
            raise InputError(f'{name}: no column "{column}"; {_there(present)}.')
        usual = part in present and (part == "tolerance" or own)
        extra[part] = column if column in present else part if usual else None
    choices = wanted.choices if wanted.choices in present else None
    return columns, BenchmarkColumns(
        kind=extra["kind"], tolerance=extra["tolerance"], choices=choices, kinds=wanted.kinds
    )


def _has(present: Collection[str], column: str) -> bool:
    return column in present or column.split(".")[0] in present


def _there(present: Collection[str]) -> str:
    return f"available: {', '.join(sorted(present)) or 'none'}"


def _problem(
    values: Mapping[str, Any],
    columns: Columns,
    extra: BenchmarkColumns,
    benchmark: Benchmark,
    options_seed: int,
    images: RowImages,
) -> Problem:
    if extra.options:
        text, *options = (_checked_text(values, name) for name in (columns.question or "", *extra.options))
        rendered, letter = render_options(text, options, options_seed)
        return make_problem(rendered, letter, AnswerKind.CHOICE)
    question = read_question(values, columns, RowLimits(), images)
    text = question.text
    choices = values.get(extra.choices) if extra.choices else None
    if choices and not isinstance(choices, list):
        raise RowProblem(f'"{extra.choices}" is not a list of choices')
    if choices:
        text = list_choices(text, [_choice(choice) for choice in choices])
    tolerance = _short_text(values.get(extra.tolerance), extra.tolerance) if extra.tolerance else None
    kind = _short_text(values.get(extra.kind), extra.kind) if extra.kind else None
    if choices:
        kind = AnswerKind.CHOICE
    elif kind is not None:
        kind = extra.kinds.get(kind, kind)
    chosen = _kind(kind) if kind else AnswerKind.TOLERANCE if tolerance else benchmark.kind
    if chosen is AnswerKind.TOLERANCE:
        tolerance = tolerance or benchmark.tolerance
        try:
            read_tolerance(tolerance)
        except InputError as error:
            raise RowProblem(str(error)) from error
    elif tolerance:
        raise RowProblem(f'has a tolerance, but its kind is "{chosen}". Only kind "tolerance" uses one')
    answer = canonical_integer(question.answer) if chosen is AnswerKind.INTEGER else question.answer
    return make_problem(text, answer, chosen, tolerance, question.images)


def list_choices(text: str, choices: Sequence[str]) -> str:
    """Return a text with its choices as (A), (B), ...; letters alone name parts of its image and stay out."""
    if list(choices) == list(LETTERS[: len(choices)]):
        return text
    if len(choices) > len(LETTERS):
        raise RowProblem(f"{len(choices)} choices are more than the maximum of {len(LETTERS)}")
    lines = [f"({letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    return "\n".join([text, "", *lines])


def _choice(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise RowProblem("a choice is not text")
    return str(value).strip()


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
        raise RowProblem(f'"{column}" is not text')
    return str(value).strip() or None


def _kind(name: str) -> AnswerKind:
    try:
        return AnswerKind(name.lower())
    except ValueError:
        raise RowProblem(f'"{name}" is not a valid kind of answer ({", ".join(AnswerKind)})') from None


def canonical_integer(answer: str) -> str:
    r"""Return an integer in its plain spelling: `27.0`, `027`, `1,450,000` and `336^\circ` lose what varies.

    Copies of one benchmark spell the same golds differently. Anything else is returned as it is.
    """
    bare = _DEGREES.sub("", answer.strip().strip("$")).strip()
    match = _INTEGER.fullmatch(bare)
    if match is None:
        return answer
    value = int(match[2].replace(",", ""))
    return str(-value if match[1] == "-" else value)


def render_options(question: str, options: Sequence[str], seed: int) -> tuple[str, str]:
    """Return the question's text with its options as (A), (B), ..., and the letter of the right one.

    `options` holds the right option first. The order depends on the seed, the question and the options, not
    on the row's place, so that other copies of the same question are shuffled alike.
    """
    if not 2 <= len(options) <= len(LETTERS):
        raise ValueError(f"{len(options)} options; a multiple-choice question needs 2 to {len(LETTERS)}")
    keys = [
        content_hash("option-order", [seed, question, list(options), place]) for place in range(len(options))
    ]
    order = sorted(range(len(options)), key=keys.__getitem__)
    lines = [f"({letter}) {options[place]}" for letter, place in zip(LETTERS, order, strict=False)]
    return "\n".join([question, "", *lines]), LETTERS[order.index(0)]
