"""Choose the next token of each response: greedy, or by the response's own random number.

The choice depends only on the response's logits, settings and random number. The number is looked up in the
cumulative distribution in order of token ids, not of probabilities: rounding moves the bounds a little, but
never swaps two tokens. So a response does not depend on its batch.
"""

from collections import Counter
from collections.abc import Sequence

import torch

from service.errors import InputError
from service.models.settings import Sampling

_FIRST_LOOK = 256


def penalize(
    logits: torch.Tensor, how: Sampling, prompts: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Return logits (rows, vocabulary) after the penalties, if there are any.

    The repetition penalty (arXiv 1909.05858, section 4.1) counts prompt and response; the presence and
    frequency penalties count the response.
    """
    if (how.repetition_penalty, how.presence_penalty, how.frequency_penalty) == (1.0, 0.0, 0.0):
        return logits
    logits = logits.clone()
    for row, (prompt, response) in enumerate(zip(prompts, tokens, strict=True)):
        seen = torch.tensor(sorted({*prompt, *response}), device=logits.device)
        scores = logits[row, seen]
        factor = how.repetition_penalty
        logits[row, seen] = torch.where(scores > 0, scores / factor, scores * factor)
        for token, count in Counter(response).items():
            logits[row, token] -= how.presence_penalty + count * how.frequency_penalty
    return logits


def choose_tokens(logits: torch.Tensor, uniforms: Sequence[float], how: Sampling) -> list[int]:
    """Return the next token of each row of `logits` (rows, vocabulary), after penalties.

    At temperature 0 this is the most probable token (the first of equals). Otherwise min-p and top-k cut the
    distribution at this temperature, then top-p keeps the smallest set of most probable tokens whose
    probabilities sum to at least `top_p` (arXiv 1904.09751, section 3.1).
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    if not bool(logits.amax(-1).isfinite().all()):
        raise InputError(
            "The model's logits are not finite numbers: its weights are damaged, or overflow in this dtype. "
            "Set dtype to float32 or bfloat16."
        )
    if how.temperature == 0:
        greedy: list[int] = logits.argmax(-1).tolist()
        return greedy
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
    chosen: list[int] = _draw(_cut(logits, how), numbers, how.top_p).tolist()
    return chosen


def log_probs(logits: torch.Tensor, tokens: Sequence[int], how: Sampling) -> list[float]:
    """Return the log-probability of one token per row in the distribution that it was drawn from.

    `logits` (rows, vocabulary) are those after penalties. A token at temperature 0 gets its log-probability
    at temperature 1.
    """
    # Double precision: in single, the sum over a large vocabulary loses rare tokens.
    log_p = torch.log_softmax((_cut(logits, how) if how.temperature else logits).double(), dim=-1)
    chosen = log_p.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0]
    if how.temperature and how.top_p < 1:
        ordered = log_p.exp().sort(descending=True).values
        kept = ordered.where(ordered.cumsum(-1) - ordered < how.top_p, 0.0)
        chosen -= kept.sum(-1).log()
    values: list[float] = chosen.tolist()
    return values


def _cut(logits: torch.Tensor, how: Sampling) -> torch.Tensor:
    """Return logits at the temperature; those of tokens outside min-p and top-k are -inf."""
    logits = (logits - logits.amax(-1, keepdim=True)) / how.temperature
    if how.min_p > 0:
        logits = logits.masked_fill(logits.exp() < how.min_p, -torch.inf)
    if 0 < how.top_k < logits.shape[1]:
        least = logits.topk(how.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return logits


def _draw(
    logits: torch.Tensor, uniforms: torch.Tensor, top_p: float, look: int = _FIRST_LOOK
) -> torch.Tensor:
    total = logits.logsumexp(-1, keepdim=True)
    if top_p >= 1:
        return _look_up(torch.exp(logits - total).double(), uniforms)
    best, ids = logits.topk(min(look, logits.shape[1]))
    probabilities = torch.exp(best - total).double()
    before = probabilities.cumsum(-1) - probabilities
    ids, order = ids.sort(-1)
    kept = torch.where(before < top_p, probabilities, 0.0).gather(1, order)
    chosen = ids.gather(1, _look_up(kept, uniforms)[:, None])[:, 0]
    is_short = before[:, -1] + probabilities[:, -1] < top_p
    if look < logits.shape[1] and bool(is_short.any()):  # only these rows need more of the vocabulary
        chosen[is_short] = _draw(logits[is_short], uniforms[is_short], top_p, look * 16)
    return chosen


def _look_up(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return for each row the index at which its number falls in the cumulative weights."""
    cumulated = weights.cumsum(-1)
    target = uniforms * cumulated[:, -1]
    place = torch.searchsorted(cumulated, target[:, None], right=True)[:, 0]
    # Rounding may lead past the last index that has a weight.
    last = (weights > 0).long().cumsum(-1).argmax(-1)
    return torch.minimum(place, last)
