"""Cost of mixed-reward groups by number of neighbors and sampling method, with break-even."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluator.signal.groups import ORIGINAL, CheckpointGroups, QuestionGroup, Row, count_groups
from evaluator.signal.rates import RATES, RateModel, make_pilot
from evaluator.signal.shapes import (
    JOINT_GROUP,
    MATCHED_GROUP,
    ORIGINAL_GROUP,
    Forecast,
    GroupShape,
    RescueShape,
)
from service.errors import InputError

ADAPTIVE = "adaptive"
UNMIXED = 0.5
LARGEST_GROUP = 4096
BREAK_EVEN = "original, break-even G"
SPREAD = "joint, G in total"
RESCUE = "rescue, G in total"

ASSUMPTIONS = (
    "a mixed-reward group has at least one correct and one wrong response; only these groups have a gradient",
    (
        "dynamic sampling (DAPO, arXiv 2503.14476) replaces groups with equal rewards by groups "
        "for other questions, so it samples 1/(mixed share) groups for each group that it keeps"
    ),
    "the policy does not change after the pilot",
    "costs include response tokens only, not prompt tokens or policy updates",
)


def needs_neighbors(right: int, drawn: int, g: int, unmixed: float = UNMIXED) -> bool:
    """Say whether G responses to a question alone will probably be all right or all wrong.

    The chance E[p^G + (1-p)^G], over the posterior Beta(right + 1/2, drawn - right + 1/2) of the success rate
    after `right` of `drawn` correct responses, is compared with `unmixed`.
    """
    from scipy.special import betaln

    a, b = right + 0.5, drawn - right + 0.5
    chance = np.exp(betaln(a + g, b) - betaln(a, b)) + np.exp(betaln(a, b + g) - betaln(a, b))
    return bool(chance >= unmixed)


def compare_choices(
    groups: Sequence[QuestionGroup], model: RateModel, g: int, n: int, *, unmixed: float = UNMIXED
) -> list[Row]:
    """Return what 0 to n neighbors yield, and n for the questions that need them (`needs_neighbors`).

    A group is mixed if it has a right and a wrong response. `mixed` is its share at G responses to each
    prompt; `equal_mixed` is the share if every question draws (n+1)G responses, spread over its prompts. Both
    are means over each question's posterior under the fitted model, so that luck in the pilot is not counted
    as a gain. Questions without known responses to themselves get neighbors.
    """
    counts = count_groups(groups)
    originals = zip(counts.correct[:, 0].tolist(), counts.known[:, 0].tolist(), strict=True)
    needs = np.array([not known or needs_neighbors(right, known, g, unmixed) for right, known in originals])
    pilot = make_pilot(counts)
    posterior = model.posterior(pilot.rows(model.shift))[pilot.row_of]
    most = (n + 1) * g
    shapes = [(GroupShape("", k, g), GroupShape("", k, most, spread=True)) for k in range(n + 1)]
    # of mixed groups, at G responses to each prompt and at as many for every question [N + 1, 2, J]
    chances = np.array([[1 - shape.equal_chances(model.shift) for shape in pair] for pair in shapes])
    means = chances @ model.weights
    yields = [(f"N={k}", float(k > 0), float((k + 1) * g), *means[k].tolist()) for k in range(n + 1)]
    if n:
        share = float(needs.mean())
        chosen = np.where(needs[:, None], posterior @ chances[n].T, posterior @ chances[0].T)
        yields.append((ADAPTIVE, share, g * (1 + n * share), *chosen.mean(axis=0).tolist()))
    return [
        {
            "choice": choice,
            "with_neighbors": share,
            "responses": responses,
            "mixed": mixed,
            "equal_mixed": equal_mixed,
            "equal_responses": most,
            "per_hundred_responses": 100 * mixed / responses,
            "equal_per_hundred_responses": 100 * equal_mixed / most,
        }
        for choice, share, responses, mixed, equal_mixed in yields
    ]


class TokenCosts(NamedTuple):
    """Mean response tokens of originals and neighbors (None: not known), and what a token costs in USD."""

    original: float | None
    neighbor: float | None
    usd_per_token: float | None = None


def usd_per_token(usd_per_gpu_hour: float | None, tokens_per_second: float | None) -> float | None:
    """Return the price of a response token on one GPU, None where neither is given."""
    if usd_per_gpu_hour is None and tokens_per_second is None:
        return None
    if usd_per_gpu_hour is None or tokens_per_second is None:
        raise InputError("a cost in USD needs both --usd-per-gpu-hour and --tokens-per-second.")
    return usd_per_gpu_hour / (3600 * tokens_per_second)


def mean_tokens(checkpoint: CheckpointGroups) -> tuple[float | None, float | None]:
    """Return the mean tokens of a response to an original and to a neighbor, None where none is known."""
    sums = np.zeros((2, 2), dtype=np.int64)
    for group in checkpoint.groups:
        for prompt in group.prompts:
            sums[int(prompt.variant != ORIGINAL)] += prompt.tokens, prompt.token_samples
    original, neighbor = (tokens / known if known else None for tokens, known in sums.tolist())
    return original, neighbor


def cost_report(predicted: Forecast, g: int, n: int, tokens: TokenCosts) -> tuple[list[Row], Row | None]:
    """Return what a mixed-reward group costs each way, and where sampling the original alone breaks even.

    The ways are GRPO at G, at (N+1)G and at the break-even G, TA-GRPO with G to each prompt and, if G is
    enough for every prompt, with G in all, and the rescue. Without neighbors there is no break-even.
    """
    alone, joint = GroupShape(ORIGINAL_GROUP, 0, g), GroupShape(JOINT_GROUP, n, g)
    first = _row(predicted, alone, tokens)
    if n == 0:
        return [first], None
    equal = _equal_share(predicted, 1 - predicted.share(joint))
    shapes = [GroupShape(MATCHED_GROUP, 0, (n + 1) * g)]
    if equal is not None:
        shapes.append(GroupShape(BREAK_EVEN, 0, equal))
    shapes.append(joint)
    if g > n:
        shapes.append(GroupShape(SPREAD, n, g, spread=True))
    rescue = RescueShape(RESCUE, n, g)
    rows = [first, *(_row(predicted, shape, tokens) for shape in (*shapes, rescue))]
    mixed = {row["method"]: row["mixed"] for row in rows}
    alone_mixed = mixed[ORIGINAL_GROUP]
    redraws = mixed[JOINT_GROUP] / alone_mixed if alone_mixed > 0 else None
    return rows, {
        # the smallest G at which the original has as many mixed groups; None: none up to 4,096
        "g_equal_share": equal,
        "joint_responses": joint.responses,
        # groups per question that dynamic sampling at G must draw for as many mixed ones
        "redraws": redraws,
        "redraw_responses": None if redraws is None else redraws * g,
        # mixed share from which joint groups cost no more per mixed group; None: above 1
        "needed_share": needed if (needed := (n + 1) * alone_mixed) <= 1 else None,
        **_rescue_yield(predicted, rescue),
    }


def _rescue_yield(predicted: Forecast, rescue: RescueShape) -> dict[str, float]:
    """Return the share of questions that recipe `ta_rescue` finds with only wrong responses in its first G/2.

    Of these, `revived` get a correct one from a neighbor; `unaided` would get one from the original.
    """
    model = predicted.model
    assert model.shift is not None  # the rows before would have raised
    dead = model.weights * rescue.dead_chances()
    share = float(dead.sum())
    right = 1 - rescue.unsolved_chances(model.shift)
    alone = 1 - (1 - RATES) ** (rescue.g - rescue.g // 2)
    revived, unaided = (float(dead @ chances) / share if share > 0 else 0.0 for chances in (right, alone))
    return {"dead": share, "revived": revived, "unaided": unaided}


def _row(predicted: Forecast, shape: GroupShape, tokens: TokenCosts) -> Row:
    """Return what one way of sampling costs per mixed group; None if that is unknown or impossible."""
    equal = predicted.row(shape)
    mixed, low, high = (1 - equal[name] for name in ("share", "high", "low"))
    of_question = _question_tokens(predicted, shape, tokens)

    def per_group(amount: float | None, share: float) -> float | None:
        return None if amount is None or share <= 0 else amount / share

    spent = per_group(of_question, mixed)
    return {
        "method": shape.name,
        "n": shape.n,
        "g": shape.g,
        "per_question": shape.responses,
        "mixed": mixed,
        "mixed_low": low,
        "mixed_high": high,
        "drawn_groups": per_group(1, mixed),
        "responses": per_group(shape.responses, mixed),
        "responses_low": per_group(shape.responses, high),
        "responses_high": per_group(shape.responses, low),
        "tokens": spent,
        "usd": None if spent is None or tokens.usd_per_token is None else spent * tokens.usd_per_token,
    }


def _question_tokens(predicted: Forecast, shape: GroupShape, tokens: TokenCosts) -> float | None:
    if tokens.original is None or (shape.n and tokens.neighbor is None):
        return None
    of_neighbors: float = shape.n * shape.each
    if isinstance(shape, RescueShape):
        dead = float(predicted.model.weights @ shape.dead_chances())
        of_neighbors = dead * (shape.g - shape.g // 2)
    return (shape.responses - of_neighbors) * tokens.original + of_neighbors * (tokens.neighbor or 0.0)


def _equal_share(predicted: Forecast, mixed: float) -> int | None:
    """Return the smallest G at which the original's mixed share reaches `mixed`; it grows with G."""
    below = bisect_left(
        range(1, LARGEST_GROUP + 1), mixed, key=lambda g: 1 - predicted.share(GroupShape(BREAK_EVEN, 0, g))
    )
    return below + 1 if below < LARGEST_GROUP else None
