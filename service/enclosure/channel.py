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
_BUILT_IN = (bool, bytes, complex, dict, float, int, list, set, str, tuple, type(None))
_TYPES: dict[str, Any] = {
    each.__name__: each for each in (*_BUILT_IN, bytearray, frozenset, Decimal, Fraction)
}
_COLLECTIONS: tuple[Any, ...] = (list, tuple, set, frozenset)

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
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        value = int.__index__(value)
        return value if value.bit_length() < _MAX_BITS else {"int": hex(value)}
    if isinstance(value, float):
        return float.__float__(value)
    for kind in _COLLECTIONS:
        if isinstance(value, kind):
            items = [encode(each, refer) for each in kind.__iter__(value)]
            return items if kind is list else {kind.__name__: items}
    if isinstance(value, dict):
        return {"dict": [[encode(key, refer), encode(each, refer)] for key, each in dict.items(value)]}
    if type(value) is range:
        return {"range": [encode(each, refer) for each in (value.start, value.stop, value.step)]}
    if type(value) in (bytes, bytearray):
        return {type(value).__name__: value.hex()}
    if type(value) in (complex, Decimal, Fraction):
        return {type(value).__name__: str(value)}
    if isinstance(value, type) and value in _BUILT_IN:
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
        match name:
            case "object":
                return known(content)
            case "type":
                return _TYPES[content]
            case "int":
                return int(content, 16)
            case "dict":
                return {decode(key, known): decode(each, known) for key, each in content}
            case "range":
                return range(*decode(content, known))
            case "bytes" | "bytearray":
                return _TYPES[name].fromhex(content)
            case "complex" | "Decimal" | "Fraction":
                return _TYPES[name](content)
            case "tuple" | "set" | "frozenset":
                return _TYPES[name](decode(content, known))
        raise ValueError(name)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise Malformed(f"not a valid value: {str(value)[:100]}") from error


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
    size = int.from_bytes(head := _exactly(read, 4), "big")
    if size > _MAX_BYTES:
        raise Malformed(f"{size:,} bytes")
    content = _exactly(read, size)
    if len(head) < 4 or len(content) < size:
        return None
    try:
        message = json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Malformed("not valid JSON") from error
    if not isinstance(message, dict):
        raise Malformed("not a JSON object")
    return message


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """Return so many bytes; fewer at the end."""
    content = bytearray()
    while len(content) < size and (part := read(min(size - len(content), 2**16))):
        content += part
    return bytes(content)
