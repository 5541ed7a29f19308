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

from service.errors import InputError
from service.models.settings import Sampling

_FIRST_LOOK = 256
"""Most probable tokens that nearly always contain the smallest set of `top_p`."""

DROPPED = "dropped"
"""The stop reason of a response that nothing waits for any longer."""

LoadImages = Callable[[], Mapping[str, torch.Tensor]]
"""Returns what the model's processor makes of the images of a prompt (`pixel_values`, ...)."""


@dataclass(eq=False)
class Row:
    """One response being drawn. `ends` returns whether the tokens so far end it (a stop text).

    Rows of one prompt with images have the same `images`, so that the prompt is read once.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    how: Sampling
    stop_ids: frozenset[int]
    ends: Callable[[Sequence[int]], bool] | None = None
    images: LoadImages | None = None
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    stop_reason: str | None = None
    shift: int = 0
    """Positions saved by images, which use fewer positions than tokens."""

    def __post_init__(self) -> None:
        self.numbers = np.random.Generator(np.random.Philox(key=self.seed))

    @property
    def longest(self) -> int:
        """The most tokens that prompt and response can have."""
        return len(self.prompt) + self.max_tokens

    @property
    def cached(self) -> int:
        """The number of tokens whose keys and values are kept: all but the last."""
        return len(self.prompt) + len(self.tokens) - 1

    @property
    def read_with(self) -> tuple[tuple[int, ...], int]:
        """What rows have in common whose prompt the model reads once."""
        return self.prompt, id(self.images)

    def add(self, token: int, log_prob: float) -> None:
        """Append a token and note whether the response ends with it."""
        self.tokens.append(token)
        self.log_probs.append(log_prob)
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
        drawn = choose_tokens(part, [row.numbers.random() for row in chosen], how)
        for row, token, log_prob in zip(chosen, *drawn, strict=True):
            row.add(token, log_prob)


def penalize(logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
    """Return logits after the penalties, if there are any; the rows have the same settings.

    The repetition penalty (arXiv 1909.05858, section 4.1) counts prompt and response; the presence and
    frequency penalties count the response.
    """
    how = rows[0].how
    if (how.repetition_penalty, how.presence_penalty, how.frequency_penalty) == (1.0, 0.0, 0.0):
        return logits
    logits = logits.clone()
    for scores, row in zip(logits, rows, strict=True):
        seen = [*{*row.prompt, *row.tokens}]
        positive, factor = scores[seen] > 0, how.repetition_penalty
        scores[seen] = torch.where(positive, scores[seen] / factor, scores[seen] * factor)
        for token, count in Counter(row.tokens).items():
            scores[token] -= how.presence_penalty + count * how.frequency_penalty
    return logits


def choose_tokens(
    logits: torch.Tensor, uniforms: Sequence[float], how: Sampling
) -> tuple[list[int], list[float]]:
    """Return the next token of each row of `logits` (rows, vocabulary), after penalties, and its log-prob.

    At temperature 0 this is the most probable token (the first of equals), with its log-probability at
    temperature 1. Otherwise a token is drawn from the distribution that the settings leave.
    """
    if not bool(logits.amax(-1).isfinite().all()):
        raise InputError(
            "The model's logits are not finite numbers: its weights are damaged, or overflow in this dtype. "
            "Set dtype to float32 or bfloat16."
        )
    # Double precision: in single, the sum over a large vocabulary loses rare tokens.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / (how.temperature or 1.0)
    weights = torch.softmax(logits, dim=-1, dtype=torch.float64)
    if not how.temperature:
        chosen = logits.argmax(-1, keepdim=True)
        return chosen[:, 0].tolist(), weights.gather(1, chosen)[:, 0].log().tolist()
    weights, ids = _cut(weights, how)
    cumulated = weights.cumsum(-1)
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
    numbers = numbers.clamp(max=1 - 2**-52)  # else rounding could lead past the last token with a weight
    places = torch.searchsorted(cumulated, numbers * cumulated[:, -1:], right=True)
    log_probs = (weights.gather(1, places) / cumulated[:, -1:]).log()
    return ids.gather(1, places)[:, 0].tolist(), log_probs[:, 0].tolist()


def _cut(weights: torch.Tensor, how: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the probabilities that are left, and their tokens in order; others are 0 or left out.

    Min-p and top-k cut first. Then top-p keeps the smallest set of most probable tokens whose probabilities
    sum to at least `top_p` (arXiv 1904.09751, section 3.1).
    """
    if how.min_p > 0:
        weights = weights.where(weights >= how.min_p * weights.amax(-1, keepdim=True), 0.0)
    if 0 < how.top_k < weights.shape[1]:
        weights = weights.where(weights >= weights.topk(how.top_k).values[:, -1:], 0.0)
    if how.top_p >= 1:
        return weights, torch.arange(weights.shape[1], device=weights.device).expand_as(weights)
    needed, look = how.top_p * weights.sum(-1, keepdim=True), _FIRST_LOOK
    best, ids = weights.topk(min(look, weights.shape[1]))
    while look < weights.shape[1] and bool((best.sum(-1, keepdim=True) < needed).any()):
        look *= 16
        best, ids = weights.topk(min(look, weights.shape[1]))
    kept = best.where(best.cumsum(-1) - best < needed, 0.0)
    ids, order = ids.sort(-1)
    return kept.gather(1, order), ids
