"""Drawing responses for verl from a causal language model: a moving batch that keeps log-probs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from service.errors import PrerequisiteError
from service.models.local.cache import Room
from service.models.local.decoding import MovingBatch
from service.models.local.probing import can_share_a_batch
from service.models.local.rows import Choosing, PromptImages, Row
from service.models.processors import FORBIDDEN

_READ = {
    "temperature", "top_p", "top_k", "logprobs", "max_tokens", "max_new_tokens", "seed", "stop_token_ids",
    "repetition_penalty", "logit_bias",
}  # fmt: skip


@dataclass(frozen=True)
class SamplingParams:
    """How one response is drawn.

    Attributes:
        temperature: 0 takes the likeliest token.
        max_tokens: the longest response, its end-of-text token included.
        seed: makes the response repeatable, whatever is drawn beside it; None takes the batch's generator.
        never: tokens that are not drawn.
    """

    temperature: float
    max_tokens: int
    top_p: float = 1.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    never: frozenset[int] = frozenset()


def from_verl(params: Mapping[str, Any], *, response_length: int) -> SamplingParams:
    """Return the parameters that verl's agent loops send, with the limit of `rollout.response_length`.

    Raises:
        ValueError: for a parameter that is not read here, a repetition penalty, or top-k: ignoring one would
            change what is trained on.
    """
    unread = {name for name, value in params.items() if name not in _READ and value is not None}
    if unread:
        raise ValueError(f"the CPU rollout does not support {', '.join(sorted(unread))}. Remove it")
    for name, off in (("repetition_penalty", (None, 1.0)), ("top_k", (None, 0, -1))):
        if params.get(name) not in off:
            raise ValueError(
                f"{name} is {params[name]}, which the CPU rollout does not support. Use {off[-1]}"
            )
    bias = params.get("logit_bias") or {}
    if any(value != FORBIDDEN for value in bias.values()):
        raise ValueError(f"the CPU rollout supports only the logit_bias {FORBIDDEN}, which forbids a token")
    asked = params.get("max_tokens") or params.get("max_new_tokens") or response_length
    return SamplingParams(
        temperature=float(params.get("temperature", 1.0)),
        max_tokens=min(int(asked), response_length),
        top_p=float(params.get("top_p", 1.0)),
        seed=params.get("seed"),
        stop_token_ids=tuple(params.get("stop_token_ids") or ()),
        never=frozenset(map(int, bias)),
    )


@dataclass(frozen=True)
class Drawn:
    """A response: its tokens, the log-probability each was drawn with, and whether it ended of itself."""

    token_ids: list[int]
    log_probs: list[float]
    ended: bool


@dataclass(frozen=True)
class _Owner:
    """Whose a row is, and the log-probabilities of its tokens so far."""

    request: Any
    log_probs: list[float]


class _ScoredBatch(MovingBatch):
    """A moving batch that keeps the log-probability of every token it draws."""

    def _choose(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        super()._choose(logits, rows)
        tokens = torch.tensor([row.tokens[-1] for row in rows], device=logits.device)
        how = self._choosing
        values = token_log_probs(how.allowed(logits), tokens, how.temperature, how.top_p)
        for row, value in zip(rows, values, strict=True):
            row.owner.log_probs.append(value)


class DrawingBatch:
    """Draws responses of any parameters; what arrives joins those under way.

    The log-probabilities are those of the distribution a token was drawn from, after temperature and top-p; a
    token taken at temperature 0 carries that of temperature 1.

    Args:
        model: a causal language model of transformers.
        end_ids: tokens that end a response and belong to it.
        room: how many responses, and of how many tokens together, are decoded at a time.
        seed: of the generator that seeds responses without a seed of their own.

    Raises:
        PrerequisiteError: the model's layers do not keep keys and values of every token.
    """

    def __init__(self, model: Any, end_ids: Collection[int], room: Room, seed: int = 0) -> None:
        if not can_share_a_batch(model):
            raise PrerequisiteError(
                f"{type(model).__name__} does not cache keys and values of every token, which the CPU "
                "rollout requires."
            )
        self._model, self._end_ids, self._room = model, frozenset(end_ids), room
        self._generator = torch.Generator().manual_seed(seed)
        self._batches: dict[Choosing, MovingBatch] = {}

    @property
    def under_way(self) -> int:
        """Responses that are not finished."""
        return sum(batch.waiting + batch.running for batch in self._batches.values())

    def add(
        self,
        request: Any,
        prompt: Sequence[int],
        params: SamplingParams,
        images: PromptImages | None = None,
    ) -> None:
        """Queue a response to a prompt; `request` comes back with it."""
        ends = self._end_ids | set(params.stop_token_ids)
        how = Choosing(params.temperature, params.top_p, ends, params.never)
        if how not in self._batches:
            self._batches[how] = _ScoredBatch(self._model, how, self._room)
        seed = params.seed
        if seed is None:
            seed = int(torch.randint(2**62, (), generator=self._generator))
        owner = _Owner(request, [])
        self._batches[how].add([Row(tuple(prompt), params.max_tokens, seed, owner, images=images)])

    def step(self) -> list[tuple[Any, Drawn]]:
        """Draw one token of every response under way; return the finished ones with their requests."""
        finished: list[tuple[Any, Drawn]] = []
        for how, batch in list(self._batches.items()):
            for row in batch.step():
                drawn = Drawn(row.tokens, row.owner.log_probs, row.stop_reason == "stop")
                finished.append((row.owner.request, drawn))
            if not batch.waiting + batch.running:
                del self._batches[how]
        return finished

    def clear(self) -> None:
        """Forget everything that is under way."""
        self._batches.clear()


def token_log_probs(
    logits: torch.Tensor, tokens: torch.Tensor, temperature: float, top_p: float
) -> list[float]:
    """Return the log-probability of one token a row under the distribution it was drawn from.

    Args:
        logits: [rows, vocabulary].
        tokens: [rows].
    """
    # In double precision, since the sum over a large vocabulary loses the rare tokens in single.
    log_p = torch.log_softmax(logits.double() / (temperature or 1.0), dim=-1)
    chosen = log_p.gather(-1, tokens[:, None])[:, 0]
    if temperature and top_p < 1:
        ordered = log_p.exp().sort(dim=-1, descending=True).values
        # A token is kept if those before it do not yet make up top_p; the likeliest is in any case.
        kept = ordered.cumsum(-1) - ordered < top_p
        kept[:, 0] = True
        chosen = chosen - ordered.where(kept, 0.0).sum(-1).log()
    values: list[float] = chosen.tolist()
    return values
