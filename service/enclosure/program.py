"""Loads the program, then calls its functions for the tests' process, until it is killed.

Nothing here is trusted once the program has been loaded: the tests' process reads its answers as data.
"""

import builtins
import contextlib
import itertools
import operator
import symtable
import sys
import types
from collections.abc import Iterator
from typing import Any

from service.enclosure.channel import Stream, decode, encode, receive, send

_MAX_TEXT = 300  # characters of an error's message
_MAX_CUTS = 20
_NAME = "program"


def serve(end: Stream, sources: list[str], helpers: str, names: list[str]) -> None:
    """Run the helpers and a source as one module, send the names they define, and answer calls."""
    module = types.ModuleType(_NAME)
    sys.modules[_NAME] = module
    sys.argv = [_NAME]
    try:
        for code in (_compiled(helpers), choose(sources, names)):
            exec(code, module.__dict__)
    except BaseException as error:
        send(end, _raised(error))
        return
    defined = [name for name in vars(module) if not name.startswith("__")]
    objects: list[Any] = []
    send(end, {"names": defined})
    while True:
        request = receive(end)
        objects[: len(defined)] = map(vars(module).get, defined)  # the program may have changed its globals
        try:
            send(end, _answer(request, objects))
        except MemoryError as error:
            send(end, _raised(error))


def choose(candidates: list[str], names: list[str]) -> types.CodeType:
    """Return the code of the first candidate that is Python and defines one of the names.

    If there is none, cut candidates at their first error, since responses are cut off or go on in English.
    If that does not help, return the first one that is Python. Raise the first one's SyntaxError if none is.
    """
    for cuts in (0, _MAX_CUTS):
        for candidate in candidates:
            if (code := _defining(candidate, names, cuts)) is not None:
                return code
    for candidate in candidates[1:]:
        with contextlib.suppress(SyntaxError, ValueError):
            return _compiled(candidate)
    return _compiled(candidates[0])


def _defining(source: str, names: list[str], cuts: int) -> types.CodeType | None:
    """Return the code of a source that defines one of the names, cut at its first error if need be."""
    for _ in range(cuts + 1):
        try:
            code = _compiled(source)
            symbols = symtable.symtable(source, _NAME, "exec").get_symbols()
        except SyntaxError as error:
            source = "\n".join(source.split("\n")[: (error.lineno or 1) - 1])
            if not source.strip():
                return None
        except ValueError:
            return None
        else:
            defines = any(each.is_assigned() and each.get_name() in names for each in symbols)
            return code if defines or not names else None
    return None


def _compiled(source: str) -> types.CodeType:
    return compile(source, f"<{_NAME}>", "exec", dont_inherit=True)


def _answer(request: dict[str, Any], objects: list[Any]) -> dict[str, Any]:
    """Apply a function of `builtins` or `operator` to the program's objects and plain data."""

    def refer(value: object) -> int:
        objects.append(value)
        return len(objects) - 1

    try:
        do = request["do"]
        function = _take if do == "take" else getattr(builtins, do, None) or getattr(operator, do)
        sent = request["args"]
        args = [decode(each, objects.__getitem__) for each in sent]
        named = {name: decode(each, objects.__getitem__) for name, each in request["named"].items()}
        answer = {"value": encode(function(*args, **named), refer)}
        # The tests' process repeats the program's changes to lists that it was given, not to the program's.
        changed = {
            place: now
            for place, (arg, before) in enumerate(zip(args, sent, strict=True))
            if isinstance(arg, list | dict | set | bytearray)
            and not (isinstance(before, dict) and "object" in before)
            and (now := encode(arg, refer)) != before
        }
        return {**answer, "changed": changed} if changed else answer
    except BaseException as error:
        return _raised(error)


def _take(iterator: Iterator[Any], number: int) -> list[Any]:
    return list(itertools.islice(iterator, number))


def _raised(error: BaseException) -> dict[str, Any]:
    """Name the nearest built-in class, so that tests that expect an error find it."""
    try:
        name = next(
            each.__name__ for each in type(error).__mro__ if vars(builtins).get(each.__name__) is each
        )
        return {"raised": name, "class": type(error).__name__, "text": str(error)[:_MAX_TEXT]}
    except BaseException:
        return {"raised": "Exception", "class": "Exception", "text": ""}
