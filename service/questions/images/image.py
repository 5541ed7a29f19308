"""An image: read from any bytes, decoded once within limits, kept without metadata; its places in texts."""

import base64
import hashlib
import io
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from service.errors import InputError
from service.hashing import content_id

PLACEHOLDER = "<image>"
"""Marks an image in a text, as in verl and in many data sets."""

MOST_BYTES = 20_000_000
TOO_LARGE = f"is larger than {MOST_BYTES / 1e6:.0f} MB, the limit for an image"
MOST_PIXELS = 2**25  # 33.5 million: decoded it takes 134 MB
LONGEST_SIDE = 16_384
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_OF_PIXELS = frozenset({"icc_profile", "transparency", "gamma", "srgb", "chromaticity"})
_PLAIN_INFO = _OF_PIXELS | {
    *("dpi", "interlace", "jfif", "jfif_version", "jfif_unit", "jfif_density", "adobe", "adobe_transform"),
    *("progressive", "progression", "loop", "background", "timestamp", "duration"),
}
"""What Pillow tells of a file that says nothing but how to show it."""
_PLAIN_SEGMENTS = frozenset({"APP0", "APP2", "APP14"})  # of a JPEG: JFIF, colours, Adobe's transform


class ImageProblem(Exception):
    """An image that cannot be used; the message says why and, where there is one, the way out."""


@dataclass(frozen=True)
class Image:
    """A picture: its bytes (PNG, JPEG or WebP), their media type, width and height in pixels."""

    data: bytes
    media_type: str
    width: int
    height: int

    @property
    def id(self) -> str:
        """Content id: a tagged hash of the bytes."""
        return image_id(self.data)

    @property
    def name(self) -> str:
        """A file name: the id, with the ending of its format."""
        return f"{self.id}.{self.media_type.partition('/')[2].replace('jpeg', 'jpg')}"

    def __str__(self) -> str:
        """Return the image in words: `PNG 640x480, 31 kB`."""
        name = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WebP"}[self.media_type]
        size = len(self.data)
        unit = f"{size / 1e3:,.0f} kB" if size >= 1_000 else f"{size:,} bytes"
        unit = f"{size / 1e6:.1f} MB" if size >= 1e6 else unit
        return f"{name} {self.width}x{self.height}, {unit}"

    __repr__ = __str__


def image_id(data: bytes) -> str:
    """Return the id of an image: the hash of its bytes, tagged."""
    return content_id("img", hashlib.sha256(data).hexdigest())


def parquet_cell(image: Image) -> dict[str, object]:
    """Return an image as `datasets` holds it in a column of the feature `Image`."""
    return {"bytes": image.data, "path": image.name}


def data_address(image: Image) -> str:
    """Return the image as a `data:` address in base64, as JSON holds it."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


@lru_cache(maxsize=16)  # responses to one problem follow each other
def read_image(data: bytes) -> Image:
    """Return the image that the bytes hold, whole, upright and without metadata.

    PNG, JPEG and WebP without metadata keep their bytes. Others are written anew: JPEG as JPEG, the rest as
    PNG.

    Raises:
        ImageProblem: too large, none of the four formats, cut off, damaged, animated, or of no size.
    """
    if len(data) > MOST_BYTES:
        raise ImageProblem(TOO_LARGE)
    import PIL.Image
    from PIL import UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's about EXIF
            with PIL.Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
                return _read(picture, data)
    except ImageProblem:
        raise
    except UnidentifiedImageError as error:
        raise ImageProblem("is not a PNG, JPEG, WebP or GIF") from error
    except Exception as error:  # Pillow has no class of its own for what is wrong with bytes
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ImageProblem(f"is damaged or cannot be decoded ({reason})") from error


def _read(picture: Any, data: bytes) -> Image:
    from PIL import ImageOps

    width, height = picture.size
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise ImageProblem(
            f"is {width}x{height} pixels, more than the limit of {MOST_PIXELS / 1e6:,.1f} million pixels and "
            f"{LONGEST_SIDE:,} per side. Make it smaller"
        )
    kind = "JPEG" if picture.format == "MPO" else picture.format  # a JPEG with further pictures
    if kind != "JPEG" and getattr(picture, "n_frames", 1) > 1:
        raise ImageProblem("is animated. Save the intended frame as a picture")
    picture.load()
    segments = {name for name, _ in getattr(picture, "applist", ())}
    plain = picture.info.keys() <= _PLAIN_INFO and segments <= _PLAIN_SEGMENTS
    if picture.format in ("PNG", "JPEG", "WEBP") and plain:
        return Image(data, f"image/{kind.lower()}", *picture.size)
    upright = ImageOps.exif_transpose(picture)
    upright.info = {name: value for name, value in picture.info.items() if name in _OF_PIXELS}
    kind, options = ("JPEG", {"quality": 95, "subsampling": 0}) if kind == "JPEG" else ("PNG", {})
    target = io.BytesIO()
    upright.save(target, format=kind, **options)
    return Image(target.getvalue(), f"image/{kind.lower()}", *upright.size)


def place_images(text: str, images: int) -> str:
    """Return the text with a placeholder for each image; where it has none they come before it."""
    count = text.count(PLACEHOLDER)
    if not images or count == images:
        return text
    if count:
        raise InputError(
            f"{images} image{'s' * (images > 1)}, but {count} {PLACEHOLDER} in the text. The numbers must be "
            "equal, or the text must have none"
        )
    return PLACEHOLDER * images + text
