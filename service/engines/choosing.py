"""A response being drawn, and the choice of its next token: greedy, or by its own random number.

The choice depends only on the response's logits, settings and random number. The number is looked up in the
cumulative distribution in order of token ids, not of probabilities: rounding moves the bounds a little, but
never swaps two tokens. So a response does not depend on its batch.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
)

from service.errors import InputError
from service.models.settings import Sampling

_LOOKS = (256, 4096)

LoadImages = Callable[[], Mapping[str, torch.Tensor]]
"""Returns what the model's processor makes of the images of a prompt (`pixel_values`, ...)."""


@dataclass(eq=False)
class Row:
    """One response being drawn. `ends` returns whether the tokens so far end it (a stop text).

    Rows of one prompt with images have the same `images`, so that a batch reads them together.
    `log_probs` gets the log-probability of each token; None: they are not computed.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    how: Sampling
    stop_ids: frozenset[int]
    ends: Callable[[Sequence[int]], bool] | None = None
    images: LoadImages | None = None
    log_probs: list[float] | None = None
    tokens: list[int] = field(default_factory=list)
    stop_reason: str | None = None
    is_dropped: bool = False

    def __post_init__(self) -> None:
        self.numbers = np.random.Generator(np.random.Philox(key=self.seed))

    @property
    def is_open(self) -> bool:
        """Whether the response needs more tokens."""
        return self.stop_reason is None and not self.is_dropped

    def add(self, token: int) -> None:
        """Append a token and note whether the response ends with it."""
        self.tokens.append(token)
        if token in self.stop_ids or (self.ends is not None and self.ends(self.tokens)):
            self.stop_reason = "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.stop_reason = "length"


def choose(logits: torch.Tensor, rows: Sequence[Row]) -> None:
    """Add a token to each row, by its logits (rows, vocabulary)."""
    alike: dict[Sampling, list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(row.how, []).append(place)
    for how, places in alike.items():
        chosen = [rows[place] for place in places]
        part = penalize(logits if len(alike) == 1 else logits[places], chosen)
        tokens = choose_tokens(part, [row.numbers.random() for row in chosen], how)
        if any(row.log_probs is not None for row in chosen):
            for row, value in zip(chosen, log_probs(part, tokens, how), strict=True):
                if row.log_probs is not None:
                    row.log_probs.append(value)
        for row, token in zip(chosen, tokens, strict=True):
            row.add(token)


def penalize(logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
    """Return logits after the penalties, if there are any; the rows have the same settings.

    The repetition penalty (arXiv 1909.05858, section 4.1) counts prompt and response; the presence and
    frequency penalties count the response.
    """
    how = rows[0].how
    if (how.repetition_penalty, how.presence_penalty, how.frequency_penalty) == (1.0, 0.0, 0.0):
        return logits
    logits = logits.clone()
    for place, row in enumerate(rows):
        seen = torch.tensor(sorted({*row.prompt, *row.tokens}), device=logits.device)
        scores = logits[place, seen]
        factor = how.repetition_penalty
        logits[place, seen] = torch.where(scores > 0, scores / factor, scores * factor)
        for token, count in Counter(row.tokens).items():
            logits[place, token] -= how.presence_penalty + count * how.frequency_penalty
    return logits


def choose_tokens(logits: torch.Tensor, uniforms: Sequence[float], how: Sampling) -> list[int]:
    """Return the next token of each row of `logits` (rows, vocabulary), after penalties.

    At temperature 0 this is the most probable token (the first of equals), otherwise the one at which the
    row's number falls in the cumulative distribution.
    """
    if not bool(logits.amax(-1).isfinite().all()):
        raise InputError(
            "The model's logits are not finite numbers: its weights are damaged, or overflow in this dtype. "
            "Set dtype to float32 or bfloat16."
        )
    if how.temperature == 0:
        greedy: list[int] = logits.argmax(-1).tolist()
        return greedy
    probabilities = _cut(logits.double(), how).softmax(-1)
    cumulated = probabilities.cumsum(-1)
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
    place = torch.searchsorted(cumulated, numbers[:, None] * cumulated[:, -1:], right=True)[:, 0]
    # Rounding may lead past the last token that has a probability.
    last = (probabilities > 0).long().cumsum(-1).argmax(-1)
    chosen: list[int] = torch.minimum(place, last).tolist()
    return chosen


def log_probs(logits: torch.Tensor, tokens: Sequence[int], how: Sampling) -> list[float]:
    """Return the log-probability of one token per row in the distribution that it was drawn from.

    `logits` (rows, vocabulary) are those after penalties. A token at temperature 0 gets its log-probability
    at temperature 1.
    """
    logits = logits.double()  # in single precision, the sum over a large vocabulary loses rare tokens
    log_p = torch.log_softmax(_cut(logits, how) if how.temperature else logits, dim=-1)
    chosen: list[float] = log_p.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0].tolist()
    return chosen


def _cut(logits: torch.Tensor, how: Sampling) -> torch.Tensor:
    """Return logits at the temperature; those of tokens outside min-p, top-k and top-p are -inf.

    Top-p keeps the smallest set of most probable tokens whose probabilities sum to at least `top_p`
    (arXiv 1904.09751, section 3.1) in the distribution that the other two leave.
    """
    warpers = LogitsProcessorList([TemperatureLogitsWarper(how.temperature)])
    if how.min_p > 0:
        warpers.append(MinPLogitsWarper(how.min_p))
    if how.top_k > 0:
        warpers.append(TopKLogitsWarper(how.top_k))
    cut: torch.Tensor = warpers(None, logits)
    return cut if how.top_p >= 1 else _keep_nucleus(cut, how.top_p)


def _keep_nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Cut as transformers' `TopPLogitsWarper`, which always sorts the whole vocabulary."""
    total, size = logits.logsumexp(-1, keepdim=True), logits.shape[1]
    for look in (*(each for each in _LOOKS if each < size), size):
        best = logits.topk(look).values
        shares = torch.exp(best - total)
        before = shares.cumsum(-1) - shares
        if bool((before[:, -1] >= top_p).all()):
            break
    least = best.gather(1, (before < top_p).sum(-1, keepdim=True) - 1)
    return logits.masked_fill(logits < least, -torch.inf)
