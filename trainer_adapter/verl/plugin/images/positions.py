"""Token positions of prompts with images: of a row, and of rows packed as verl indexes them."""

from collections.abc import Mapping
from typing import Any

import torch

from service.engines.images import image_tokens


def positions_of(processor: Any, tokens: torch.Tensor, seen: Mapping[str, Any]) -> torch.Tensor:
    """Return the positions of a row's tokens, shape T; (4, T) for three-dimensional rotary positions."""
    places = torch.arange(len(tokens))
    if processor is None or not hasattr(processor, "get_rope_index"):
        return places
    if seen.get("image_grid_thw") is None:
        return places.expand(4, -1).clone()
    of_images = torch.tensor(sorted(image_tokens(processor.config)))
    vision, _ = processor.get_rope_index(
        input_ids=tokens[None],
        mm_token_type_ids=torch.isin(tokens, of_images).int()[None],
        image_grid_thw=seen["image_grid_thw"],
        attention_mask=torch.ones_like(tokens)[None],
    )
    return torch.cat([places[None], vision[:, 0]])


def pack_by_tokens(data: Any) -> None:
    """Make the positions of a batch jagged over tokens, in place; those of texts stay unchanged.

    If all rows of a step have the same length, verl's queue packs them by coordinates instead of tokens, and
    `maybe_fix_3d_position_ids` of verl 0.9.1 only renames the dimension. Then the step fails (verl issue
    7899).
    """
    held = data.get("position_ids", None)
    if not isinstance(held, torch.Tensor) or not held.is_nested or held.dim() != 3:
        return
    values, ends = held.values(), held.offsets()
    if values.shape[0] != int(ends[-1]):
        held._ragged_idx = 2  # lost on the way between processes
        return
    rows, length = len(ends) - 1, values.shape[1]
    by_tokens = values.view(rows, -1, length).transpose(0, 1).reshape(-1, rows * length)
    offsets = torch.arange(rows + 1, device=values.device) * length
    packed: Any = torch.nested.nested_tensor_from_jagged(by_tokens, offsets)
    packed._ragged_idx = 2
    data["position_ids"] = packed
