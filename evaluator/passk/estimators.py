"""pass@k, pass^k and G-Pass@k: the chance that one, all or most of k samples of a problem are correct."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
IntegerArray: TypeAlias = list[int] | tuple[int, ...] | NDArray[Any]
Integers: TypeAlias = int | IntegerArray

_SLACK = 1e-9  # tau is read to nine decimals: 100 * .07 is 7 draws, although it is 7.000000000000001 here
_BELOW_ROUNDING = 41.0  # exp(-41) disappears when it is subtracted from 1
_BELOW_DOUBLE = 750.0  # exp(-750) is 0 in float64


def pass_at_k(n: Integers, c: Integers, k: Integers) -> Any:
    """Return 1 - C(n-c, k) / C(n, k), the unbiased estimate of pass@k (Chen et al. 2021, arXiv:2107.03374).

    Exact to 1e-12 for n up to 10,000. It is the share of the subsets of k out of n samples with at least one
    correct sample; without replacement, so that k = n gives 1 if c > 0.

    Args:
        n: samples of each problem, a whole number or an array of them.
        c: number of correct ones.
        k: draws. n, c and k broadcast against each other.

    Returns:
        A float if all three are scalars, else an array of their common shape.

    Raises:
        ValueError: k < 1, k > n, c < 0, c > n, or a value that is not a whole number. pass@k with fewer than
            k samples is undefined; there is no fallback.
    """
    return on_counts(lambda n, c, k: 1.0 - _all_from(n, n - c, k, _BELOW_ROUNDING), n, c, k)


def pass_hat_k(n: Integers, c: Integers, k: Integers) -> Any:
    """Return C(c, k) / C(n, k), the unbiased estimate of pass^k: all k draws are correct.

    The formula of tau-bench (Yao et al. 2024, arXiv:2406.12045), with arguments and errors of `pass_at_k`.
    """
    return on_counts(lambda n, c, k: _all_from(n, c, k, _BELOW_DOUBLE), n, c, k)


def g_pass_at_k(n: Integers, c: Integers, k: Integers, tau: float) -> Any:
    """Return G-Pass@k_tau: the chance that at least ceil(tau * k), and at least one, of k draws are correct.

    The hypergeometric tail of Liu et al. 2024 (arXiv:2412.13147): k of n samples without replacement. tau = 0
    is pass@k, tau = 1 is pass^k. `tau` is the same for all cells, and read to nine decimals.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be between 0 and 1, but is {tau}")

    def tail(n: Ints, c: Ints, k: Ints) -> Floats:
        from scipy.stats import hypergeom

        return np.asarray(hypergeom.sf(np.maximum(1, np.ceil(k * (tau - _SLACK))) - 1, n, c, k))

    return on_counts(tail, n, c, k)


def mg_pass_at_k(n: Integers, c: Integers, k: Integers) -> Any:
    """Return mG-Pass@k = 2/k times the sum of G-Pass@k_{i/k} over i = ceil(k/2)+1 .. k (arXiv:2412.13147).

    It equals 2/k times the expected number of correct draws above ceil(k/2). For k = 1 the sum is empty and
    the value is 0 even if all are correct; for odd k its maximum is (k-1)/k.
    """

    def surplus(n: Ints, c: Ints, k: Ints) -> Floats:
        from scipy.stats import hypergeom

        cells = zip(n, c, k, strict=True)
        sums = [hypergeom.sf(np.arange((k + 1) // 2, k), n, c, k).sum() for n, c, k in cells]
        return np.array(sums) * 2 / k

    return on_counts(surplus, n, c, k)


def on_counts(
    formula: Callable[[Ints, Ints, Ints], Floats], n: Integers, c: Integers, k: Integers
) -> float | Floats:
    """Check n, c and k, apply `formula` to them as flat arrays and return the values in their shape."""
    parts = whole_numbers("n", n), whole_numbers("c", c), whole_numbers("k", k)
    try:
        n, c, k = np.broadcast_arrays(*parts)
    except ValueError:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ValueError(f"n, c and k of shapes {shapes} do not broadcast") from None
    for wrong, fault in (
        (k < 1, "k must be at least 1"),
        (c < 0, "c must be at least 0"),
        (c > n, "c must be at most n"),
        (k > n, "k must be at most n (fewer than k samples give no estimate)"),
    ):
        if wrong.any():
            at = np.argmax(wrong)
            raise ValueError(f"{fault}: n={n.flat[at]}, c={c.flat[at]}, k={k.flat[at]}")
    values = formula(n.ravel(), c.ravel(), k.ravel()).reshape(n.shape)
    return values if n.shape else float(values)


def whole_numbers(name: str, values: Integers) -> Ints:
    """Return `values` as int64; 4.0 counts as 4. Anything else is a `ValueError`."""
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        odd = array[~(np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2**53))]
        if odd.size:
            raise ValueError(f"{name} must be integers, but {odd.flat[0]} is not")
    elif array.dtype.kind not in "iu" or (array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max):
        raise ValueError(f"{name} must be integers, not {array.dtype} such as {array.flat[0]!r}")
    return array.astype(np.int64)


def _all_from(n: Ints, part: Ints, k: Ints, negligible: float) -> Floats:
    """Return C(part, k) / C(n, k), the chance that k draws all come from `part` of n; flat arrays.

    With few = min(k, n - part) and many = the other one it is the product of (n - many - i) / (n - i) over i
    < few. The factors are at most 1 - many/n, so if few * many / n is above `negligible`, the product is
    below exp(-negligible) and 0 is returned. That bounds the number of factors by sqrt(negligible * n), and
    so the rounding error (1.4e-13 for n = 10,000), which differences of log-gammas would exceed.
    """
    others = n - part
    few, many = np.minimum(k, others), np.maximum(k, others)
    chance = np.zeros(len(n))
    open_cells = np.flatnonzero((few + many <= n) & (few * (many / n) <= negligible))
    open_cells = open_cells[np.argsort(-few[open_cells], kind="stable")]
    if open_cells.size == 0:
        return chance
    ordered = few[open_cells]
    bottom = n[open_cells].astype(np.float64)
    top = bottom - many[open_cells]
    product = np.ones(len(open_cells))
    # Cells are sorted by their number of factors, descending: step i concerns the first active[i] of them.
    active = np.searchsorted(-ordered, -np.arange(int(ordered[0])), side="left")
    for i, cells in enumerate(active.tolist()):
        product[:cells] *= (top[:cells] - i) / (bottom[:cells] - i)
    chance[open_cells] = product
    return chance
