"""The side of the program: loads it, then calls its functions as asked, until it is ended.

Nothing here is trusted once the program has been loaded. What it sends is data, and what it may not do is
kept from it by the process it runs in (`namespaces`).
"""

import ast
import builtins
import itertools
import operator
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from service.enclosure.channel import Malformed, decode, encode, pack, receive

_MOST_ITEMS = 1_000_000
_MOST_TOLD = 300  # characters of an error's message
_MOST_CUTS = 20
_NAME = "program"


def serve(end: socket.socket, candidates: list[str], helpers: str, names: list[str]) -> None:
    """Run the helpers and a candidate as one module, say what they define, and answer calls."""
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
    """Return the code of the first candidate that can be compiled and defines one of the names.

    Of one that cannot, what stands before its first error is tried too: responses are cut off, or go on in
    English. Raises the first candidate's SyntaxError where nothing helps.
    """
    for mending in (False, True):
        for candidate in candidates:
            code = _mended(candidate, names) if mending else _defining(candidate, names)
            if code is not None:
                return code
    for candidate in candidates[1:]:
        try:
            return _compiled(candidate)
        except (SyntaxError, ValueError):
            continue
    return _compiled(candidates[0])


def _mended(source: str, names: list[str]) -> types.CodeType | None:
    lines = source.split("\n")
    for _ in range(_MOST_CUTS):
        try:
            return _defining("\n".join(lines), names, strict=True)
        except SyntaxError as error:
            lines = lines[: min(error.lineno or 1, len(lines)) - 1]
            if not any(map(str.strip, lines)):
                return None
        except ValueError:
            return None
    return None


def _defining(source: str, names: list[str], strict: bool = False) -> types.CodeType | None:
    try:
        tree = ast.parse(source)
        code = _compiled(source)
    except (SyntaxError, ValueError):
        if strict:
            raise
        return None
    if not names:
        return code
    defined = {
        name
        for each in ast.walk(tree)
        for name in (
            [each.name]
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            else [each.id]
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            else []
        )
    }
    return code if defined.intersection(names) else None


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
        # What the program did to lists that it was given is done to those of the tests.
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
        return {"raised": name, "class": type(error).__name__, "text": str(error)[:_MOST_TOLD]}
    except BaseException:
        return {"raised": "Exception", "class": "Exception", "text": ""}


def _items(value: Any) -> list[Any]:
    return list(itertools.islice(value, _MOST_ITEMS))


_DO: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "items": _items,
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
