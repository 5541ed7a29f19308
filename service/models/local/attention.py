"""Attention of one new token a row, without copying keys and values for each head that shares them.

In every step, `sdpa` of transformers copies the keys and values of grouped heads (arXiv 2305.13245) for each
query head. With one token a row the heads of a group can stand in the place of tokens instead: the same sums.
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "tagrpo_grouped"


def share_keys_of_groups(model: Any) -> None:
    """Let a model that attends by `sdpa` share keys and values; any other is left as it is."""
    if model.config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    model.set_attn_implementation(_NAME)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    rows, heads, length, size = query.shape
    groups = key.shape[1]
    of_all_heads = attention_mask is None or attention_mask.shape[1] == 1
    if length > 1 or heads == groups or not of_all_heads:
        attended: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return attended
    out = torch.nn.functional.scaled_dot_product_attention(
        query.view(rows, groups, heads // groups, size), key, value, attn_mask=attention_mask, scale=scaling
    )
    return out.reshape(rows, 1, heads, value.shape[3]), None
