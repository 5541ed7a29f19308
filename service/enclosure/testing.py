"""The side of the tests: runs them, and has the functions they call run by the program's process.

The program sees the arguments of a call and sends back data; it sees neither the tests nor what they compare
its answers with, and no message of it says how they went.
"""

import builtins
import socket
import time
import traceback
from collections.abc import Iterator
from typing import Any

from service.enclosure.channel import Malformed, decode, encode, pack, receive

_FILE = "<tests>"
_MOST_TOLD = 300


class Ended(BaseException):
    """The program can be asked nothing more; `why` is "ended", "too slow" or "too large"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Unsendable(Exception):
    """The tests hand a program what it cannot be given: an object of their own."""


class Session:
    """Asks the program's process, until a point of `time.monotonic()`; counts the calls."""

    def __init__(self, end: socket.socket, deadline: float) -> None:
        self._end = end
        self._deadline = deadline
        self.calls = 0
        self.over: BaseException | None = None  # tests may swallow it
        self.names: frozenset[str] = frozenset()

    def load(self) -> dict[str, Any] | None:
        """Wait until the program is loaded; return its error, if it raised one."""
        answer = self._receive()
        if "raised" in answer:
            return answer
        names = answer.get("names")
        if not isinstance(names, list):
            raise Ended("ended")
        self.names = frozenset(name for name in names if isinstance(name, str))
        return None

    def ask(
        self, do: str, about: dict[str, Any], args: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        """Return what the program's side answers; raise what it raised."""
        if self.over is not None:
            raise self.over
        try:
            return self._ask(do, about, args, named or {})
        except (Ended, Unsendable) as error:
            self.over = error
            raise

    def _ask(self, do: str, about: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self.calls += 1
        request = {
            "do": do,
            **about,
            "args": [encode(each, _number) for each in args],
            "named": {name: encode(each, _number) for name, each in named.items()},
        }
        try:
            self._end.settimeout(self._left())
            self._end.sendall(pack(request))
        except (OSError, Malformed) as error:
            raise _ended(error) from None
        answer = self._receive()
        if "raised" in answer:
            raise _error(answer)
        try:
            value = decode(answer["value"], self._remote)
            for place, now in answer.get("changed", {}).items():
                _replace(args[int(place)], decode(now, self._remote))
        except (Malformed, RecursionError, KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise Ended("ended") from None
        return value

    def _receive(self) -> dict[str, Any]:
        try:
            answer = receive(self._read)
        except (OSError, Malformed) as error:
            raise _ended(error) from None
        if answer is None:
            raise Ended("ended")
        return answer

    def _read(self, size: int) -> bytes:
        self._end.settimeout(self._left())
        return self._end.recv(size)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Ended("too slow")
        return left

    def _remote(self, number: int) -> "Remote":
        return Remote(self, {"object": int(number)})


class Remote:
    """Stands for a function or object of the program.

    It equals no plain data, whatever the program's own `__eq__` would say; two of them are compared by it.
    """

    __slots__ = ("_about", "_session")
    __hash__ = object.__hash__

    def __init__(self, session: Session, about: dict[str, Any]) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_about", about)

    def _ask(self, do: str, *args: Any) -> Any:
        return self._session.ask(do, self._about, args)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._session.ask("call", self._about, args, named)

    def __getattr__(self, name: str) -> Any:
        return self._ask("get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(_plain(self._ask("items"), list))

    def __next__(self) -> Any:
        return self._ask("next")

    def __len__(self) -> int:
        return int(_plain(self._ask("len"), int))

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask("put", key, value)

    def __contains__(self, value: Any) -> bool:
        return value in list(self)  # as data, not as the object says

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        return self is other or self._ask("equal", other) is True

    def __lt__(self, other: object) -> bool:
        return self._ask("less", other) is True

    def __bool__(self) -> bool:
        return self._ask("true") is True

    def __str__(self) -> str:
        return str(_plain(self._ask("text"), str))

    def __repr__(self) -> str:
        return str(_plain(self._ask("repr"), str))


def run_tests(
    end: socket.socket, tests: str, helpers: str, names: list[str], deadline: float
) -> dict[str, Any]:
    """Run the tests against the program at the other end and return the result.

    Args:
        helpers: what the question itself defines; the tests may use it.
        names: of the functions asked for; a program's others do not stand in for built-in ones.

    Returns:
        `value` is passed, failed, raised, ended, too slow, too large or bad tests; `line` is the number of
        the test's line where there is one, `text` what was raised.
    """
    session = Session(end, deadline)
    try:
        if (error := session.load()) is not None:
            large = error.get("class") == "MemoryError"
            return {"value": "too large" if large else "raised", "line": None, "text": _told(error)}
        scope = _Scope(session, names)
        # The module's own name, so that what stands under `if __name__ == "__main__"` is not run.
        scope["__name__"] = "tests"
        for source in (helpers, tests):
            code = compile(source, _FILE, "exec", dont_inherit=True)
            exec(code, scope)
        if session.over is not None:
            raise session.over
    except Ended as end_of_program:
        return {"value": end_of_program.why, "line": _line(end_of_program), "text": ""}
    except _Raised as error:
        return {"value": "raised", "line": _line(error), "text": _text(error)}
    except AssertionError as error:
        return {"value": "failed", "line": _line(error), "text": ""}
    except (SyntaxError, Unsendable) as error:
        return {"value": "bad tests", "line": _line(error), "text": _text(error)}
    except BaseException as error:
        value = "raised" if getattr(error, "of_program", False) else "failed"
        if value == "raised" and isinstance(error, MemoryError):
            value = "too large"
        return {"value": value, "line": _line(error), "text": _text(error)}
    if session.calls == 0:
        return {"value": "bad tests", "line": None, "text": "the tests never call the program"}
    return {"value": "passed", "line": None, "text": ""}


class _Raised(Exception):
    """An error of a class that is not built in."""


class _Scope(dict[str, Any]):
    """The names that tests see: their own, then those asked for, built-in ones, the program's others."""

    def __init__(self, session: Session, names: list[str]) -> None:
        super().__init__()
        self._session = session
        self._names = frozenset(names)

    def __missing__(self, name: str) -> Any:
        if name not in self._names and hasattr(builtins, name):
            raise KeyError(name)
        if name not in self._session.names:
            raise KeyError(name)
        value = Remote(self._session, {"name": name})
        self[name] = value
        return value


def _number(value: object) -> int:
    if isinstance(value, Remote) and "object" in value._about:
        return int(value._about["object"])
    raise Unsendable(f"the tests pass the program an unsupported argument of type {type(value).__name__}")


def _plain(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"the program returned a value that is not of type {kind.__name__}")
    return value


def _replace(arg: Any, now: Any) -> None:
    if type(arg) is not type(now):
        raise TypeError("different type")
    arg.clear()
    if isinstance(arg, list | bytearray):
        arg.extend(now)
    else:
        arg.update(now)


def _error(answer: dict[str, Any]) -> BaseException:
    kind = getattr(builtins, str(answer["raised"]), None)
    plain = isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception
    try:
        error: BaseException = kind(str(answer.get("text", ""))) if plain and kind else _Raised(_told(answer))
    except TypeError:  # such as UnicodeDecodeError, which wants more
        error = _Raised(_told(answer))
    error.of_program = True  # type: ignore[attr-defined]
    return error


def _ended(error: Exception) -> Ended:
    if isinstance(error, TimeoutError):
        return Ended("too slow")
    return Ended("too large" if isinstance(error, Malformed) and "bytes" in str(error) else "ended")


def _told(answer: dict[str, Any]) -> str:
    return f"{answer.get('class')}: {answer.get('text')}"[:_MOST_TOLD]


def _text(error: BaseException) -> str:
    if isinstance(error, _Raised):
        return str(error)[:_MOST_TOLD]
    return f"{type(error).__name__}: {error}"[:_MOST_TOLD]


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    return lines[-1] if lines else None
