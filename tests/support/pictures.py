"""Tiny pictures, well made and hostile ones."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def picture(color: str = "red", size: tuple[int, int] = (8, 6), kind: str = "PNG", **options: Any) -> bytes:
    """Return a picture of one colour, as the bytes of a file."""
    target = io.BytesIO()
    Image.new("RGB", size, color).save(target, format=kind, **options)
    return target.getvalue()


def pixels(data: bytes) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Return the size of a picture and the colour in its middle."""
    with Image.open(io.BytesIO(data)) as opened:
        rgb = opened.convert("RGB")
        color = rgb.getpixel((rgb.width // 2, rgb.height // 2))
    return rgb.size, tuple(color)  # type: ignore[arg-type, return-value]


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, *between: bytes) -> bytes:
    """Return a PNG whose header has this size, with one pixel's worth of data; `between` goes before them."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(between) + rows + chunk(b"IEND", b"")
