"""Prompts with images: what a model is given of them, and the positions of their tokens.

The patches of an image share a time and have rows and columns. Models of this kind (Qwen 2 VL, 2.5 VL and
3 VL, GLM 4V) turn queries and keys by three positions (multi-modal rotary embedding, arXiv 2409.12191,
section 2.1), which they work out by `get_rope_index`.
"""

from collections.abc import Mapping
from typing import Any

import torch

from service.models.processors import image_tokens

_ROW_OF_IMAGES = 1  # of `mm_token_type_ids` in transformers; 0 is text


def has_positions_of_images(model: Any) -> bool:
    """Return whether a model of transformers works out positions of a prompt with images."""
    return hasattr(getattr(model, "model", None), "get_rope_index")


def read_positions(model: Any, ids: torch.Tensor, seen: Mapping[str, Any]) -> torch.Tensor:
    """Return the positions of the tokens `ids` (1, T), shape (3, 1, T).

    Args:
        seen: what the model is given of the images; the sizes `image_grid_thw` are needed.
    """
    is_image = torch.isin(ids, torch.tensor(sorted(image_tokens(model.config)), device=ids.device))
    positions: torch.Tensor = model.model.get_rope_index(
        ids,
        mm_token_type_ids=is_image.int() * _ROW_OF_IMAGES,
        image_grid_thw=seen["image_grid_thw"],
        attention_mask=torch.ones_like(ids),
    )[0]
    return positions


def as_given(made: Mapping[str, Any], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return what a model is given of images, of what a processor made: all but tokens and their mask."""
    return {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in made.items()
        if name not in ("input_ids", "attention_mask")
    }
