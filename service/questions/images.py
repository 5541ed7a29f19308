"""Images of questions: read from any bytes within limits, placed in texts, stored once by content."""

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import LargeBinary, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.database import Base, Database, columns_of, in_parts, upsert, utc_now
from service.database.triggers import append_only
from service.errors import InputError, NotFoundError
from service.hashing import content_id
from service.questions.files import JsonNumber

PLACEHOLDER = "<image>"
"""Marks an image in a text, as in verl and in many data sets."""

MOST_BYTES = 20_000_000
TOO_LARGE = f"is larger than {MOST_BYTES / 1e6:.0f} MB, the limit for an image"
MOST_PIXELS = 2**25  # 33.5 million: decoded it takes 134 MB
LONGEST_SIDE = 16_384
MOST_IMAGES = 64  # of a question
_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://|//|data:|file:")
_DATA_ADDRESS = re.compile(r"(?i)data:[^,]*;base64,")
_NUMBERED = re.compile(r"<image[ _]?(\d{1,2})>")
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_OF_PIXELS = frozenset({"icc_profile", "transparency", "gamma", "srgb", "chromaticity"})
_PLAIN_INFO = _OF_PIXELS | {
    *("dpi", "interlace", "jfif", "jfif_version", "jfif_unit", "jfif_density", "adobe", "adobe_transform"),
    *("progressive", "progression", "loop", "background", "timestamp", "duration"),
}
"""What Pillow tells of a file that says nothing but how to show it."""
_PLAIN_SEGMENTS = frozenset({"APP0", "APP2", "APP14"})  # of a JPEG: JFIF, colours, Adobe's transform


@append_only
class ImageRow(Base):
    """An image that questions and problems refer to, addressed by the hash of its bytes. Never updated."""

    __tablename__ = "images"
    id: Mapped[str] = mapped_column(primary_key=True)
    media_type: Mapped[str]  # image/png, image/jpeg or image/webp
    width: Mapped[int]
    height: Mapped[int]
    size: Mapped[int]  # bytes
    created_at: Mapped[str]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class ImageProblem(InputError):
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

    def __str__(self) -> str:
        """Return the image in words: `PNG 640x480, 31.4 kB`."""
        form = self.media_type.removeprefix("image/").upper()
        return f"{form} {self.width}x{self.height}, {len(self.data) / 1e3:,.1f} kB"

    __repr__ = __str__


def image_id(data: bytes) -> str:
    """Return the id of an image: the hash of its bytes, tagged."""
    return content_id("img", hashlib.sha256(data).hexdigest())


def parquet_cell(image: Image) -> dict[str, object]:
    """Return an image as `datasets` holds it in a column of the feature `Image`."""
    ending = image.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return {"bytes": image.data, "path": f"{image.id}.{ending}"}


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
        raise ImageProblem(
            f"contains {images} image{'s' * (images > 1)}, but the text has {count} {PLACEHOLDER}. The text "
            "needs one for each image, or none"
        )
    return PLACEHOLDER * images + text


LoadImages = Callable[[Iterable[str]], Mapping[str, Image]]
"""Returns images by id, each once."""


class RowImages:
    """The images of a source's rows, each once, by id."""

    def __init__(self, folder: Path | None = None, setting: str = "--column images=NAME") -> None:
        """Set up; paths in rows are relative to `folder`, and refused without one.

        In messages, `setting` is what names another column.
        """
        self._folder, self._setting = folder, setting
        self._images: dict[str, Image] = {}

    def take(self, value: Any) -> tuple[str, ...]:
        """Read the images of a cell and return their ids, in order.

        A cell holds nothing, an image or a list of them: bytes, `{"bytes": ..., "path": ...}` as `datasets`
        writes them, the path of a file, or a `data:` address. Nothing is ever fetched.

        Raises:
            ImageProblem: an image cannot be used; the message says which.
        """
        entries = list(_entries(value))
        if len(entries) > MOST_IMAGES:
            raise ImageProblem(f"contains {len(entries)} images, more than the limit of {MOST_IMAGES}")
        ids = []
        for number, entry in enumerate(entries, start=1):
            try:
                image = self._read(entry)
            except ImageProblem as problem:
                which = f"image {number} " if len(entries) > 1 else ""
                raise ImageProblem(f"{which}{problem}") from problem
            ids.append(image.id)
            self._images[image.id] = image
        return tuple(ids)

    def read(self, ids: Iterable[str]) -> Iterator[Image]:
        """Yield the images of these ids, each once."""
        for id in dict.fromkeys(ids):
            yield self._images[id]

    def _read(self, entry: Any) -> Image:
        if isinstance(entry, bytes):
            return read_image(entry)
        if not isinstance(entry, str) or isinstance(entry, JsonNumber):
            raise ImageProblem(
                f"is {str(entry)[:40]}, not an image. Choose another column with {self._setting}"
            )
        entry = entry.strip()
        if data := _DATA_ADDRESS.match(entry):
            if len(entry) - data.end() > MOST_BYTES // 3 * 4 + 8:
                raise ImageProblem(TOO_LARGE)
            try:
                return read_image(base64.b64decode(entry[data.end() :], validate=True))
            except ValueError as error:
                raise ImageProblem(f"is a data: address with damaged base64 ({error})") from error
        if _ADDRESS.match(entry):
            raise ImageProblem(
                f"is an address ({entry[:60]}), which tagrpo does not fetch. Download the images and give "
                f"their file names, or choose another column with {self._setting}"
            )
        return self._of_a_file(entry)

    def _of_a_file(self, name: str) -> Image:
        if self._folder is None:
            raise ImageProblem(f"names a file ({name[:60]}), but rows of the Hub must contain their images")
        try:
            path = (self._folder / name).resolve()
            if path.is_relative_to(self._folder.resolve()) and path.is_file():
                with path.open("rb") as file:
                    return read_image(file.read(MOST_BYTES + 1))
        except ImageProblem as problem:
            raise ImageProblem(f"{name[:60]!r} {problem}") from problem
        except (OSError, RuntimeError, ValueError):  # too long, a link to itself, a NUL, not readable
            pass
        raise ImageProblem(f"names {name[:60]!r}, which is not a readable file inside {self._folder}")


def order_numbered(text: str, ids: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the text with `<image>` for `<image1>` and `<image 1>`, and the images as it names them.

    A single image for several numbers holds all that they name, as in MathVision: there the text keeps them.

    Raises:
        ImageProblem: a number that none of several images has.
    """
    numbers = [int(match) for match in _NUMBERED.findall(text)]
    shows_all = len(ids) == 1 and set(numbers) != {1}
    if not ids or not numbers or PLACEHOLDER in text or shows_all:
        return text, tuple(ids)
    if min(numbers) < 1 or max(numbers) > len(ids):
        raise ImageProblem(f"contains {len(ids)} images, but the text refers to image {max(numbers)}")
    return _NUMBERED.sub(PLACEHOLDER, text), tuple(ids[number - 1] for number in numbers)


def _entries(value: Any) -> Iterator[Any]:
    """Yield the images of a cell, which may be a list."""
    if isinstance(value, Mapping) and not {"bytes", "path"}.isdisjoint(value):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, list):
        for entry in value:
            if isinstance(entry, list):
                raise ImageProblem("is a nested list")
            yield from _entries(entry)
    elif value not in (None, "") and value == value:  # NaN is not equal to itself
        yield value


def store_images(session: Session, images: Iterable[Image]) -> int:
    """Insert the images that are not in the database yet; return how many were new."""
    new = 0
    for image in images:
        row = {**vars(image), "id": image.id, "size": len(image.data), "created_at": utc_now()}
        made = session.execute(upsert(ImageRow).values(row).on_conflict_do_nothing().returning(ImageRow.id))
        new += len(made.all())
    return new


def load_images(session: Session, ids: Iterable[str]) -> dict[str, Image]:
    """Return the images by id, each once."""
    wanted = list(dict.fromkeys(ids))
    images: dict[str, Image] = {}
    query = select(ImageRow.id, *columns_of(ImageRow, Image))
    for part in in_parts(wanted, 20):  # images are large
        rows = session.execute(query.where(ImageRow.id.in_(part)))
        images |= {id: Image(*columns) for id, *columns in rows}
    if missing := sorted(set(wanted) - set(images)):
        raise NotFoundError(
            f"no image {missing[0]} in the database, which may be damaged. Run `tagrpo db check`."
        )
    return images


def image_loader(db: Database) -> LoadImages:
    """Return what loads images of a database, a few at a time as they are needed."""
    return lambda ids: db.repeat(lambda session: load_images(session, ids), write=False)


def image_problems(session: Session) -> list[str]:
    """Read all images and return what is wrong with those whose bytes do not give their id or size."""
    rows = session.execute(select(ImageRow.id, ImageRow.size, ImageRow.data).execution_options(yield_per=20))
    return [
        f"image {id}: its bytes do not match its id or size"
        for id, size, data in rows
        if image_id(data) != id or len(data) != size
    ]
