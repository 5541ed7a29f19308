"""Images in prompts: the processors of transformers, and pictures as they take them."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

FORBIDDEN = -100.0
"""What is added to the logit of a token that is not to be drawn: the least that vLLM takes."""

_TOKENS = ("image_token_id", "video_token_id", "image_token_index", "video_token_index")


@dataclass(frozen=True)
class Pictures:
    """What goes with a prompt that holds images.

    Attributes:
        files: the images as the bytes of files (PNG, JPEG, WebP), in the order of their places.
        text: the prompt as its chat template renders it, with one mark for each image.
        ids: its tokens, one for each image.
    """

    files: tuple[bytes, ...]
    text: str
    ids: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """What tells the images from others."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(hashlib.sha256(file).digest())
        return digest.hexdigest()

    def opened(self) -> list[Any]:
        """Return them decoded, as `as_rgb` gives them."""
        return [open_held({"bytes": file}) for file in self.files]


def pictures_key(pictures: Sequence[Any]) -> str:
    """Return what tells pictures of Pillow from others."""
    digest = hashlib.sha256()
    for picture in pictures:
        digest.update(f"{picture.mode} {picture.size} ".encode())
        digest.update(picture.tobytes())
    return digest.hexdigest()


def as_rgb(picture: Any) -> Any:
    """Return a picture of Pillow in RGB; what is transparent becomes white, as on a page."""
    if picture.mode == "RGB":
        return picture
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        from PIL import Image

        layer = picture.convert("RGBA")
        page = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(page, layer).convert("RGB")
    return picture.convert("RGB")


def open_held(held: Any) -> Any:
    """Return an image of a data set as `as_rgb` gives it: of Pillow, a path, or its `bytes` and `path`."""
    if isinstance(held, Mapping):
        held = io.BytesIO(held["bytes"]) if held.get("bytes") else held["path"]
    if isinstance(held, str | io.BytesIO):
        from PIL import Image

        held = Image.open(held)
    return as_rgb(held)


def takes_images(config: Any) -> bool:
    """Return whether a model's configuration has a part that sees."""
    return getattr(config, "vision_config", None) is not None


def image_tokens(config: Any) -> frozenset[int]:
    """Return the tokens that stand for images in a model's prompts, and mean nothing in a response."""
    ids = (getattr(config, name, None) for name in _TOKENS)
    return frozenset(id for id in ids if isinstance(id, int))


def open_processor(model: str, revision: str | None = None) -> Any:
    """Return the processor of a model that takes images: its tokenizer and what makes pixels of pictures.

    Raises:
        OSError, ValueError, ImportError: it cannot be found or read.
    """
    leave_out_videos()
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model, revision=revision or "main")


def leave_out_videos() -> None:
    """Let processors be loaded without their part for videos where torchvision is missing.

    In transformers 5 that part needs torchvision, and a processor is loaded whole or not at all
    (`ProcessorMixin.get_attributes` in processing_utils.py); images are then read by Pillow. A second call
    changes nothing.
    """
    from transformers.processing_utils import ProcessorMixin
    from transformers.utils import is_torchvision_available

    original = ProcessorMixin.get_attributes.__func__
    if is_torchvision_available() or getattr(original, "without_videos", False):
        return

    def get_attributes(cls: type) -> list[str]:
        return [name for name in original(cls) if name != "video_processor"]

    get_attributes.without_videos = True  # type: ignore[attr-defined]
    ProcessorMixin.get_attributes = classmethod(get_attributes)
