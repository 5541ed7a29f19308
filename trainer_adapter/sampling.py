"""Drawing responses from a causal language model, several at a time, with log-probabilities."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_READ = {
    "temperature", "top_p", "top_k", "logprobs", "max_tokens", "max_new_tokens", "seed", "stop_token_ids",
    "repetition_penalty",
}  # fmt: skip


@dataclass(frozen=True)
class SamplingParams:
    """How one response is drawn.

    Attributes:
        temperature: 0 takes the likeliest token.
        top_k: keep the k likeliest tokens; -1 or 0 for all.
        max_tokens: the longest response, its end-of-text token included.
        seed: makes the response repeatable, whatever is drawn beside it; None takes the shared generator.
    """

    temperature: float
    max_tokens: int
    top_p: float = 1.0
    top_k: int = -1
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()


def from_verl(params: Mapping[str, Any], *, response_length: int) -> SamplingParams:
    """Return the parameters that verl's agent loops send, with the limit of `rollout.response_length`.

    Raises:
        ValueError: for a parameter that is not read here, or a repetition penalty: ignoring one would change
            what is trained on.
    """
    unread = {name for name, value in params.items() if name not in _READ and value is not None}
    if unread:
        raise ValueError(f"the CPU rollout does not know {', '.join(sorted(unread))}; leave it out")
    if params.get("repetition_penalty", 1.0) not in (None, 1.0):
        raise ValueError(
            f"repetition_penalty is {params['repetition_penalty']}; the CPU rollout has none, use 1.0"
        )
    asked = params.get("max_tokens") or params.get("max_new_tokens") or response_length
    return SamplingParams(
        temperature=float(params.get("temperature", 1.0)),
        max_tokens=min(int(asked), response_length),
        top_p=float(params.get("top_p", 1.0)),
        top_k=int(params.get("top_k", -1)),
        seed=params.get("seed"),
        stop_token_ids=tuple(params.get("stop_token_ids") or ()),
    )


@dataclass(frozen=True)
class Drawn:
    """A response: its tokens, the log-probability each was drawn with, and whether it ended of itself."""

    token_ids: list[int]
    log_probs: list[float]
    ended: bool


def draw(
    model: Any,
    prompts: Sequence[Sequence[int]],
    params: Sequence[SamplingParams],
    *,
    end_ids: Collection[int],
    shared: torch.Generator,
) -> list[Drawn]:
    """Draw one response for each prompt.

    The log-probabilities are those of the distribution the token was drawn from, after temperature, top-k and
    top-p; a token taken at temperature 0 carries that of temperature 1.

    Args:
        model: a causal language model of transformers.
        end_ids: tokens that end a response and belong to it.
        shared: generator for the responses without a seed of their own.
    """
    generators = [shared if p.seed is None else torch.Generator().manual_seed(p.seed) for p in params]
    width = max(len(prompt) for prompt in prompts)
    # Padding on the left, so that the last position of every row is where its response goes on.
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    tokens: list[list[int]] = [[] for _ in prompts]
    log_probs: list[list[float]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    cache = None
    while True:
        with torch.no_grad():
            output = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        cache = output.past_key_values
        chosen, chosen_log_probs = choose(output.logits[:, -1], params, generators)
        for row, (token, log_prob) in enumerate(zip(chosen.tolist(), chosen_log_probs.tolist(), strict=True)):
            if not ended[row] and len(tokens[row]) < params[row].max_tokens:
                tokens[row].append(token)
                log_probs[row].append(log_prob)
                ended[row] = token in end_ids or token in params[row].stop_token_ids
        if all(done or len(row) >= p.max_tokens for done, row, p in zip(ended, tokens, params, strict=True)):
            return [Drawn(*row) for row in zip(tokens, log_probs, ended, strict=True)]
        ids = chosen[:, None]
        mask = torch.cat([mask, torch.ones_like(ids)], dim=-1)
        positions = positions[:, -1:] + 1


def choose(
    logits: torch.Tensor, params: Sequence[SamplingParams], generators: Sequence[torch.Generator]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next token of each row and its log-probability.

    Args:
        logits: [rows, vocabulary].
    """
    # In double precision, since the cumulative sum of a large vocabulary loses the rare tokens in single.
    temperatures = torch.tensor([p.temperature or 1.0 for p in params], dtype=torch.float64)
    log_p = torch.log_softmax(logits.double() / temperatures[:, None], dim=-1)
    for row, p in enumerate(params):
        if p.temperature and (p.top_p < 1 or p.top_k > 0):
            log_p[row] = _truncated(log_p[row], p)
    cumulative = log_p.exp().cumsum(-1)
    drawn = torch.cat([torch.rand(1, generator=generator, dtype=torch.float64) for generator in generators])
    chosen = torch.searchsorted(cumulative, (drawn * cumulative[:, -1])[:, None], right=True)[:, 0]
    chosen = chosen.clamp(max=logits.shape[-1] - 1)
    greedy = torch.tensor([p.temperature == 0 for p in params])
    chosen = torch.where(greedy, log_p.argmax(-1), chosen)
    return chosen, log_p.gather(-1, chosen[:, None])[:, 0]


def _truncated(log_p: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Keep the likeliest tokens, by number and by probability in sum, and normalise again."""
    ordered, order = log_p.sort(descending=True)
    if params.top_k > 0:
        ordered[params.top_k :] = -torch.inf
        ordered = ordered - ordered.logsumexp(-1)
    if params.top_p < 1:
        # A token stays if those before it do not yet make up top_p; the likeliest stays in any case.
        before = ordered.exp().cumsum(-1)[:-1]
        ordered[1:][before >= params.top_p] = -torch.inf
    kept = torch.full_like(log_p, -torch.inf).scatter(-1, order, ordered)
    return torch.log_softmax(kept, dim=-1)
