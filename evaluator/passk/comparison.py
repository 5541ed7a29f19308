"""Paired comparison of two models on the same problems, per k, for both kinds of interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.passk.counts import Counts, check_ks, named, values_over_k, with_enough
from evaluator.passk.estimators import Floats, Ints
from evaluator.passk.intervals import NEW_PROBLEMS, SAME_PROBLEMS, UPPER_TAIL, same_problems_errors
from service.errors import InputError

FEW_PROBLEMS = 100  # fewer problems may lack the rare large differences that matter
SKEWED = 1.0  # with fewer problems than this, warn of skewed differences
FEW_DIFFERENCES = 10  # fewer differing problems: the paired t interval is too short
FLIPS, SEED = 10_000, 0  # of the test; the seed also draws the samples of the larger side
_FLIPS_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class ComparisonPoint:
    """A minus B at one k; unknown grades count as wrong in both, except in `lowest` and `highest`."""

    k: int
    value_a: float  # mean pass@k
    value_b: float
    difference: float  # value_a - value_b
    lowest: float  # difference over all values of the unknown grades
    highest: float
    # paired t; if grades are unknown, from the low end of the lowest difference's interval to the high end of
    # the highest difference's
    low: float
    high: float
    interval: str = NEW_PROBLEMS
    p_value: float  # two-sided sign-flip test of no difference on new problems. Not corrected: see `holm`
    same_low: float  # difference +- 1.96 sqrt(seA^2 + seB^2), widened likewise
    same_high: float
    same_interval: str = SAME_PROBLEMS
    # difference divided by that error and its two-sided normal p-value, for the same problems only
    same_z: float
    same_p_value: float
    wins: int  # problems with A above, below, equal to B, from equally many samples
    losses: int
    ties: int
    warning: str | None  # why the levels of this row may not hold, or None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Points that are all over the same problems."""

    points: dict[int, ComparisonPoint]  # by ascending k
    problem_ids: tuple[str, ...]  # the compared problems, sorted
    only_a: tuple[str, ...]  # problems of one side only, left out; empty unless `common_only`
    only_b: tuple[str, ...]
    left_out: tuple[str, ...]  # problems with too few samples on one side; empty unless `allow_missing`
    thinned: int  # problems with more samples on one side, thinned for the test to the other side's number


def compare(
    counts_a: Counts,
    counts_b: Counts,
    ks: int | Iterable[int],
    *,
    common_only: bool = False,
    allow_missing: bool = False,
) -> Comparison:
    """Compare A with B per k on the same problems. The order of the problems makes no difference.

    The spread of an estimate depends on its number of samples. Of two equal models, the one with more samples
    is slightly below 1 on most problems, while the other's estimate is 1 or, rarely, 0. The test, wins and
    losses therefore use equally many samples of both sides, those of the larger drawn at random. Values and
    intervals use all samples.

    Args:
        common_only: compare the common problems instead of refusing if they differ.
        allow_missing: leave out problems with fewer than max(ks) samples on either side instead of refusing.
    """
    wanted = check_ks([ks] if isinstance(ks, int) else ks)
    in_a, in_b = set(counts_a.problem_ids), set(counts_b.problem_ids)
    only_a, only_b = tuple(sorted(in_a - in_b)), tuple(sorted(in_b - in_a))
    if (only_a or only_b) and not common_only:
        raise InputError(
            f"A and B have different problems: {len(only_a)} only in A ({named(only_a)}), {len(only_b)} "
            f"only in B ({named(only_b)}). Compare runs of the same benchmark, or pass --common-only."
        )
    shared = sorted(in_a & in_b)
    if not shared:
        raise InputError("A and B have no problems in common")
    sides = [counts.select(shared) for counts in (counts_a, counts_b)]
    (a, b), left_out = with_enough(sides, wanted[-1], allow_missing=allow_missing)
    low_a, low_b = values_over_k(a.n, a.correct, wanted), values_over_k(b.n, b.correct, wanted)
    differences = low_a - low_b
    lowest = low_a - values_over_k(b.n, b.most_correct, wanted)
    highest = values_over_k(a.n, a.most_correct, wanted) - low_b
    fewest, *thinned = _thin_samples(a, b)
    evened = np.subtract(*(values_over_k(fewest, correct, wanted) for correct in thinned))
    p_values = sign_flip_p_values(evened, FLIPS, SEED)
    errors = np.hypot(
        same_problems_errors(a.n, a.correct, wanted), same_problems_errors(b.n, b.correct, wanted)
    )
    points = {}
    for row, k in enumerate(wanted):
        here, mean = differences[row], float(differences[row].mean())
        least, most = float(lowest[row].mean()), float(highest[row].mean())
        same_z, same_p, half = _normal(mean, float(errors[row]))
        unknown = bool(a.unknown.any() or b.unknown.any())
        points[k] = ComparisonPoint(
            k=k,
            value_a=float(low_a[row].mean()),
            value_b=float(low_b[row].mean()),
            difference=mean,
            lowest=least,
            highest=most,
            low=float(paired_bounds(lowest[row])[0]),
            high=float(paired_bounds(highest[row])[1]),
            p_value=float(p_values[row]),
            same_low=max(-1.0, least - half),
            same_high=min(1.0, most + half),
            same_z=same_z,
            same_p_value=same_p,
            wins=int((evened[row] > 0).sum()),
            losses=int((evened[row] < 0).sum()),
            ties=int((evened[row] == 0).sum()),
            warning=_warning(here, evened[row], float(p_values[row]), (least, most) if unknown else None),
        )
    return Comparison(
        points=points,
        problem_ids=a.problem_ids,
        only_a=only_a,
        only_b=only_b,
        left_out=left_out,
        thinned=int((a.n != b.n).sum()),
    )


def _thin_samples(a: Counts, b: Counts) -> tuple[Ints, Ints, Ints]:
    """Return the smaller number of samples of each problem, and how many of as many are correct in A and B.

    Unknown grades count as wrong. The drawn samples do not depend on which side is called A.
    """
    fewest, more_in_a = np.minimum(a.n, b.n), a.n > b.n
    right = np.where(more_in_a, a.correct, b.correct)
    wrong = np.where(more_in_a, a.n, b.n) - right
    drawn = np.random.default_rng([SEED, 1]).hypergeometric(right, wrong, fewest)
    return fewest, np.where(more_in_a, drawn, a.correct), np.where(more_in_a, b.correct, drawn)


def sign_flip_p_values(differences: Floats, flips: int, seed: int) -> Floats:
    """Return two-sided p-values [K] of differences [K, M]: (1 + hits) / (1 + flips).

    hits are the random sign flips whose absolute sum is at least the observed one, which counts itself. The
    null hypothesis is that each difference is as likely positive as negative; the level holds if they are
    symmetric. If all differences are 0, every p-value is 1.
    """
    problems = differences.shape[-1]
    observed = np.abs(differences.sum(axis=-1))
    least = observed - 1e-12 * np.abs(differences).sum(axis=-1)
    rng = np.random.default_rng(seed)
    hits = np.zeros(len(differences), dtype=np.int64)
    columns = np.ascontiguousarray(differences.T)
    for start in range(0, flips, _FLIPS_AT_ONCE):
        number = min(_FLIPS_AT_ONCE, flips - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes(number * ((problems + 7) // 8)), dtype=np.uint8))
        signs = bits.reshape(number, -1)[:, :problems].astype(np.float64) * 2 - 1
        hits += (np.abs(signs @ columns) >= least).sum(axis=0)
    p_values: Floats = (1 + hits) / (1 + flips)
    return p_values


def paired_bounds(differences: Floats) -> tuple[Floats, Floats]:
    """Return the paired t interval of differences[..., M], clipped to -1..1.

    Degenerate cases: if all are equal, or there is one problem, the t interval (M + 1 degrees) of the
    differences with one -1 and one +1 added, since equal differences are no certainty.
    """
    from scipy.special import stdtrit

    problems = differences.shape[-1]
    mean = differences.mean(axis=-1)
    spread = differences.std(axis=-1, ddof=1) if problems > 1 else np.zeros_like(mean)
    half = stdtrit(max(problems - 1, 1), UPPER_TAIL) * spread / np.sqrt(problems)
    low, high = mean - half, mean + half
    equal = spread < 1e-12
    if equal.any():
        both = np.concatenate(
            [differences, np.broadcast_to([-1.0, 1.0], (*differences.shape[:-1], 2))], axis=-1
        )
        half = stdtrit(problems + 1, UPPER_TAIL) * both.std(axis=-1, ddof=1) / np.sqrt(problems + 2)
        low = np.where(equal, both.mean(axis=-1) - half, low)
        high = np.where(equal, both.mean(axis=-1) + half, high)
    return np.clip(np.minimum(low, mean), -1, 1), np.clip(np.maximum(high, mean), -1, 1)


def holm(p_values: Sequence[float] | NDArray[np.float64]) -> Floats:
    """Return Holm's adjusted p-values (Scandinavian Journal of Statistics 1979), in the order given.

    Rejecting those at most alpha bounds the chance of any false rejection by alpha, under any dependence.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"p-values must be a flat list, not an array of shape {values.shape}")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values must lie between 0 and 1")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def _normal(difference: float, error: float) -> tuple[float, float, float]:
    """Return z, two-sided p-value and half width of a normal difference; p = 1 for z = 0 with no error."""
    from scipy.special import ndtr, ndtri

    half = float(ndtri(UPPER_TAIL)) * error
    if error == 0:
        z = 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    else:
        z = difference / error
    return z, float(2 * ndtr(-abs(z))), half


def is_fragile(differences: Floats) -> NDArray[np.bool_]:
    """Return whether one more problem, fully won by the other side, would undo a difference[..., M] at 5%.

    Few problems can lack the rare large differences of the other sign; the observed skewness hides that.
    """
    from scipy.special import stdtrit

    against = -np.sign(differences.mean(axis=-1, keepdims=True))
    more = np.concatenate([differences, against], axis=-1)
    error = more.std(axis=-1, ddof=1) / np.sqrt(more.shape[-1])
    fragile: NDArray[np.bool_] = (
        -against[..., 0] * more.mean(axis=-1) < stdtrit(more.shape[-1] - 1, UPPER_TAIL) * error
    )
    return fragile


def _warning(
    differences: Floats, tested: Floats, p_value: float, bounds: tuple[float, float] | None
) -> str | None:
    """Warn of levels that may not hold; `tested` are the differences from equally many samples."""
    warnings = []
    problems, differing = len(differences), int((tested != 0).sum())
    away = differences - differences.mean()
    variance = float(np.mean(away**2))
    skewness = float(np.mean(away**3)) / variance**1.5 if variance > 1e-24 else 0.0
    if differing < FEW_DIFFERENCES:
        warnings.append(f"only {differing} of {problems} problems differ, too few for a reliable interval")
    if problems < FEW_PROBLEMS and p_value <= 0.05 and is_fragile(differences):
        warnings.append(f"{problems} problems, and one more win for the other side would change the result")
    if problems < FEW_PROBLEMS and abs(skewness) > SKEWED:
        warnings.append(
            f"{problems} problems with skewed differences (skewness {skewness:.1f}): interval and p-value "
            "may be inaccurate"
        )
    if bounds and bounds[0] <= 0 <= bounds[1] and bounds[0] < bounds[1]:
        warnings.append("unknown grades or missing samples alone can change the sign of the difference")
    return "; ".join(warnings) or None
