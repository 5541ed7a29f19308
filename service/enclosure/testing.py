"""Runs tests, and has the functions that they call run by the program's process.

The program sees the arguments of a call and sends back data. It sees neither the tests nor the values that
they expect, and none of its messages says how they went.
"""

import builtins
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from service.enclosure.channel import Malformed, decode, encode, pack, receive

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


def run_tests(
    end: socket.socket, tests: str, helpers: str, names: list[str], deadline: float
) -> dict[str, Any]:
    """Run the tests against the program at the other end and return a `ProgramResult` as a dict.

    Args:
        helpers: what the question itself defines, for the tests.
        names: functions that the question asks for; they hide built-in ones, the program's others do not.
        deadline: the program's, of `time.monotonic()`.
    """
    try:
        session = _Session(end, deadline)
        scope = _Scope(session, names)
        scope["__name__"] = "tests"  # so that `if __name__ == "__main__"` is false
        for source in (helpers, tests):
            exec(compile(source, _FILE, "exec", dont_inherit=True), scope)
        if session.over is not None:
            raise session.over
    except _Ended as error:
        return {"value": str(error), "line": _line(error), "text": ""}
    except BaseException as error:
        return {"value": _fault(error), "line": _line(error), "text": _text(error)}
    if session.calls == 0:
        return {"value": "bad tests", "line": None, "text": "the tests never call the program"}
    return {"value": "passed", "line": None, "text": ""}


class _Session:
    """Asks the program's process, until the deadline; counts the calls."""

    def __init__(self, end: socket.socket, deadline: float) -> None:
        self._end = end
        self._deadline = deadline
        self.calls = 0
        self.over: BaseException | None = None  # tests may catch it
        names = self._exchange(None).get("names")  # comes when the program is loaded
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
            except (Malformed, RecursionError, LookupError, TypeError, ValueError, AttributeError):
                raise _Ended("ended") from None
        except (_Ended, _Unsendable) as error:
            self.over = error
            raise
        return value

    def _exchange(self, request: dict[str, Any] | None) -> dict[str, Any]:
        try:
            if request is not None:
                self._set_timeout()
                self._end.sendall(pack(request))
            answer = receive(self._read)
        except TimeoutError:
            raise _Ended("too slow") from None
        except (OSError, Malformed) as error:
            raise _Ended("too large" if "bytes" in str(error) else "ended") from None
        if answer is None:
            raise _Ended("ended")
        if "raised" in answer:
            raise _error(answer)
        return answer

    def _read(self, size: int) -> bytes:
        self._set_timeout()
        return self._end.recv(size)

    def _set_timeout(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._end.settimeout(left)


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
    __call__ = _forward("call")
    __getattr__ = _forward("getattr")
    __setattr__ = _forward("setattr")
    __next__ = _forward("next")
    __len__ = _forward("len")
    __getitem__ = _forward("getitem")
    __setitem__ = _forward("setitem")
    __lt__ = _forward("lt")
    __bool__ = _forward("bool")
    __str__ = _forward("str")
    __repr__ = _forward("repr")

    def __init__(self, session: _Session, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Remote):
            return False
        return self is other or self._session.ask("eq", (self, other), {}) is True

    def __iter__(self) -> Iterator[Any]:
        return _items(self._session, self._session.ask("iter", (self,), {}))

    def __contains__(self, value: Any) -> bool:
        return value in list(self)  # as data, not as the object says


def _items(session: _Session, iterator: Any) -> Iterator[Any]:
    """Yield what an iterator of the program gives."""
    items, number = [None], 1
    while len(items) == number:
        number = 1 if session.calls < _SINGLE else _CHUNK
        items = session.ask("take", (iterator, number), {})
        yield from items


class _Scope(dict[str, Any]):
    """The names that tests see: their own, then those asked for, built-in ones, the program's others."""

    def __init__(self, session: _Session, names: list[str]) -> None:
        super().__init__()
        self._globals = session.globals
        self._names = frozenset(names)

    def __missing__(self, name: str) -> Any:
        if name not in self._names and hasattr(builtins, name):
            raise KeyError(name)
        return self._globals[name]


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
    if getattr(error, "of_program", False):
        return "too large" if isinstance(error, MemoryError) else "raised"
    return "bad tests" if isinstance(error, SyntaxError | _Unsendable) else "failed"


def _text(error: BaseException) -> str:
    if type(error) is AssertionError and _fault(error) == "failed":
        return ""
    name = "" if isinstance(error, _Raised | _Unsendable) else f"{type(error).__name__}: "
    return f"{name}{error}"[:_MAX_TEXT]


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    return lines[-1] if lines else None
