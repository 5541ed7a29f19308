"""An image: read from bytes that may be anything, decoded once within limits, kept without metadata."""

import base64
import hashlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.hashing import content_id
from service.questions.images.formats import GIF, JPEG, PNG, ImageProblem, clean, format_of

MOST_BYTES = 20_000_000
MOST_PIXELS = 2**25  # 33.5 million: decoded it takes 134 MB
LONGEST_SIDE = 16_384
_ORIENTATION = 0x0112  # in EXIF


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

    def __repr__(self) -> str:
        return f"Image({describe(self.media_type, self.width, self.height, len(self.data))})"


def image_id(data: bytes) -> str:
    """Return the id of an image: the hash of its bytes, tagged."""
    return content_id("img", hashlib.sha256(data).hexdigest())


def parquet_cell(image: Image) -> dict[str, object]:
    """Return an image as `datasets` holds it in a column of the feature `Image`."""
    return {"bytes": image.data, "path": image.name}


def data_address(image: Image) -> str:
    """Return the image as a `data:` address in base64, as JSON holds it."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def describe(media_type: str, width: int, height: int, size: int) -> str:
    """Return the image in words: `PNG 640x480, 31 kB`."""
    name = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WebP"}.get(media_type, media_type)
    unit = (
        f"{size:,} bytes"
        if size < 1_000
        else f"{size / 1e3:,.0f} kB"
        if size < 1e6
        else f"{size / 1e6:.1f} MB"
    )
    return f"{name} {width}x{height}, {unit}"


def read_image(data: bytes) -> Image:
    """Return the image that the bytes hold, whole, upright and without metadata.

    PNG, JPEG and WebP keep their bytes but for metadata. A picture that EXIF says to turn is turned and
    written anew; a GIF becomes a PNG.

    Raises:
        ImageProblem: too large, none of the four formats, cut off, damaged, animated, or of no size.
    """
    if len(data) > MOST_BYTES:
        raise ImageProblem(
            f"is {len(data) / 1000000.0:,.1f} MB, more than the limit of {MOST_BYTES / 1000000.0:,.0f} MB"
        )
    kind = format_of(data)
    cleaned, size = clean(data, kind)
    if size is not None:
        _check_size(*size)
    from PIL import Image as Pillow
    from PIL import ImageOps

    try:
        with warnings.catch_warnings(), Pillow.open(io.BytesIO(cleaned), formats=[kind]) as picture:
            warnings.simplefilter("ignore")  # Pillow's about EXIF
            _check_size(*picture.size)
            if size is not None and picture.size != size:
                raise ImageProblem(f"is a {kind} with contradictory dimensions")
            if getattr(picture, "n_frames", 1) > 1:
                raise ImageProblem("is animated. Save the intended frame as a picture")
            picture.load()
            if kind == GIF:
                cleaned, kind = _written(picture, PNG), PNG
            elif cleaned != data and _orientation(data, kind) in range(2, 9):
                picture.getexif()[_ORIENTATION] = _orientation(data, kind)
                turned = ImageOps.exif_transpose(picture)
                kind = JPEG if kind == JPEG else PNG
                cleaned, size = _written(turned, kind), turned.size
            width, height = size or picture.size
    except ImageProblem:
        raise
    except Exception as error:  # Pillow has no class of its own for what is wrong with bytes
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ImageProblem(f"is a {kind} that cannot be decoded ({reason})") from error
    return Image(cleaned, f"image/{kind.lower()}", width, height)


def read_image_file(path: Path) -> Image:
    """Return the image of a file; one that is too large is not read.

    Raises:
        ImageProblem: as `read_image`, or the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ImageProblem(f"cannot be read ({error.strerror})") from error
    if len(data) > MOST_BYTES:
        raise ImageProblem(f"is larger than {MOST_BYTES / 1000000.0:,.0f} MB, the limit for reading")
    return read_image(data)


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise ImageProblem(f"is {width}x{height} pixels, too small to show anything")
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise ImageProblem(
            f"is {width}x{height} pixels, more than the limit of {MOST_PIXELS / 1000000.0:,.1f} million "
            f"pixels and {LONGEST_SIDE:,} per side. Make it smaller"
        )


def _orientation(data: bytes, kind: str) -> int:
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(data), formats=[kind]) as picture:
            return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # EXIF that cannot be read turns nothing
        return 1


def _written(picture: Any, kind: str) -> bytes:
    target = io.BytesIO()
    profile = picture.info.get("icc_profile")
    options: dict[str, Any] = {"quality": 95} if kind == JPEG else {}
    picture.save(target, format=kind, exif=b"", icc_profile=profile, **options)
    return target.getvalue()
