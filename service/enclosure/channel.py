"""Messages and values between the processes of an enclosure: one line of JSON per message.

Plain data is sent by content, all else as a reference to an object of the program. Nothing that the program
sends is ever executed.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from io import BufferedRWPair
from typing import IO, Any

Stream = IO[bytes] | BufferedRWPair
MAX_BYTES = 4 * 2**20
_MAX_BITS = 1000  # of an int as JSON has it; Python refuses to read very long decimals
_PLAIN_TYPES = (bool, bytes, complex, dict, float, int, list, set, str, tuple, type(None))
_COLLECTIONS: dict[str, Any] = {each.__name__: each for each in (list, tuple, set, frozenset)}
_FORMS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: (bytes.hex, bytes.fromhex),
    bytearray: (bytearray.hex, bytearray.fromhex),
    complex: (str, complex),
    Decimal: (str, Decimal),
    Fraction: (str, lambda text: Fraction(*map(int, text.split("/")))),  # never with an exponent
    range: (lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
}
"""What turns a value into JSON and back, by its type."""
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda digits: int(digits, 16),
    "type": {each.__name__: each for each in _PLAIN_TYPES}.__getitem__,
    **{kind.__name__: read for kind, (_, read) in _FORMS.items()},
}


def encode(value: Any, refer: Callable[[object], int]) -> Any:
    """Return a value as JSON has it; one of a subclass of a plain type is sent as this type.

    Args:
        refer: called with an object that is not plain data; returns its number.

    Raises:
        RecursionError: the value contains itself.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        value = int.__index__(value)
        return value if value.bit_length() < _MAX_BITS else {"int": hex(value)}
    if isinstance(value, float):
        return float.__float__(value)
    for name, kind in _COLLECTIONS.items():
        if isinstance(value, kind):
            items = [encode(each, refer) for each in kind.__iter__(value)]
            return items if kind is list else {name: items}
    if isinstance(value, dict):
        return {"dict": [[encode(key, refer), encode(each, refer)] for key, each in dict.items(value)]}
    if type(value) in _FORMS:
        return {type(value).__name__: _FORMS[type(value)][0](value)}
    if isinstance(value, type) and value in _PLAIN_TYPES:
        return {"type": value.__name__}
    return {"object": refer(value)}


def decode(value: Any, resolve: Callable[[int], Any]) -> Any:
    """Return the value that `encode` gave; `resolve` returns the object with a number.

    Any exception may be raised for what `encode` did not give.
    """
    if isinstance(value, list):
        return [decode(each, resolve) for each in value]
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "object":
        return resolve(content)
    if name == "dict":
        return {decode(key, resolve): decode(each, resolve) for key, each in content}
    if name in _COLLECTIONS:
        return _COLLECTIONS[name](decode(content, resolve))
    return _READERS[name](content)


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent. Raises `MemoryError` if it is too long."""
    line = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    if len(line) > MAX_BYTES:
        raise MemoryError("the message is too long")
    return line


def send(file: Stream, message: dict[str, Any]) -> None:
    """Send a message. Raises `MemoryError`, and sends nothing, if it is too long."""
    file.write(pack(message))
    file.flush()


def receive(file: Stream) -> dict[str, Any]:
    """Return the next message.

    Raises:
        EOFError: there is none.
        MemoryError: it is too long.
        ValueError, RecursionError: it is not valid.
    """
    line = file.readline(MAX_BYTES)
    if line.endswith(b"\n"):
        return parse(line)
    raise EOFError if len(line) < MAX_BYTES else MemoryError


def parse(line: bytes) -> dict[str, Any]:
    """Return the message in a line. Raises `ValueError` or `RecursionError` if it is not valid."""
    message = json.loads(line.decode("utf-8", "surrogatepass"))
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")
    return message
