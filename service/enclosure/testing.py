"""Runs tests, and has the functions that they call run by the program's process.

The program sees the arguments of a call and sends back data. It sees neither the tests nor the values that
they expect, and none of its messages says how they went.
"""

import builtins
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from service.enclosure.channel import Stream, decode, encode, receive, send

_FILE = "<tests>"
_MAX_TEXT = 300
_SINGLE, _CHUNK = 200, 256
"""After so many calls, items are asked for in chunks; before, the program computes none that is unused."""


class _Ended(BaseException):
    """The program no longer answers; the text is "ended", "too slow" or "too large"."""


class _Unsendable(Exception):
    """The tests pass the program an object of their own."""


class _Raised(Exception):
    """The program raised an error of a class that is not built in."""


def run_tests(end: Stream, tests: str, helpers: str, names: list[str]) -> dict[str, Any]:
    """Run the tests against the program at the other end and return a `ProgramResult` as a dict.

    Args:
        helpers: what the question itself defines, for the tests.
        names: functions that the question asks for; they hide built-in ones, the program's others do not.
    """
    value, text = "passed", ""
    line: int | None = None
    try:
        session = _Session(end)
        scope: dict[str, Any] = {"__name__": "tests"}  # so that `if __name__ == "__main__"` is false
        for name, remote in session.globals.items():  # from the program: never `__builtins__`
            if name in names or not (name.startswith("__") or hasattr(builtins, name)):
                scope[name] = remote
        for source in (helpers, tests):
            exec(compile(source, _FILE, "exec", dont_inherit=True), scope)
        if session.over is not None:
            raise session.over
        if session.calls == 0:
            value, text = "bad tests", "the tests never call the program"
    except BaseException as error:
        value, line, text = _fault(error), _line(error), _text(error)
    return {"value": value, "line": line, "text": text}


class _Session:
    """Asks the program's process and counts the calls."""

    def __init__(self, end: Stream) -> None:
        self._end = end
        self.calls = 0
        self.over: BaseException | None = None  # tests may catch it
        names = self._exchange().get("names")  # comes when the program is loaded
        if not isinstance(names, list):
            raise _Ended("ended")
        self.globals = {str(name): _Remote(self, number) for number, name in enumerate(names)}

    def ask(self, do: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what the program's process answers; raise what it raised."""
        if self.over is not None:
            raise self.over
        self.calls += 1
        remote = partial(_Remote, self)
        try:
            sent = [encode(each, _number) for each in args]
            with_names = {name: encode(each, _number) for name, each in named.items()}
            answer = self._exchange({"do": do, "args": sent, "named": with_names})
            try:
                value = decode(answer["value"], remote)
                for place, now in answer.get("changed", {}).items():
                    _replace(args[int(place)], decode(now, remote))
            except Exception:
                raise _Ended("ended") from None
        except (_Ended, _Unsendable) as error:
            self.over = error
            raise
        return value

    def _exchange(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            if request is not None:
                send(self._end, request)
            answer = receive(self._end)
        except MemoryError:
            raise _Ended("too large") from None
        except TimeoutError:
            raise _Ended("too slow") from None
        except (OSError, EOFError, ValueError, RecursionError):
            raise _Ended("ended") from None
        if "raised" in answer:
            raise _error(answer)
        return answer


def _forward(do: str) -> Callable[..., Any]:
    """Return a method that has the program's process apply a function of `builtins` or `operator`."""
    return lambda remote, /, *args, **named: remote._session.ask(do, (remote, *args), named)


class _Remote:
    """A function or object of the program.

    It equals no plain data, whatever the program's own `__eq__` says; the program compares two of them.
    """

    __slots__ = ("_number", "_session")
    _number: int
    _session: _Session
    __hash__ = object.__hash__

    def __init__(self, session: _Session, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Remote):
            return False
        return self is other or self._session.ask("eq", (self, other), {}) is True

    def __iter__(self) -> Iterator[Any]:
        session, items, number = self._session, [None], 1
        iterator = session.ask("iter", (self,), {})
        while len(items) == number:
            number = 1 if session.calls < _SINGLE else _CHUNK
            items = session.ask("take", (iterator, number), {})
            yield from items

    def __contains__(self, value: Any) -> bool:
        return value in list(self)  # as data, not as the object says


for do in ("call", "getattr", "setattr", "next", "len", "getitem", "setitem", "lt", "bool", "str", "repr"):
    setattr(_Remote, f"__{do}__", _forward(do))


def _number(value: object) -> int:
    if isinstance(value, _Remote):
        return value._number
    raise _Unsendable(f"the tests pass the program an unsupported argument of type {type(value).__name__}")


def _replace(arg: Any, now: Any) -> None:
    if type(arg) is not type(now):
        raise TypeError("different type")
    arg.clear()
    if isinstance(arg, list | bytearray):
        arg.extend(now)
    else:
        arg.update(now)


def _error(answer: dict[str, Any]) -> BaseException:
    """Return the error that the program raised, of the nearest built-in class."""
    kind = getattr(builtins, str(answer["raised"]), None)
    try:
        if not isinstance(kind, type) or not issubclass(kind, Exception) or kind is Exception:
            raise TypeError
        error = kind(str(answer.get("text", "")))
    except TypeError:  # also of a class such as UnicodeDecodeError, which needs more arguments
        error = _Raised(f"{answer.get('class')}: {answer.get('text')}")
    error.of_program = True  # type: ignore[attr-defined]
    return error


def _fault(error: BaseException) -> str:
    if isinstance(error, _Ended):
        return str(error)
    if getattr(error, "of_program", False):
        return "too large" if isinstance(error, MemoryError) else "raised"
    return "bad tests" if isinstance(error, SyntaxError | _Unsendable) else "failed"


def _text(error: BaseException) -> str:
    if isinstance(error, _Ended) or (type(error) is AssertionError and _fault(error) == "failed"):
        return ""
    name = "" if isinstance(error, _Raised | _Unsendable) else f"{type(error).__name__}: "
    return f"{name}{error}"[:_MAX_TEXT]


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    return lines[-1] if lines else None
