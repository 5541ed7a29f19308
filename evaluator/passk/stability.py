"""G-Pass@k: the chance that most of k draws are correct, not only one."""

from typing import overload

import numpy as np

from evaluator.passk.estimators import Floats, Integers, Ints, on_counts

_SLACK = (
    1e-9  # tau is read to nine decimals: 100 * .07 is 7 draws, although it is 7.000000000000001 in binary
)


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
        from scipy.stats import hypergeom

        return np.asarray(hypergeom.sf(np.maximum(1, np.ceil(k * (tau - _SLACK))) - 1, n, c, k))

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
        from scipy.stats import hypergeom

        cells = zip(n, c, k, strict=True)
        sums = [hypergeom.sf(np.arange((k + 1) // 2, k), n, c, k).sum() for n, c, k in cells]
        return np.array(sums) * 2 / k

    return on_counts(surplus, n, c, k)
