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

LoadImages = Callable[[], Mapping[str, torch.Tensor]]
"""Returns what the model's processor makes of the images of a prompt (`pixel_values`, ...)."""


@dataclass(eq=False)
class Row:
    """One response being drawn. `ends` returns whether the tokens so far end it (a stop text).

    Rows of one prompt with images have the same `images`, so that the prompt is read once.
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
    def read_with(self) -> tuple[int, int]:
        """What rows have in common that the model can read together."""
        return len(self.prompt), id(self.images)

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
