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
from typing import Any

from service.program_gold import ProgramGold, read_gold, write_gold

ENTRY, SETUP, IMPORTS, MORE = "entry_point", "test_setup_code", "test_imports", "challenge_test_list"
BESIDE = (ENTRY, SETUP, IMPORTS, MORE)
"""Columns that are read wherever a source has them."""


def read_asked(
    row: Mapping[str, Any], text: str, tests: str | list[str], solution: str
) -> tuple[str, str, str]:
    """Return the text and the gold of what a row asks for, and a program that answers it ("" for none).

    Args:
        row: for the columns `BESIDE`.
        text, tests, solution: of the question's, the tests' and the solution's column; a list are statements.

    Raises:
        ValueError: the function asked for has no name.
    """
    entry = row.get(ENTRY)
    if entry not in (None, "") and not (isinstance(entry, str) and entry.strip().isidentifier()):
        raise ValueError(f'"{ENTRY}" is not a valid function name')
    if entry:
        return _humaneval(
            text, tests if isinstance(tests, str) else "\n".join(tests), entry.strip(), solution
        )
    if isinstance(tests, list):
        solution = solution.replace("\r", "")
        lines = [*_lines(row.get(IMPORTS)), *_lines(row.get(SETUP)), *_lines(tests), *_lines(row.get(MORE))]
        gold = ProgramGold("\n".join(lines).replace("\r", ""))
        if tests and (example := textwrap.indent(tests[0].strip(), "    ")):
            text = f"{text.strip()}\n\nThe code has to pass this test:\n\n{example}"
    else:
        gold = read_gold(tests)
    names = gold.names or _asked_for(gold.tests, solution)
    return text, write_gold(ProgramGold(gold.tests, names, gold.prompt)), solution


def _humaneval(text: str, tests: str, entry: str, solution: str) -> tuple[str, str, str]:
    in_prompt = f"def {entry}(" in text
    if "def check(" in tests:
        tests = f"{tests.rstrip()}\n\ncheck({entry})"
    whole = not in_prompt or f"def {entry}(" in solution or not solution.strip()
    reference = solution if whole else f"{text.rstrip()}\n{solution}"
    return text, write_gold(ProgramGold(tests, (entry,), text if in_prompt else "")), reference


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
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(each.name)
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            names.add(each.id)
        elif isinstance(each, ast.alias):
            names.add((each.asname or each.name).split(".")[0])
        elif isinstance(each, ast.arg):
            names.add(each.arg)
    return names
