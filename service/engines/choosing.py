"""A response being drawn, and the choice of its next token: greedy, or by its own random number.

The choice depends only on the response's logits, settings and random number. The number is looked up in the
cumulative distribution in order of token ids, not of probabilities: rounding moves the bounds a little, but
never swaps two tokens. So a response does not depend on its batch.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from service.errors import InputError
from service.models.settings import Sampling

_FIRST_LOOK = 256
"""Most probable tokens that nearly always contain the smallest set of `top_p`."""
_ROWS = 32
"""Rows whose tokens are chosen together, which bounds the memory that this takes."""

DROPPED = "dropped"
"""The stop reason of a response that is no longer needed."""

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
        parts = (logits if len(alike) == 1 else logits[places]).split(_ROWS)
        for start, part in enumerate(parts):
            chosen = [rows[place] for place in places[start * _ROWS : (start + 1) * _ROWS]]
            numbers = [row.numbers.random() for row in chosen]
            drawn = choose_tokens(penalize(part, chosen), numbers, how)
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
    temperature 1. Otherwise a token is drawn: min-p and top-k cut the distribution first, then top-p.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / (how.temperature or 1.0)
    best = logits.amax(-1, keepdim=True)
    if not bool(best.isfinite().all()):
        raise InputError(
            "The model's logits are not finite numbers: its weights are damaged, or overflow in this dtype. "
            "Set dtype to float32 or bfloat16."
        )
    if not how.temperature:
        return logits.argmax(-1).tolist(), (-(logits - best).exp_().sum(-1).log()).tolist()
    if how.min_p > 0:
        logits = logits.where(logits >= best + math.log(how.min_p), -torch.inf)
    if 0 < how.top_k < logits.shape[1]:
        logits = logits.where(logits >= logits.topk(how.top_k).values[:, -1:], -torch.inf)
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
    numbers = numbers.clamp(max=1 - 2**-52)  # else rounding could lead past the last token with a weight
    tokens, log_probs = _draw(logits, numbers, how.top_p, _FIRST_LOOK)
    return tokens.tolist(), log_probs.tolist()


def _draw(
    logits: torch.Tensor, numbers: torch.Tensor, top_p: float, look: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a token of each row and its log-probability, from the tokens that top-p keeps.

    These are the smallest set of most probable tokens whose probabilities sum to at least `top_p`
    (arXiv 1904.09751, section 3.1), searched among the `look` most probable ones first.
    """
    # Double precision: in single, the cumulative sum over a large vocabulary loses rare tokens.
    if top_p >= 1:
        ids = torch.arange(logits.shape[1], device=logits.device).expand_as(logits)
        kept, look = logits.softmax(-1, dtype=torch.float64), logits.shape[1]
    else:
        best, ids = logits.topk(min(look, logits.shape[1]))
        needed = top_p * (logits - best[:, :1]).exp_().sum(-1, keepdim=True)
        weights = (best.double() - best[:, :1]).exp_()
        cumulated = weights.cumsum(-1)
        is_short = cumulated[:, -1] < needed[:, 0]
        ids, order = ids.sort(-1)
        kept = weights.where(cumulated - weights < needed, 0.0).gather(1, order)
    cumulated = kept.cumsum(-1)
    places = torch.searchsorted(cumulated, numbers * cumulated[:, -1:], right=True)
    tokens = ids.gather(1, places)[:, 0]
    log_probs = (kept.gather(1, places) / cumulated[:, -1:]).log()[:, 0]
    if look < logits.shape[1] and bool(is_short.any()):  # only these rows need more of the vocabulary
        tokens[is_short], log_probs[is_short] = _draw(logits[is_short], numbers[is_short], top_p, look * 16)
    return tokens, log_probs
