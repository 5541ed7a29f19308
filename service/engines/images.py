"""Images in prompts: the processors of transformers, and pictures in the form that they take."""

import io
from collections.abc import Mapping
from typing import Any

FORBIDDEN = -100.0
"""The logit bias of a token that must not be drawn: the lowest that vLLM takes."""

_TOKENS = ("image_token_id", "video_token_id", "image_token_index", "video_token_index")


def open_held(held: Any) -> Any:
    """Return an image of a data set in RGB; transparent pixels become white, as on a page.

    `held` is a Pillow picture, a path, or a mapping of `bytes` and `path`.
    """
    from PIL import Image

    if isinstance(held, Mapping):
        held = io.BytesIO(held["bytes"]) if held.get("bytes") else held["path"]
    picture = Image.open(held) if isinstance(held, str | io.BytesIO) else held
    if picture.mode == "RGB":
        return picture
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return picture.convert("RGB")


def takes_images(config: Any) -> bool:
    """Return whether a model's configuration has a vision part."""
    return getattr(config, "vision_config", None) is not None


def model_class(config: Any) -> Any:
    """Return the transformers class that loads a model of this configuration, vision part included."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if takes_images(config) else AutoModelForCausalLM


def image_tokens(config: Any) -> frozenset[int]:
    """Return the tokens that represent images in a model's prompts; a response must not contain them."""
    ids = (getattr(config, name, None) for name in _TOKENS)
    return frozenset(id for id in ids if isinstance(id, int))


def open_processor(model: str, revision: str | None = None) -> Any:
    """Return the processor of a model that takes images: its tokenizer and image processor.

    Raises:
        OSError, ValueError, ImportError: it cannot be found or read.
    """
    leave_out_videos()
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model, revision=revision or "main")


def leave_out_videos() -> None:
    """Let processors load without their video part if torchvision is missing.

    In transformers 5 that part needs torchvision, and a processor loads as a whole
    (`ProcessorMixin.get_attributes` in processing_utils.py). Pillow then reads the images. A second call
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
