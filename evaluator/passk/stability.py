"""G-Pass@k: the chance that most of k draws are correct, not only one."""

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from evaluator.passk.estimators import Floats, Integers, Ints, on_counts

_SLACK = (
    1e-9  # tau is read to nine decimals: 100 * .07 is 7 draws, although it is 7.000000000000001 in binary
)
_CELLS_AT_ONCE = 4_000_000


@overload
def g_pass_at_k(n: int, c: int, k: int, tau: float) -> float: ...
@overload
def g_pass_at_k(n: Integers, c: Integers, k: Integers, tau: float) -> float | Floats: ...
def g_pass_at_k(n: Integers, c: Integers, k: Integers, tau: float) -> float | Floats:
    """Return G-Pass@k_tau: the chance that at least ceil(tau * k), and at least one, of k draws are correct.

    The hypergeometric tail of Liu et al. 2024 (arXiv:2412.13147): k of n samples without replacement. tau = 0
    is pass@k, tau = 1 is pass^k. Arguments, shapes and errors are those of `pass_at_k`.

    Args:
        tau: a share from 0 to 1, the same for all cells, read to nine decimals.

    Raises:
        ValueError: as `pass_at_k`, or tau outside 0 to 1.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be between 0 and 1, but is {tau}")

    def tail(n: Ints, c: Ints, k: Ints) -> Floats:
        needed = np.maximum(1, np.ceil(k * (tau - _SLACK)))
        return _expected(n, c, k, lambda hits, cells: hits >= needed[cells, None])

    return on_counts(tail, n, c, k)


@overload
def mg_pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def mg_pass_at_k(n: Integers, c: Integers, k: Integers) -> float | Floats: ...
def mg_pass_at_k(n: Integers, c: Integers, k: Integers) -> float | Floats:
    """Return mG-Pass@k = 2/k times the sum of G-Pass@k_{i/k} over i = ceil(k/2)+1 .. k (arXiv:2412.13147).

    It equals 2/k times the expected number of correct draws above ceil(k/2). Arguments, shapes and errors are
    those of `pass_at_k`. For k = 1 the sum is empty and the value is 0 even if all are correct; for odd k its
    maximum is (k-1)/k.
    """

    def surplus(n: Ints, c: Ints, k: Ints) -> Floats:
        half = (k + 1) // 2
        return _expected(n, c, k, lambda hits, cells: np.maximum(hits - half[cells, None], 0)) * 2 / k

    return on_counts(surplus, n, c, k)


def _expected(n: Ints, c: Ints, k: Ints, worth: Callable[[Ints, slice], NDArray[Any]]) -> Floats:
    """Return the expected worth[cell, hits] of the number of hits among k draws, in chunks of cells."""
    result = np.empty(len(n))
    step = max(1, _CELLS_AT_ONCE // (int(k.max()) + 1))
    for start in range(0, len(n), step):
        cells = slice(start, start + step)
        hits = np.arange(int(k[cells].max()) + 1)
        weights = _hypergeometric(n[cells, None], c[cells, None], k[cells, None], hits)
        result[cells] = (weights * worth(hits, cells)).sum(axis=1) / weights.sum(axis=1)
    return result


def _hypergeometric(n: Ints, c: Ints, k: Ints, hits: Ints) -> Floats:
    """Return weights proportional to C(c, x) C(n-c, k-x), 1 at the mode.

    They are products of ratios of neighboring weights, starting at the mode and so never above 1: exact to
    rounding, unlike differences of log-gammas.
    """
    mode = np.clip((k + 1) * (c + 1) // (n + 2), np.maximum(0, c + k - n), np.minimum(c, k))
    loss, gain = (c - hits) * (k - hits), (hits + 1) * (n - c - k + hits + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.cumprod(np.where(hits < mode, 1.0, loss / gain), axis=1)
        down = np.cumprod(np.where(hits < mode, gain / loss, 1.0)[:, ::-1], axis=1)[:, ::-1]
    # up[x] leads from the mode to x + 1, down[x] from the mode to x.
    up = np.concatenate([np.ones((len(up), 1)), up[:, :-1]], axis=1)
    weights: Floats = np.where((hits >= k + c - n) & (hits <= np.minimum(c, k)), up * down, 0.0)
    return weights
