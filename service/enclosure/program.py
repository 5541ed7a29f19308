"""The side of the program: loads it, then calls its functions as asked, until it is ended.

Nothing here is trusted once the program has been loaded. What it sends is data, and what it may not do is
kept from it by the process it runs in (`namespaces`).
"""

import builtins
import itertools
import operator
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from service.enclosure.channel import Malformed, decode, encode, receive, send

_MOST_ITEMS = 1_000_000
_MOST_TOLD = 300  # characters of an error's message
_NAME = "program"


def serve(end: socket.socket, sources: list[str]) -> None:
    """Run the sources one after another as one module, say what they define, and answer calls."""
    module = types.ModuleType(_NAME)
    sys.modules[_NAME] = module
    sys.argv = [_NAME]
    try:
        for source in sources:
            exec(compile(source, f"<{_NAME}>", "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        send(end, _raised(error))
        return
    names = [name for name in vars(module) if not name.startswith("__")]
    send(end, {"names": names})
    objects: list[Any] = []
    while (request := receive(end.recv)) is not None:
        answer = _answer(request, vars(module), objects)
        try:
            send(end, answer)
        except Malformed:
            send(end, {"raised": "MemoryError", "class": "MemoryError", "text": "the result is too long"})


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
    "in": operator.contains,
    "equal": operator.eq,
    "less": operator.lt,
    "text": str,
    "repr": repr,
    "true": bool,
    "class": lambda value: type(value).__name__,
    "callable": callable,
}
