"""The user's own grader, `module:function`: its version and its grades.

    def grade(response: str, gold: str) -> bool | None: ...

It may also take `kind` and `tolerance` by these names. True (or 1) is correct, False (or 0) wrong, None
unknown.
"""

import inspect
from functools import lru_cache
from typing import Any

from evaluator.grading.types import CRASHED, Grade, GradeCase, GradeValue
from service.errors import InputError
from service.own_code import is_own, load_function, source_hash

_PREFIX = "own grader "


def own_version(name: str) -> str:
    """Return the version under which the grades of such a grader are stored: its name and its file's hash.

    Raises:
        InputError: it is no `module:function`, or there is none.
    """
    if not is_own(name):
        raise InputError(f"--grader {name}: give module:function, such as my_grader:grade.")
    load_function(name, f"--grader {name}")
    return f"{_PREFIX}{name}; sha256 {source_hash(name)[:16]}"


def own_name(version: str) -> str | None:
    """Return the `module:function` of the version of a grader of a user's own, None for that of the rules."""
    return version.removeprefix(_PREFIX).partition(";")[0] if version.startswith(_PREFIX) else None


def grade_by_own(version: str, case: GradeCase) -> Grade:
    """Return what the function says; what is neither right, wrong nor None is "crashed", as an error is.

    Raises:
        InputError: its file is another by now.
    """
    function, taken = _function(version)
    offered = {"kind": case.kind.value, "tolerance": case.tolerance}
    value = function(case.response, case.gold, **{key: offered[key] for key in taken & offered.keys()})
    if value is not None and value not in (0, 1):
        return CRASHED
    known = GradeValue.CORRECT if value else GradeValue.WRONG
    return Grade(GradeValue.UNKNOWN if value is None else known, None, "own grader")


@lru_cache
def _function(version: str) -> tuple[Any, frozenset[str]]:
    name = own_name(version) or ""
    if own_version(name) != version:
        raise InputError(f"--grader {name}: its file changed during the run. Start the command again.")
    function = load_function(name, f"--grader {name}")
    return function, frozenset(inspect.signature(function).parameters)
