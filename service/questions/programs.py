"""Reads questions that ask for programs from rows: columns as HumanEval has them, as MBPP has, or plain ones.

HumanEval: `prompt` ends in the function asked for, `test` defines `check`, `entry_point` names the function.
MBPP: the tests are a list of statements, with what they need before them (`test_imports`, `test_setup_code`)
and more of them (`challenge_test_list`); only the first is shown to a model, as it names the function. Else
the column of tests holds Python, or a gold with cells as `gold` describes them.
"""

import ast
import builtins
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.answer_kinds import AnswerKind
from service.program_gold import ProgramGold, read_gold, write_gold
from service.questions.columns import (
    PROGRAM_CANDIDATES,
    Columns,
    RowLimits,
    RowProblem,
    labels,
    question_text,
    read_cell,
    text_of,
)
from service.questions.question import Question, make_question

ENTRY, SETUP, IMPORTS, MORE = "entry_point", "test_setup_code", "test_imports", "challenge_test_list"
PROGRAM_COLUMNS = frozenset(
    {ENTRY, SETUP, IMPORTS, MORE, *PROGRAM_CANDIDATES["answer"], *PROGRAM_CANDIDATES["solution"]}
)
"""Columns that are read wherever a source has them."""


def read_program(values: Mapping[str, Any], columns: Columns, limits: RowLimits) -> tuple[Question, str]:
    """Return the question of a row that asks for a program, and a program that answers it ("" for none).

    Raises:
        RowProblem: as `read_question`; or the function asked for has no name.
    """

    def cell(part: str) -> Any:
        """Return the value of a column, or of another usual one, as in files of mixed rows."""
        names = (getattr(columns, part), *PROGRAM_CANDIDATES[part])
        read = (read_cell(values, name, limits) for name in names)
        return next((value for value in read if value is not None), None)

    text, tests, entry = question_text(values, columns, limits), cell("answer"), values.get(ENTRY)
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests):
        tests = text_of(tests, "answer", columns.answer)
    reference = text_of(cell("solution"), "solution", columns.solution)
    if entry not in (None, "") and not (isinstance(entry, str) and entry.strip().isidentifier()):
        raise RowProblem(f'"{ENTRY}" is not a valid function name')
    asked = text
    if entry:
        name = entry.strip()
        code, begin = tests if isinstance(tests, str) else "\n".join(tests), f"def {name}("
        if "def check(" in code:
            code = f"{code.rstrip()}\n\ncheck({name})"
        gold = ProgramGold(code, (name,), text if begin in text else "")
        if gold.prompt and reference.strip() and begin not in reference:
            reference = f"{text.rstrip()}\n{reference}"
    elif isinstance(tests, list):
        reference = reference.replace("\r", "")
        lines = [line for part in (IMPORTS, SETUP) for line in _lines(values.get(part))]
        lines += [*_lines(tests), *_lines(values.get(MORE))]
        gold = ProgramGold("\n".join(lines).replace("\r", ""))
        if tests and (example := textwrap.indent(tests[0].strip(), "    ")):
            asked = f"{text.strip()}\n\nThe code has to pass this test:\n\n{example}"
    else:
        gold = read_gold(tests)
    gold = replace(gold, names=gold.names or _asked_for(gold.tests, reference))
    written = write_gold(gold) if tests else ""
    return make_question(asked, written, *labels(values, columns, limits), kind=AnswerKind.CODE), reference


def _lines(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    return [each.strip() for each in value or [] if isinstance(each, str)]


def _asked_for(tests: str, solution: str) -> tuple[str, ...]:
    """The names that tests use and the solution defines; without a solution, those that nobody defines."""
    try:
        tree = ast.parse(tests)
        defined = _defined(ast.parse(solution))
        own = _defined(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    used = dict.fromkeys(each.id for each in names)
    if solution.strip():
        return tuple(name for name in used if name in defined)
    return tuple(name for name in used if name not in own and not hasattr(builtins, name))


def _defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for each in ast.walk(tree):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add((other or name).split(".")[0])
    return names
