"""Log-probabilities of drawn tokens: those of the distribution that a token was drawn from."""

import math

import pytest
import torch
from tiny_models import random_model, sampling

from service.engines.choosing import log_probs
from service.engines.decoding import Decoder, Row
from service.models.settings import Sampling


def probabilities(how: Sampling) -> list[float]:
    """Return the probabilities of four tokens, of 0.5, 0.3, 0.15 and 0.05, as if each had been drawn."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(4, 4)
    return [round(math.exp(value), 4) for value in log_probs(logits, range(4), how)]


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (sampling(top_p=0.8), [0.625, 0.375]),
        (sampling(top_p=0.81), [0.5263, 0.3158, 0.1579]),
        (sampling(top_p=1e-9), [1.0]),
        (sampling(top_k=2), [0.625, 0.375, 0.0, 0.0]),
        (sampling(min_p=0.2), [0.5263, 0.3158, 0.1579, 0.0]),
    ],
)
def test_log_probs_are_of_the_tokens_that_could_be_drawn(how: Sampling, kept: list[float]) -> None:
    assert probabilities(how)[: len(kept)] == kept


def test_forbidden_tokens_are_not_drawn_and_have_no_probability() -> None:
    model, how = random_model("llama"), sampling(0.0)

    def likeliest(never: frozenset[int]) -> Row:
        decoder = Decoder(model, 1, 1 << 40, never)
        decoder.add([Row((9, 10, 11), 1, 0, how, frozenset(), log_probs=[])])
        (row,) = decoder.step()
        return row

    first = likeliest(frozenset())
    second = likeliest(frozenset(first.tokens))
    assert second.tokens != first.tokens
    assert first.log_probs
    assert second.log_probs
    # The others share the probability of the forbidden token.
    with torch.no_grad():
        log_p = torch.log_softmax(model(torch.tensor([[9, 10, 11]])).logits[0, -1], dim=-1)
    rest = math.log1p(-math.exp(first.log_probs[0]))
    assert second.log_probs[0] == pytest.approx(float(log_p[second.tokens[0]]) - rest, abs=1e-4)
