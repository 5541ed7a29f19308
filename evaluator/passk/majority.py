"""maj@k: the chance that the most frequent of k answers is the gold answer."""

from collections.abc import Hashable, Sequence
from math import exp, lgamma, log

import numpy as np

from evaluator.passk.estimators import Floats, whole_numbers

FIRST_SEEN, AT_RANDOM = "first seen", "random"
TIES = (FIRST_SEEN, AT_RANDOM)


def maj_at_k(predictions: Sequence[Hashable], gold: Hashable, k: int, *, ties: str = FIRST_SEEN) -> float:
    """Return the share of all C(n, k) subsets of the predictions whose majority is the gold answer.

    Exact for every n, without enumerating the subsets. A subset without a vote counts as wrong, and the value
    is 0 if gold was never given.

    Args:
        predictions: canonical answers in sample order: equal answers must be equal values (cluster them with
            the grader first). None is a sample without an answer; it counts as drawn and casts no vote.
        gold: the canonical gold answer.
        k: size of the subsets.
        ties: "first seen": among the most frequent answers, the first one wins, as in lighteval and verl.
            "random": each of them wins equally often, and the value is gold's share (1/2, 1/3, ...).
    """
    if int(whole_numbers("k", k)) < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if k > len(predictions):
        raise ValueError(
            f"k must be at most the number of predictions: k={k}, predictions={len(predictions)}"
        )
    if gold is None:
        raise ValueError("gold must be an answer. None means a sample without an answer")
    if ties not in TIES:
        raise ValueError(f'ties must be "{FIRST_SEEN}" or "{AT_RANDOM}", not {ties!r}')
    counting = _first_seen if ties == FIRST_SEEN else _at_random
    places: dict[Hashable, list[int]] = {}
    for place, prediction in enumerate(predictions):
        places.setdefault(prediction, []).append(place)
    gold_places = places.pop(gold, [])
    silent = len(places.pop(None, []))
    if not gold_places:
        return 0.0
    if k == len(predictions):
        return _share(gold_places, list(places.values()), ties)
    draw = _Draw(len(predictions), k)
    value = counting(draw, gold_places, silent, list(places.values())) / draw.chance
    return min(1.0, value)


def _share(gold: list[int], others: list[list[int]], ties: str) -> float:
    """Return gold's share of the one draw that contains every sample."""
    rivals = [places for places in others if len(places) >= len(gold)]
    if any(len(places) > len(gold) for places in rivals):
        return 0.0
    if ties == AT_RANDOM:
        return 1 / (1 + len(rivals))
    return float(all(gold[0] < places[0] for places in rivals))


class _Draw:
    """Keep every sample independently with chance k/n < 1: the draws that keep k are uniform draws of k.

    So subsets are counted by products of binomial weights of the classes, which stay within float64, unlike
    numbers of subsets. `chance` is the chance to keep exactly k.
    """

    def __init__(self, samples: int, k: int) -> None:
        self.k = k
        self._log_kept, self._log_lost = log(k / samples), log((samples - k) / samples)
        self.chance = self.weight(samples, k)

    def weight(self, samples: int, kept: int, among: int | None = None) -> float:
        """Return the chance that `kept` of `samples` are kept, all of them from the `among` last ones."""
        pool = samples if among is None else among
        if kept > pool:
            return 0.0
        ways = lgamma(pool + 1) - lgamma(kept + 1) - lgamma(pool - kept + 1)
        return exp(ways + kept * self._log_kept + (samples - kept) * self._log_lost)

    def weights(self, samples: int, most: int) -> Floats:
        return np.array([self.weight(samples, kept) for kept in range(min(samples, most) + 1)])


def _times(states: Floats, factors: Floats) -> Floats:
    """Multiply polynomials in the number of draws: states[..., draws] by factors[..., draws of a class]."""
    result = np.zeros_like(states)
    width = states.shape[-1]
    for draws in range(min(factors.shape[-1], width)):
        result[..., draws:] += factors[..., draws, None] * states[..., : width - draws]
    return result


def _first_seen(draw: _Draw, gold: list[int], silent: int, others: list[list[int]]) -> float:
    """Sum the chances of draws of k that gold wins: by its number of hits and the first drawn position.

    Another class may then have fewer hits, or as many, all of them later than gold's first.
    """
    total = 0.0
    after = np.array([[sum(place > first for place in places) for places in others] for first in gold])
    for hits in range(1, min(len(gold), draw.k) + 1):
        first_gold = range(len(gold) - hits + 1)
        states = np.zeros((len(first_gold), draw.k - hits + 1))
        # The first gold position is drawn, and hits - 1 of the later ones.
        states[:, 0] = [
            draw.weight(len(gold), hits, among=len(gold) - i)
            - draw.weight(len(gold), hits, among=len(gold) - i - 1)
            for i in first_gold
        ]
        states = _times(states, draw.weights(silent, draw.k))
        for number, places in enumerate(others):
            less = np.zeros((len(first_gold), hits + 1))
            below = draw.weights(len(places), hits - 1)
            less[:, : len(below)] = below
            less[:, hits] = [draw.weight(len(places), hits, among=int(after[i, number])) for i in first_gold]
            states = _times(states, less)
        total += float(states[:, draw.k - hits].sum())
    return total


def _at_random(draw: _Draw, gold: list[int], silent: int, others: list[list[int]]) -> float:
    """Sum the chances of draws of k that gold wins: by its number of hits and the number of tied classes."""
    total = 0.0
    for hits in range(1, min(len(gold), draw.k) + 1):
        room = draw.k - hits
        states = np.zeros((min(len(others), room // hits) + 1, room + 1))  # [classes tied with gold, draws]
        states[0, 0] = draw.weight(len(gold), hits)
        states = _times(states, draw.weights(silent, room))
        for places in others:
            level = draw.weight(len(places), hits)
            below = _times(states, draw.weights(len(places), hits - 1))
            if level > 0 and hits <= room:
                below[1:, hits:] += level * states[:-1, : room + 1 - hits]
            states = below
        total += float((states[:, room] / np.arange(1, len(states) + 1)).sum())
    return total
