"""The Bayes factor of "same problem" against "another problem".

The factor has two parts. The gold part A compares two success rates: one near the original's (a loose tie,
since rephrasing may shift it), and one of a few percent, at which another problem's answers hit the gold
answer by chance. The wrong part W compares wrong answers drawn from the original's smoothed mix with wrong
answers drawn from no particular mix.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, fsum, lgamma, log, log1p
from typing import Self

from rephraser.verdict.answer_counts import AnswerCounts
from rephraser.verdict.overlap import check_sampling
from service.errors import InputError


@dataclass(frozen=True)
class BayesRule:
    """Thresholds on the posterior, sample sizes and the constants of the Bayes factor.

    Attributes:
        prior: probability of "same problem" before any answer; .5 is neutral, not the base rate.
        flagged_prior: the same for a candidate that structural checks flag.
        accept: accept from this posterior.
        reject: reject up to this posterior.
        original_samples: answers drawn once for the original.
        looks: numbers of candidate answers after which a verdict is possible.
        max_unparsed_share: with a larger share of unparsed answers on either side, the verdict is undecided.
        gold_concentration: how tightly the candidate's success rate is tied to the original's.
        chance_gold: rate at which another problem's answers hit the gold answer (g).
        wrong_concentration: weight of the original's wrong answers as a prior for the candidate's.
        wrong_floor: share of W that no mix of wrong answers can take away (eta).
        class_weight: prior weight of any one answer among all possible ones (q).
        other_concentrations: the Dirichlet processes whose mean represents "another problem".

    Raises:
        InputError: values outside their range.
    """

    prior: float = 0.5
    flagged_prior: float = 0.25
    accept: float = 0.99
    reject: float = 0.01
    original_samples: int = 16
    looks: tuple[int, ...] = (8, 12, 16)
    max_unparsed_share: float = 0.5
    gold_concentration: float = 5.0
    chance_gold: float = 0.03
    wrong_concentration: float = 4.0
    wrong_floor: float = 0.03
    class_weight: float = 0.02
    other_concentrations: tuple[float, ...] = (1.0, 8.0)

    def __post_init__(self) -> None:
        check_sampling(self.original_samples, self.looks, self.max_unparsed_share)
        for name in ("prior", "flagged_prior", "chance_gold", "wrong_floor", "class_weight"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(
                    f"Bayes rule: {name} is {getattr(self, name)}. Give a number between 0 and 1"
                )
        if not 0 <= self.reject < self.accept <= 1:
            raise InputError(
                f"Bayes rule: reject {self.reject} and accept {self.accept}. Give 0 <= reject < accept <= 1"
            )
        positive = (self.gold_concentration, self.wrong_concentration, *self.other_concentrations)
        if not self.other_concentrations or min(positive) <= 0:
            raise InputError(f"Bayes rule: concentrations {positive} must be positive")

    def for_flagged(self) -> Self:
        """Return the rule for a flagged candidate."""
        return replace(self, prior=self.flagged_prior)


def log_bayes_factor(counts: AnswerCounts, rule: BayesRule | None = None) -> float:
    """Return log A + log W in nats: positive favors the same problem, negative another one.

    Only parsed answers count. Without any for the candidate the factor is 0. If the gold class is unknown, A
    is left out and all classes count as wrong ones. The value is finite for all counts.

        f   = (gold0 + 1/2) / (S0 + 1)
        A   = BetaBin(gold1; S1, 5f, 5(1-f)) / BetaBin(gold1; S1, g, 1-g)
        W   = eta + (1-eta) DM(wrong1; a) / mean over alpha of DP(wrong1; alpha)
        a_c = 4 [(1-nu) n0_c / W0 + nu q],  nu = (singletons of the original + 1) / (W0 + 2), or 1 if W0 = 0
    """
    rule = rule or BayesRule()
    wrong = counts.wrong()
    log_w = _log_wrong_factor(wrong, rule)
    if counts.gold is None:
        return log_w
    hits, misses = counts.candidate_gold, counts.candidate_total - counts.candidate_gold
    rate = (counts.original_gold + 0.5) / (counts.original_total + 1)
    same = _log_beta_binomial(
        hits, misses, rule.gold_concentration * rate, rule.gold_concentration * (1 - rate)
    )
    other = _log_beta_binomial(hits, misses, rule.chance_gold, 1 - rule.chance_gold)
    return same - other + log_w


def posterior(log_factor: float, prior: float) -> float:
    """Return the probability of "same problem" given the logarithm of the Bayes factor."""
    log_odds = log_factor + log(prior) - log1p(-prior)
    if log_odds >= 0:
        return 1 / (1 + exp(-log_odds))
    odds = exp(log_odds)
    return odds / (1 + odds)


def _log_wrong_factor(wrong: list[tuple[int, int]], rule: BayesRule) -> float:
    total = sum(original for original, _ in wrong)
    singletons = sum(original == 1 for original, _ in wrong)
    unseen = (singletons + 1) / (total + 2) if total else 1.0
    seen = (1 - unseen) / total if total else 0.0
    candidate = [(count, seen * original + unseen * rule.class_weight) for original, count in wrong if count]
    same = _log_dirichlet(candidate, rule.wrong_concentration)
    anywhere = [(count, rule.class_weight) for count, _ in candidate]
    others = [_log_dirichlet(anywhere, alpha) for alpha in rule.other_concentrations]
    ratio = same - (_log_sum(others) - log(len(others)))
    return _log_sum([log(rule.wrong_floor), log1p(-rule.wrong_floor) + ratio])


def _log_dirichlet(counts_and_weights: list[tuple[int, float]], concentration: float) -> float:
    """Log probability of an ordered sample from a Dirichlet process with these base weights."""
    total = sum(count for count, _ in counts_and_weights)
    classes = fsum(
        lgamma(concentration * weight + count) - lgamma(concentration * weight)
        for count, weight in counts_and_weights
    )
    return lgamma(concentration) - lgamma(concentration + total) + classes


def _log_beta_binomial(hits: int, misses: int, a: float, b: float) -> float:
    """Log Beta-binomial probability without its binomial coefficient, which cancels in every ratio."""
    return (
        lgamma(a + hits)
        + lgamma(b + misses)
        - lgamma(a + b + hits + misses)
        - (lgamma(a) + lgamma(b) - lgamma(a + b))
    )


def _log_sum(logs: Iterable[float]) -> float:
    values = list(logs)
    top = max(values)
    return top + log(fsum(exp(value - top) for value in values))
