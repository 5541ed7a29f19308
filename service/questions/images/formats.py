"""What an image file holds: its format by content, its size by header, and its bytes without metadata.

PNG, JPEG and WebP are sequences of named pieces. Those that make the picture are kept byte by byte; all
others are dropped: EXIF with places and times, comments, thumbnails, whatever stands behind the end.
"""

import struct
from collections.abc import Callable, Mapping

PNG, JPEG, WEBP, GIF = "PNG", "JPEG", "WEBP", "GIF"
_PNG_MARK = b"\x89PNG\r\n\x1a\n"
_OF_A_PNG = frozenset(
    {
        b"IHDR",
        b"PLTE",
        b"tRNS",
        b"IDAT",
        b"IEND",
        b"gAMA",
        b"cHRM",
        b"sRGB",
        b"iCCP",
        b"sBIT",
        b"bKGD",
        b"pHYs",
    }
)
_OF_A_WEBP = frozenset({b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ICCP"})
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers of JPEG without a length
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # its frame headers


class ImageProblem(Exception):
    """An image that cannot be used; the message says why and, where there is one, the way out."""


def format_of(data: bytes) -> str:
    """Return the format by the first bytes.

    Raises:
        ImageProblem: empty, or none of the four.
    """
    if not data:
        raise ImageProblem("is empty")
    if data.startswith(_PNG_MARK):
        return PNG
    if data.startswith(b"\xff\xd8\xff"):
        return JPEG
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WEBP
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return GIF
    head = data[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"<svg") or (head.startswith((b"<?xml", b"<!")) and b"<svg" in head):
        raise ImageProblem("is an SVG, which may contain programs. Save it as a PNG")
    raise ImageProblem("is not a PNG, JPEG, WebP or GIF")


def clean(data: bytes, kind: str) -> tuple[bytes, tuple[int, int] | None]:
    """Return the bytes of a picture alone, and width and height of its header (None where Pillow is to say).

    Raises:
        ImageProblem: cut off, damaged, or animated.
    """
    cleaner = _CLEANERS.get(kind)
    if cleaner is None:
        return data, None
    try:
        return cleaner(data)
    except (IndexError, struct.error) as error:
        raise ImageProblem(f"is a {kind} that is cut off or damaged") from error


def _clean_png(data: bytes) -> tuple[bytes, tuple[int, int]]:
    pieces, at = [_PNG_MARK], len(_PNG_MARK)
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + length + 12
        if end > len(data):
            raise IndexError
        if name in (b"acTL", b"fcTL", b"fdAT"):
            raise ImageProblem("is animated. Save the intended frame as a picture")
        if name in _OF_A_PNG:
            pieces.append(data[at:end])
        if name == b"IEND":
            return b"".join(pieces), struct.unpack_from(">II", data, 16)
        at = end


def _clean_jpeg(data: bytes) -> tuple[bytes, tuple[int, int]]:
    pieces, at, size = [data[:2]], 2, None
    while True:
        if data[at] != 0xFF:
            raise IndexError
        while data[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker = data[at + 1]
        if marker == 0xD9:
            if size is None:
                raise IndexError
            return b"".join([*pieces, b"\xff\xd9"]), size
        if marker in _ALONE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        end = at + 2 + length
        if end > len(data):
            raise IndexError
        if marker in _SIZES and size is None:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = width, height
        if marker == 0xDA:
            end = _end_of_scan(data, end)
        if _is_of_a_jpeg(marker, data[at + 4 : at + 16]):
            pieces.append(data[at:end])
        at = end


def _end_of_scan(data: bytes, at: int) -> int:
    """Return the place of the next marker behind coded data, in which 0xFF stands before 0 or a restart."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            raise IndexError
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2


def _is_of_a_jpeg(marker: int, head: bytes) -> bool:
    if 0xE0 <= marker <= 0xEF:
        return (
            (marker == 0xE0 and head.startswith(b"JFIF\0"))
            or (marker == 0xE2 and head.startswith(b"ICC_PROFILE\0"))
            or (marker == 0xEE and head.startswith(b"Adobe"))
        )
    return marker != 0xFE


def _clean_webp(data: bytes) -> tuple[bytes, tuple[int, int]]:
    (whole,) = struct.unpack_from("<I", data, 4)
    end = whole + 8
    if end > len(data):
        raise IndexError
    pieces: list[bytes] = []
    size, at = None, 12
    while at + 8 <= end:
        name, length = struct.unpack_from("<4sI", data, at)
        piece = data[at : at + 8 + length + length % 2]
        if len(piece) < 8 + length:
            raise IndexError
        at += len(piece)
        if name in (b"ANIM", b"ANMF"):
            raise ImageProblem("is animated. Save the intended frame as a picture")
        if name not in _OF_A_WEBP:
            continue
        if size is None:
            size = _webp_size(name, piece[8:])
        if name == b"VP8X":  # its flags name the pieces: those of EXIF and XMP are gone
            piece = piece[:8] + bytes([piece[8] & ~0x0C]) + piece[9:]
        pieces.append(piece)
    if size is None:
        raise IndexError
    body = b"WEBP" + b"".join(pieces)
    return b"RIFF" + struct.pack("<I", len(body)) + body, size


def _webp_size(name: bytes, body: bytes) -> tuple[int, int] | None:
    if name == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if name == b"VP8 ":
        width, height = struct.unpack_from("<HH", body, 6)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L":
        (bits,) = struct.unpack_from("<I", body, 1)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


_CLEANERS: Mapping[str, Callable[[bytes], tuple[bytes, tuple[int, int]]]] = {
    PNG: _clean_png,
    JPEG: _clean_jpeg,
    WEBP: _clean_webp,
}
