"""Loads the program, then calls its functions for the tests' process, until it is killed.

Nothing here is trusted once the program has been loaded: the tests' process reads its answers as data.
"""

import ast
import builtins
import contextlib
import itertools
import operator
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from service.enclosure.channel import Malformed, decode, encode, pack, receive

_MAX_ITEMS = 1_000_000
_MAX_TEXT = 300  # characters of an error's message
_MAX_CUTS = 20
_NAME = "program"


def serve(end: socket.socket, candidates: list[str], helpers: str, names: list[str]) -> None:
    """Run the helpers and a candidate as one module, send the names they define, and answer calls."""
    module = types.ModuleType(_NAME)
    sys.modules[_NAME] = module
    sys.argv = [_NAME]
    try:
        for code in (_compiled(helpers), choose(candidates, names)):
            exec(code, module.__dict__)
    except BaseException as error:
        end.sendall(pack(_raised(error)))
        return
    end.sendall(pack({"names": [name for name in vars(module) if not name.startswith("__")]}))
    objects: list[Any] = []
    while (request := receive(end.recv)) is not None:
        answer = _answer(request, vars(module), objects)
        try:
            end.sendall(pack(answer))
        except Malformed:
            end.sendall(
                pack({"raised": "MemoryError", "class": "MemoryError", "text": "the result is too long"})
            )


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
            tree = ast.parse(source)
            code = _compiled(source)
        except SyntaxError as error:
            source = "\n".join(source.split("\n")[: (error.lineno or 1) - 1])
            if not source.strip():
                return None
        except ValueError:
            return None
        else:
            return code if not names or not _defined(tree).isdisjoint(names) else None
    return None


def _defined(tree: ast.Module) -> set[str]:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = {each.name for each in ast.walk(tree) if isinstance(each, definitions)}
    stored = (
        each for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    )
    return names | {each.id for each in stored}


def _compiled(source: str) -> types.CodeType:
    return compile(source, f"<{_NAME}>", "exec", dont_inherit=True)


def _answer(request: dict[str, Any], names: dict[str, Any], objects: list[Any]) -> dict[str, Any]:
    def refer(value: object) -> int:
        objects.append(value)
        return len(objects) - 1

    try:
        about = names[request["name"]] if "name" in request else objects[request["object"]]
        sent = request["args"]
        args = [decode(each, objects.__getitem__) for each in sent]
        named = {name: decode(each, objects.__getitem__) for name, each in request["named"].items()}
        if request["do"] == "call":
            value = about(*args, **named)
        else:
            value = _DO[request["do"]](about, *args)
        answer = {"value": encode(value, refer)}
        # The tests' process repeats the program's changes to lists that it was given.
        changed = {
            place: now
            for place, (arg, before) in enumerate(zip(args, sent, strict=True))
            if isinstance(arg, list | dict | set | bytearray) and (now := encode(arg, refer)) != before
        }
        return {**answer, "changed": changed} if changed else answer
    except BaseException as error:
        return _raised(error)


def _raised(error: BaseException) -> dict[str, Any]:
    """Name the nearest built-in class, so that tests that expect an error find it."""
    try:
        name = next(
            each.__name__ for each in type(error).__mro__ if vars(builtins).get(each.__name__) is each
        )
        return {"raised": name, "class": type(error).__name__, "text": str(error)[:_MAX_TEXT]}
    except BaseException:
        return {"raised": "Exception", "class": "Exception", "text": ""}


_DO: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "items": lambda value: list(itertools.islice(value, _MAX_ITEMS)),
    "next": next,
    "len": len,
    "item": operator.getitem,
    "put": operator.setitem,
    "equal": operator.eq,
    "less": operator.lt,
    "text": str,
    "repr": repr,
    "true": bool,
}
