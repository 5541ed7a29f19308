"""Cost of mixed-reward groups by number of neighbors and sampling method, with break-even."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.signal.forecast import Forecast, GroupShape, RescueShape, SpreadShape
from evaluator.signal.groups import ORIGINAL, CheckpointGroups, QuestionGroup, count_groups
from evaluator.signal.rate_model import RateModel, make_pilot
from evaluator.signal.rates import rates
from evaluator.signal.zero_gradient import JOINT_GROUP, MATCHED_GROUP, ORIGINAL_GROUP
from service.errors import InputError

ADAPTIVE = "adaptive"
UNMIXED = 0.5
LARGEST_GROUP = 4096
BREAK_EVEN = "original, break-even G"
SPREAD = "joint, G in total"
RESCUE = "rescue, G in total"
_SECONDS_AN_HOUR = 3600

ASSUMPTIONS = (
    "a mixed-reward group has at least one correct and one wrong response; only these groups have a gradient",
    (
        "dynamic sampling (DAPO, arXiv 2503.14476) replaces groups with equal rewards by groups "
        "for other questions, so it samples 1/(mixed share) groups for each group that it keeps"
    ),
    "the policy does not change after the pilot",
    "costs include response tokens only, not prompt tokens or policy updates",
)


@dataclass(frozen=True)
class ChoiceRow:
    """What one number of neighbors yields.

    A group is mixed where it has a right and a wrong response. Rates are predicted means over the pilot's
    questions.
    """

    choice: str  # "N=0" to "N=n", or "adaptive": N=n for some questions and none for the others
    with_neighbors: float  # share of questions that have neighbors
    responses: float  # drawn for a question, at G to each prompt
    mixed: float  # share of mixed groups
    # the same where every question draws (n+1)G responses, spread over its prompts, as `tagrpo train` does
    equal_mixed: float
    equal_responses: int  # (n+1)G

    @property
    def per_hundred(self) -> float:
        """Mixed groups for 100 responses, at G to each prompt."""
        return 100 * self.mixed / self.responses

    @property
    def equal_per_hundred(self) -> float:
        """Mixed groups for 100 responses where every question draws as many."""
        return 100 * self.equal_mixed / self.equal_responses


def needs_neighbors(right: int, drawn: int, g: int, unmixed: float = UNMIXED) -> bool:
    """Say whether G responses to a question alone will probably be all right or all wrong.

    `right` of `drawn` were correct before, so the chance is E[p^G + (1-p)^G] over the posterior Beta(right +
    1/2, drawn - right + 1/2) of the success rate; it is compared with `unmixed`.
    """
    from scipy.special import betaln

    a, b = right + 0.5, drawn - right + 0.5
    chance = np.exp(betaln(a + g, b) - betaln(a, b)) + np.exp(betaln(a, b + g) - betaln(a, b))
    return bool(chance >= unmixed)


def compare_choices(
    groups: Sequence[QuestionGroup], model: RateModel, g: int, n: int, *, unmixed: float = UNMIXED
) -> list[ChoiceRow]:
    """Return what 0 to n neighbors yield, and n for the questions that need them (`needs_neighbors`).

    The choice and its yield come from the same responses; the yield is the mean over each question's
    posterior under the fitted model, so that luck in the pilot is not counted as a gain. Questions without
    known responses to themselves get neighbors.
    """
    counts = count_groups(groups)
    originals = zip(counts.correct[:, 0].tolist(), counts.known[:, 0].tolist(), strict=True)
    needs = np.array([not known or needs_neighbors(right, known, g, unmixed) for right, known in originals])
    pilot = make_pilot(counts)
    posterior = model.mixture.posterior(pilot.rows(model.shift))[pilot.row_of]
    each = [1 - GroupShape("", k, g).equal_chances(model.shift) for k in range(n + 1)]
    equal = [1 - SpreadShape("", k, (n + 1) * g).equal_chances(model.shift) for k in range(n + 1)]
    weights = model.mixture.weights
    rows = [
        ChoiceRow(
            f"N={k}",
            float(k > 0),
            float((k + 1) * g),
            float(weights @ each[k]),
            float(weights @ equal[k]),
            (n + 1) * g,
        )
        for k in range(n + 1)
    ]
    if n == 0:
        return rows
    share = float(needs.mean())
    rows.append(
        ChoiceRow(
            ADAPTIVE,
            share,
            g * (1 + n * share),
            float(np.where(needs, posterior @ each[n], posterior @ each[0]).mean()),
            float(np.where(needs, posterior @ equal[n], posterior @ equal[0]).mean()),
            (n + 1) * g,
        )
    )
    return rows


@dataclass(frozen=True)
class TokenCosts:
    """Mean response tokens of originals and neighbors (None: not known), and what a token costs in USD."""

    original: float | None
    neighbor: float | None
    usd_per_token: float | None = None


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """What one way of sampling costs."""

    method: str
    n: int
    g: int
    per_question: int  # responses that a question costs
    mixed: float  # share of questions with mixed rewards, with its interval for new questions
    mixed_low: float
    mixed_high: float
    drawn_groups: float | None  # expected groups for a mixed one
    # from here on per mixed group; None if `mixed` is 0, or tokens or prices are unknown
    responses: float | None
    responses_low: float | None
    responses_high: float | None
    tokens: float | None
    usd: float | None


@dataclass(frozen=True)
class BreakEven:
    """Where sampling the original alone does as well as TA-GRPO with (N+1)G responses."""

    # the smallest G at which the original has as many mixed groups; None: none up to 4,096
    g_equal_share: int | None
    joint_responses: int
    redraws: float | None  # groups per question that dynamic sampling at G must draw for as many mixed ones
    redraw_responses: float | None
    # mixed share from which joint groups cost no more per mixed group; None: above 1
    needed_share: float | None


@dataclass(frozen=True)
class RescueYield:
    """What recipe `ta_rescue` at G responses does: shares of new questions."""

    dead: float  # only wrong responses in the first G/2
    revived: float  # of these, a neighbor's response is correct
    unaided: float  # of these, GRPO would get a correct one from the original


@dataclass(frozen=True)
class CostReport:
    """Rows for GRPO at G, at (N+1)G, at the break-even G, for TA-GRPO with G to each prompt and, where G is
    enough for every prompt, with G in all, and for the rescue."""

    checkpoint: str
    g: int
    n: int
    rows: tuple[CostRow, ...]
    break_even: BreakEven | None
    tokens: TokenCosts
    rescue: RescueYield | None = None
    assumptions: tuple[str, ...] = ASSUMPTIONS


def usd_per_token(usd_per_gpu_hour: float | None, tokens_per_second: float | None) -> float | None:
    """Return the price of a response token on one GPU, None where neither is given."""
    if usd_per_gpu_hour is None and tokens_per_second is None:
        return None
    if usd_per_gpu_hour is None or tokens_per_second is None:
        raise InputError("a cost in USD needs both --usd-per-gpu-hour and --tokens-per-second.")
    if usd_per_gpu_hour < 0 or tokens_per_second <= 0:
        raise InputError(
            f"--usd-per-gpu-hour {usd_per_gpu_hour} and --tokens-per-second {tokens_per_second}: give a "
            "price of 0 or more and a speed above 0."
        )
    return usd_per_gpu_hour / (_SECONDS_AN_HOUR * tokens_per_second)


def mean_tokens(checkpoint: CheckpointGroups) -> tuple[float | None, float | None]:
    """Return the mean tokens of a response to an original and to a neighbor, None where none is known."""
    totals = {True: [0, 0], False: [0, 0]}
    for group in checkpoint.groups:
        for prompt in group.prompts:
            total = totals[prompt.variant == ORIGINAL]
            total[0] += prompt.tokens
            total[1] += prompt.token_samples
    original, neighbor = (
        total[0] / total[1] if total[1] else None for total in (totals[True], totals[False])
    )
    return original, neighbor


def cost_report(
    predicted: Forecast, g: int, n: int, tokens: TokenCosts, *, checkpoint: str = ""
) -> CostReport:
    """Return what a mixed-reward group costs each way, by the shares that the forecast predicts."""
    if g < 2 or n < 0:
        raise InputError(f"--g {g} and --n {n}: give a G of at least 2 and an N of at least 0.")
    alone = GroupShape(ORIGINAL_GROUP, 0, g)
    rows = [_row(predicted, alone, tokens)]
    if n == 0:
        return CostReport(checkpoint, g, n, tuple(rows), None, tokens)
    joint = GroupShape(JOINT_GROUP, n, g)
    equal = _equal_share(predicted, 1 - predicted.share(joint))
    rows.append(_row(predicted, GroupShape(MATCHED_GROUP, 0, (n + 1) * g), tokens))
    if equal is not None:
        rows.append(_row(predicted, GroupShape(BREAK_EVEN, 0, equal), tokens))
    rows.append(_row(predicted, joint, tokens))
    first, last = rows[0], rows[-1]
    if g > n:
        rows.append(_row(predicted, SpreadShape(SPREAD, n, g), tokens))
    rescue = RescueShape(RESCUE, n, g)
    rows.append(_row(predicted, rescue, tokens))
    redraws = last.mixed / first.mixed if first.mixed > 0 else None
    break_even = BreakEven(
        equal,
        joint.responses,
        redraws,
        None if redraws is None else redraws * g,
        needed if (needed := (n + 1) * first.mixed) <= 1 else None,
    )
    return CostReport(checkpoint, g, n, tuple(rows), break_even, tokens, _rescue_yield(predicted, rescue))


def _rescue_yield(predicted: Forecast, rescue: RescueShape) -> RescueYield:
    model = predicted.model
    assert model.shift is not None  # the rows before would have raised
    dead = model.mixture.weights * rescue.dead_chances()
    share = float(dead.sum())
    if share <= 0:
        return RescueYield(0.0, 0.0, 0.0)
    right = 1 - rescue.unsolved_chances(model.shift)
    alone = 1 - (1 - rates()) ** (rescue.g - rescue.g // 2)
    return RescueYield(share, float(dead @ right) / share, float(dead @ alone) / share)


def _row(predicted: Forecast, shape: GroupShape, tokens: TokenCosts) -> CostRow:
    equal = predicted.row(shape)
    mixed, low, high = 1 - equal.share, 1 - equal.high, 1 - equal.low
    question = shape.responses
    of_question = _question_tokens(predicted, shape, tokens)
    spent = None if of_question is None or mixed <= 0 else of_question / mixed
    return CostRow(
        method=shape.name,
        n=shape.n,
        g=shape.g,
        per_question=question,
        mixed=mixed,
        mixed_low=low,
        mixed_high=high,
        drawn_groups=1 / mixed if mixed > 0 else None,
        responses=question / mixed if mixed > 0 else None,
        responses_low=question / high if high > 0 else None,
        responses_high=question / low if low > 0 else None,
        tokens=spent,
        usd=None if spent is None or tokens.usd_per_token is None else spent * tokens.usd_per_token,
    )


def _question_tokens(predicted: Forecast, shape: GroupShape, tokens: TokenCosts) -> float | None:
    if tokens.original is None or (shape.n and tokens.neighbor is None):
        return None
    of_neighbors: float = shape.n * shape.g
    if isinstance(shape, SpreadShape):
        of_neighbors = shape.n * shape.each
    elif isinstance(shape, RescueShape):
        dead = float(predicted.model.mixture.weights @ shape.dead_chances())
        of_neighbors = dead * (shape.g - shape.g // 2)
    return (shape.responses - of_neighbors) * tokens.original + of_neighbors * (tokens.neighbor or 0.0)


def _equal_share(predicted: Forecast, mixed: float) -> int | None:
    """Return the smallest G at which the original's mixed share reaches `mixed`; it grows with G."""
    below = bisect_left(
        range(1, LARGEST_GROUP + 1),
        mixed,
        key=lambda g: 1 - predicted.share(GroupShape(BREAK_EVEN, 0, g)),
    )
    return below + 1 if below < LARGEST_GROUP else None
