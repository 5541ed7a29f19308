"""Images of the rows of a source: read from what a cell holds, kept until they are stored."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from service.questions.files import JsonNumber
from service.questions.images.image import (
    MOST_BYTES,
    PLACEHOLDER,
    TOO_LARGE,
    Image,
    ImageProblem,
    read_image,
)

MOST_IMAGES = 64  # of a question
_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://|//|data:|file:")
_NUMBERED = re.compile(r"<image[ _]?(\d{1,2})>")


class RowImages:
    """The images of a source's rows, each once, by id."""

    def __init__(
        self,
        folder: Path | None = None,
        other: str = "--column images=NAME",
        without: str | None = "--column images=",
    ) -> None:
        """Set up; paths in rows are relative to `folder`, and refused where there is none.

        In messages `other` is what names another column, `without` what takes the texts alone, if anything.
        """
        self._folder, self._other, self._without = folder, other, without
        self._images: dict[str, Image] = {}

    def __len__(self) -> int:
        return len(self._images)

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
        if isinstance(entry, Mapping) and ("bytes" in entry or "path" in entry):
            data, path = entry.get("bytes"), entry.get("path")
            if isinstance(data, bytes):
                return read_image(data)
            if data is None and isinstance(path, str):
                return self._of_a_file(path)
        if isinstance(entry, str) and not isinstance(entry, JsonNumber):
            return self._of_a_text(entry.strip())
        kind = "an object" if isinstance(entry, Mapping) else f"the value {str(entry)[:40]}"
        raise ImageProblem(f"is {kind}, not an image. Choose another column with {self._other}")

    def _of_a_text(self, text: str) -> Image:
        if text[:5].lower() == "data:":
            head, comma, encoded = text.partition(",")
            if not comma or not head.lower().endswith(";base64"):
                raise ImageProblem("is a data: address without base64 content")
            if len(encoded) > MOST_BYTES // 3 * 4 + 8:
                raise ImageProblem(TOO_LARGE)
            try:
                return read_image(base64.b64decode(encoded, validate=True))
            except ValueError as error:
                raise ImageProblem(f"is a data: address with damaged base64 ({error})") from error
        return self._of_a_file(text)

    def _of_a_file(self, name: str) -> Image:
        if _ADDRESS.match(name):
            alone = f", or pass {self._without} to import the text without images" if self._without else ""
            raise ImageProblem(
                f"is an address ({name[:60]}), which tagrpo does not fetch. Download the images and give "
                f"their file names{alone}"
            )
        if self._folder is None:
            raise ImageProblem(f"names a file ({name[:60]}), but rows of the Hub must contain their images")
        try:
            top, whole = self._folder.resolve(), (self._folder / name).resolve()
            is_file = whole.is_file()
        except (OSError, RuntimeError, ValueError) as error:  # too long, a link to itself, a NUL
            raise ImageProblem(f"names {name[:60]!r}, which is not a file path") from error
        if not whole.is_relative_to(top):
            raise ImageProblem(f'names "{name[:60]}". Give a path inside the folder of the rows')
        if not is_file:
            raise ImageProblem(f'names "{name[:60]}", but there is no such file in {self._folder}')
        try:
            with whole.open("rb") as file:
                return read_image(file.read(MOST_BYTES + 1))
        except OSError as error:
            raise ImageProblem(f'"{name[:60]}" cannot be read ({error.strerror})') from error
        except ImageProblem as problem:
            raise ImageProblem(f'"{name[:60]}" {problem}') from problem


def order_numbered(text: str, ids: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the text with `<image>` for `<image1>` and `<image 1>`, and the images as it names them.

    A single image for several numbers holds all that they name, as in MathVision: there the text keeps them.

    Raises:
        ImageProblem: a number that none of several images has.
    """
    numbers = [int(match) for match in _NUMBERED.findall(text)]
    if not ids or not numbers or PLACEHOLDER in text:
        return text, tuple(ids)
    if len(ids) == 1 and set(numbers) != {1}:
        return text, tuple(ids)
    if min(numbers) < 1 or max(numbers) > len(ids):
        raise ImageProblem(f"contains {len(ids)} images, but the text refers to image {max(numbers)}")
    return _NUMBERED.sub(PLACEHOLDER, text), tuple(ids[number - 1] for number in numbers)


def _entries(value: Any) -> Iterator[Any]:
    if value is None or value == "" or (isinstance(value, float) and value != value):
        return
    if isinstance(value, str) and value.lstrip().startswith("["):  # a cell of CSV
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ImageProblem(f"is not a list in JSON ({error})") from error
    if isinstance(value, Mapping) and value.keys() <= {"bytes", "path"} and not any(value.values()):
        return
    if isinstance(value, list):
        for entry in value:
            if isinstance(entry, list):
                raise ImageProblem("is a nested list")
            yield from _entries(entry)
        return
    yield value
