"""Trying a model out: may rows of different lengths share a batch of cached keys and values?"""

import inspect
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from service.models.local.cache import Room, RowCache

_KINDS = {"full_attention", "sliding_attention"}
_TOLERANCE = 0.1  # of the logits' standard deviation; rounding in bfloat16 stays well below


def can_share_a_batch(model: Any) -> bool:
    """Return whether a model can be decoded as `MovingBatch` does it.

    Its configuration must name no layers but those of full and sliding attention; all of them must keep the
    keys and values of every token; and a short row beside a longer one must get the logits it gets alone.
    """
    text = model.config.get_text_config(decoder=True)
    if not set(getattr(text, "layer_types", None) or []) <= _KINDS:
        return False
    try:
        layers = DynamicCache(config=model.config).layers
        if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
            return False
        with torch.inference_mode():
            return _decodes_beside_another(model)
    except torch.OutOfMemoryError:
        raise
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, RuntimeError):
        return False  # it takes no cache, or another one


def keys_of_a_token(model: Any) -> int:
    """Return how many bytes keys and values of one token take, of a model that keeps them."""
    past = DynamicCache()
    with torch.inference_mode():
        _read(model, [1], past)
    return sum(part.nbytes for layer in past.layers for part in (layer.keys, layer.values))


def accepted_arguments(model: Any) -> frozenset[str]:
    """Return the names of the arguments that a model's forward pass takes."""
    return frozenset(inspect.signature(model.forward).parameters)


def extra_arguments(accepted: frozenset[str], positions: torch.Tensor) -> dict[str, Any]:
    """Return those of the arguments `position_ids` and `logits_to_keep` (the last) that are accepted."""
    wanted = {"position_ids": positions, "logits_to_keep": 1}
    return {name: value for name, value in wanted.items() if name in accepted}


def _decodes_beside_another(model: Any) -> bool:
    short, long, following = [1, 2], [3, 1, 4, 1, 5, 2], 3
    cache, room = RowCache(), Room(2, 1 << 40)
    for ids in (long, short):
        past = DynamicCache()
        _read(model, ids, past)
        pairs = [(layer.keys, layer.values) for layer in past.layers]
        if not pairs or any(
            part.shape[0] != 1 or part.shape[2] != len(ids) for pair in pairs for part in pair
        ):
            return False
        cache.append([(keys[0], values[0]) for keys, values in pairs], 1, room)
    positions = torch.tensor(cache.lengths(), device=model.device)[:, None]
    together = model(
        input_ids=torch.full((2, 1), following, device=model.device),
        attention_mask=cache.mask(model.device),
        past_key_values=cache.past,
        use_cache=True,
        **extra_arguments(accepted_arguments(model), positions),
    ).logits[1, -1]
    alone = _read(model, [*short, following], DynamicCache()).logits[0, -1]
    return bool((together - alone).abs().max() <= _TOLERANCE * alone.float().std())


def _read(model: Any, ids: list[int], past: DynamicCache) -> Any:
    positions = torch.arange(len(ids), device=model.device)[None]
    return model(
        input_ids=torch.tensor([ids], device=model.device),
        past_key_values=past,
        use_cache=True,
        **extra_arguments(accepted_arguments(model), positions),
    )
