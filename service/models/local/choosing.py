"""Choosing the next token of each row: greedy, or by the row's own uniform number from its nucleus.

A row's choice depends on its logits and its own number only. The number is looked up in the distribution in
order of token ids, not of probabilities: rounding moves bounds a little, but never exchanges two tokens.
"""

from collections.abc import Sequence

import numpy as np
import torch

from service.errors import InputError

_BLOCK = 256
_FIRST_LOOK = 256
_ROWS_AT_ONCE = 64


class Uniforms:
    """The numbers in [0, 1) of one sample, one a token: Philox keyed by the sample's seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=seed))
        self._block: list[float] = []
        self._first = -_BLOCK

    def at(self, place: int) -> float:
        """Return the number of the token at a place of the response; places are asked for in order."""
        while place >= self._first + _BLOCK:
            self._block = self._generator.random(_BLOCK).tolist()
            self._first += _BLOCK
        return self._block[place - self._first]


def choose_tokens(
    logits: torch.Tensor, uniforms: Sequence[float], *, temperature: float, top_p: float
) -> list[int]:
    """Return the next token of each row of `logits` (rows, vocabulary).

    At temperature 0 the most probable (the first of equals). Else from the smallest set of most probable
    tokens whose probabilities at this temperature sum to at least `top_p` (arXiv 1904.09751, section 3.1),
    renormalised; the sorting is exact, whatever the size of the set.

    Raises:
        InputError: logits that are not numbers; the weights overflow in this dtype.
    """
    chosen: list[int] = []
    for first in range(0, len(logits), _ROWS_AT_ONCE):
        part = logits[first : first + _ROWS_AT_ONCE]
        if part.dtype not in (torch.float32, torch.float64):
            part = part.float()
        if temperature == 0:
            _check(part.amax(-1))
            chosen += part.argmax(-1).tolist()
        else:
            numbers = torch.tensor(uniforms[first : first + _ROWS_AT_ONCE], dtype=torch.float64)
            chosen += _draw(part / temperature, numbers.to(part.device), top_p).tolist()
    return chosen


def _draw(logits: torch.Tensor, uniforms: torch.Tensor, top_p: float) -> torch.Tensor:
    total = logits.logsumexp(-1, keepdim=True)
    _check(total)
    size = logits.shape[1]
    if top_p >= 1:
        return _look_up(torch.exp(logits - total).double(), uniforms)
    chosen = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    open_rows = torch.arange(len(logits), device=logits.device)
    look = min(_FIRST_LOOK, size)
    while len(open_rows):
        best, ids = logits[open_rows].topk(look, sorted=True)
        probabilities = torch.exp(best - total[open_rows]).double()
        before = probabilities.cumsum(-1) - probabilities
        is_enough = (before[:, -1] + probabilities[:, -1] >= top_p) | (look == size)
        ids, order = ids[is_enough].sort(-1)
        kept = torch.where(before < top_p, probabilities, 0.0)[is_enough].gather(1, order)
        rows = open_rows[is_enough]
        chosen[rows] = ids.gather(1, _look_up(kept, uniforms[rows])[:, None])[:, 0]
        open_rows = open_rows[~is_enough]
        look = min(look * 16, size)
    return chosen


def _look_up(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return for each row the place where its number falls in the cumulated weights."""
    cumulated = weights.cumsum(-1)
    target = uniforms * cumulated[:, -1]
    place = torch.searchsorted(cumulated, target[:, None], right=True)[:, 0]
    # Rounding may lead past the end: to the last place that has a weight.
    last = (weights > 0).long().cumsum(-1).argmax(-1)
    return torch.minimum(place, last)


def _check(numbers: torch.Tensor) -> None:
    if not bool(numbers.isfinite().all()):
        raise InputError(
            "the model's logits are not finite numbers: its weights are damaged, or overflow in this dtype; "
            "try --dtype float32 or bfloat16."
        )
