"""Messages and values between the processes of an enclosure.

A value is sent as JSON: plain data by content, all else as a reference to an object of the program. Nothing
that the program sends is ever executed.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

_MAX_BYTES = 4 * 2**20
_MAX_BITS = 1000  # of an int as JSON has it; Python refuses to read very long decimals

Encode = Callable[[object], int]
"""Called with an object that is no plain data; returns its number."""
Decode = Callable[[int], Any]
"""Called with such a number; returns the object."""


class Malformed(Exception):
    """A message is too long or invalid."""


def encode(value: Any, refer: Encode) -> Any:
    """Return a value as JSON has it; one of a subclass of a plain type is sent as this type.

    Raises:
        RecursionError: the value contains itself.
    """
    if value is None or isinstance(value, bool | str):
        return value if type(value) in (bool, str, type(None)) else str.__str__(value)
    if isinstance(value, int):
        value = int.__index__(value)
        return value if value.bit_length() < _MAX_BITS else {"int": hex(value)}
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return [encode(each, refer) for each in list.__iter__(value)]
    for kind in _COLLECTIONS:
        if isinstance(value, kind):
            return {kind.__name__: [encode(each, refer) for each in kind.__iter__(value)]}
    if isinstance(value, dict):
        return {"dict": [[encode(key, refer), encode(each, refer)] for key, each in dict.items(value)]}
    if isinstance(value, bytes | bytearray):
        return {"bytes" if isinstance(value, bytes) else "bytearray": bytes(value).hex()}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if type(value) is range:
        return {"range": [encode(each, refer) for each in (value.start, value.stop, value.step)]}
    if type(value) in (Decimal, Fraction):
        return {type(value).__name__: str(value)}
    if isinstance(value, type) and _TYPES.get(value.__name__) is value:
        return {"type": value.__name__}
    return {"object": refer(value)}


def decode(value: Any, known: Decode) -> Any:
    """Return the value that `encode` gave. Raises `Malformed` if it gave none."""
    if isinstance(value, list):
        return [decode(each, known) for each in value]
    if not isinstance(value, dict):
        return value
    try:
        ((name, content),) = value.items()
        return _READERS[name](content, known)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise Malformed(f"not a valid value: {str(value)[:100]}") from error


_COLLECTIONS: tuple[Any, ...] = (tuple, set, frozenset)
_TYPES: dict[str, type] = {
    each.__name__: each
    for each in (bool, bytes, complex, dict, float, int, list, set, str, tuple, type(None))
}
_READERS: dict[str, Callable[[Any, Decode], Any]] = {
    "int": lambda content, known: int(content, 16),
    "tuple": lambda content, known: tuple(decode(each, known) for each in content),
    "set": lambda content, known: {decode(each, known) for each in content},
    "frozenset": lambda content, known: frozenset(decode(each, known) for each in content),
    "dict": lambda content, known: {decode(key, known): decode(each, known) for key, each in content},
    "bytes": lambda content, known: bytes.fromhex(content),
    "bytearray": lambda content, known: bytearray.fromhex(content),
    "complex": lambda content, known: complex(*content),
    "range": lambda content, known: range(*(decode(each, known) for each in content)),
    "Decimal": lambda content, known: Decimal(content),
    "Fraction": lambda content, known: Fraction(content),
    "type": lambda content, known: _TYPES[content],
    "object": lambda content, known: known(content),
}


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent: its length, then JSON. Raises `Malformed` if it is too long."""
    content = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(content) > _MAX_BYTES:
        raise Malformed(f"{len(content):,} bytes")
    return len(content).to_bytes(4, "big") + content


def receive(read: Callable[[int], bytes]) -> dict[str, Any] | None:
    """Return the next message; None at the end. Raises `Malformed` if it is too long or no JSON object.

    Args:
        read: returns at most as many bytes as its argument, none at the end.
    """
    head = _exactly(read, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > _MAX_BYTES:
        raise Malformed(f"{size:,} bytes")
    content = _exactly(read, size)
    if content is None:
        return None
    try:
        message = json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Malformed("not valid JSON") from error
    if not isinstance(message, dict):
        raise Malformed("not a JSON object")
    return message


def _exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        part = read(min(size - len(content), 2**16))
        if not part:
            return None
        content += part
    return bytes(content)
