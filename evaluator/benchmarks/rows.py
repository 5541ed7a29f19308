"""Reads the rows of a source as problems: question, gold, kind of answer, tolerance, options."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluator.benchmarks.catalogue import Benchmark
from evaluator.evals.problems import Problem, make_problem, number_copies
from evaluator.grading import AnswerKind
from evaluator.grading.compare import read_tolerance
from service.errors import InputError, first_lines
from service.hashing import canonical_text, content_hash
from service.questions.columns import (
    Columns,
    RowLimits,
    RowProblem,
    column_of,
    lacking_columns,
    question_text,
    read_question,
    resolve,
)
from service.questions.files import JsonNumber, RawRow, Source
from service.questions.images import RowImages
from service.questions.programs import read_program

SETTING = '{} = "NAME" below [columns] of a .toml'
"""What names the column of a part of a benchmark."""

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
        exact: columns that are named must be there; a file may hold a known benchmark under other names.
        own: a benchmark of the user's own: `kind` counts, and rows as HumanEval or MBPP have them ask for
            programs.
    """
    only = benchmark.only
    rows = [row for row in source.rows if row.problem or only is None or row.values.get(only[0]) == only[1]]
    if not rows:
        raise InputError(f"{source.name}: contains no rows.")
    present = tuple(dict.fromkeys(name for row in rows for name in row.values))
    # Rows of HumanEval and MBPP have one of these columns.
    if own and benchmark.kind is AnswerKind.LATEX and not {"entry_point", "test_list"}.isdisjoint(present):
        benchmark = replace(benchmark, kind=AnswerKind.CODE)
    columns = _columns(benchmark, present, source.name, exact=exact, own=own)
    made: list[Problem] = []
    references: dict[str, str] = {}
    problems = []
    for row in rows:
        try:
            if row.problem:
                raise RowProblem(row.problem)
            if benchmark.kind is AnswerKind.CODE:
                question, reference = read_program(row.values, columns, RowLimits())
                made.append(make_problem(question.text, question.answer, AnswerKind.CODE))
                references[made[-1].id] = reference
                continue
            made.append(_problem(row.values, columns, benchmark, options_seed, images, own=own))
        except RowProblem as error:
            hidden = "cannot be used (rows of a gated benchmark are not shown)"
            problem = hidden if benchmark.gated else error.args[0]  # without the options of an import
            problems.append(f"{row.place}: {problem}")
            continue
        if own and benchmark.columns.question is None:
            _refuse_lacking(row, columns, made[-1].text, benchmark.columns.choices)
    if problems:
        raise InputError(
            f"{source.name}: {len(problems)} of {len(rows)} rows cannot be used:{first_lines(problems)}\nA "
            "benchmark must be complete. Fix these rows, or set other columns in [columns] of a .toml file."
        )
    return tuple(number_copies(made)), references


def _refuse_lacking(row: RawRow, columns: Columns, text: str, choices: str | None) -> None:
    lacking = [column for column in lacking_columns(row.values, columns, text) if column != choices]
    if lacking:
        parts = ", ".join(f'"{name}"' for name in row.values if name in (columns.question, *lacking))
        raise InputError(
            f'{row.place}: "{lacking[0]}" contains text that the question in "{columns.question}" lacks. '
            f"Define the question in a .toml: [columns], then question = [{parts}], or only "
            f'"{columns.question}".'
        )


def _columns(benchmark: Benchmark, present: Collection[str], name: str, *, exact: bool, own: bool) -> Columns:
    """Return the columns of question and answer; a copy of a known benchmark may name them otherwise."""
    wanted = benchmark.columns
    whole = [wanted.question, *wanted.options] if wanted.options else []  # no part of an object can be named
    whole += [wanted.kind, wanted.tolerance] if own else []
    if lacking := [each for each in whole if each and each not in present]:
        there = ", ".join(sorted(present)) or "none"
        raise InputError(f"{name}: no column {', '.join(map(repr, lacking))}; available: {there}.")
    if wanted.options:
        return Columns(question=wanted.question)
    named = {part: getattr(wanted, part) for part in ("question", "answer", "solution", "images")}
    if not exact:
        named = {part: each for part, each in named.items() if each and column_of(each, present)}
    columns = Columns(**named, further=wanted.further)
    return resolve(columns, present, name, benchmark.kind, SETTING)


def _problem(
    values: Mapping[str, Any],
    columns: Columns,
    benchmark: Benchmark,
    options_seed: int,
    images: RowImages,
    *,
    own: bool,
) -> Problem:
    wanted = benchmark.columns
    if wanted.options:
        text, *options = (_checked_text(values, name) for name in (columns.question or "", *wanted.options))
        return make_problem(*render_options(text, options, options_seed), AnswerKind.CHOICE)
    question = read_question(values, columns, RowLimits(), images)
    text, choices = question.text, values.get(wanted.choices) if wanted.choices else None
    kind = _short_text(values, wanted.kind or ("kind" if own else None))
    kind = wanted.kinds.get(kind or "", kind)
    if choices and not isinstance(choices, list):
        raise RowProblem(f'"{wanted.choices}" is not a list of choices')
    if choices:
        text, kind = list_choices(text, [_choice(choice) for choice in choices]), AnswerKind.CHOICE
    tolerance = _short_text(values, wanted.tolerance if wanted.tolerance in values else "tolerance")
    try:
        chosen = AnswerKind(kind.lower()) if kind else AnswerKind.TOLERANCE if tolerance else benchmark.kind
    except ValueError:
        kinds = ", ".join(AnswerKind)
        raise RowProblem(f'"{kind}" is not a valid kind of answer ({kinds})') from None
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
    return canonical_text(question_text({name: text}, Columns(question=name), RowLimits()))


def _short_text(values: Mapping[str, Any], column: str | None) -> str | None:
    value = values.get(column) if column else None
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, list | Mapping | bytes | bool):
        raise RowProblem(f'"{column}" is not text')
    return str(value).strip() or None


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
    return list_choices(question, [options[place] for place in order]), LETTERS[order.index(0)]
