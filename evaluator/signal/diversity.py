"""Diversity of responses: distances between their embeddings, original against neighbors.

TA-GRPO (arXiv 2601.22478v5), section 5.2 and Figure 4: the density over questions of the average distance
among embeddings of G responses to the original, and of N*G responses to its neighbors. The paper names
neither the embedding model nor the distance; here it is the cosine distance.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from evaluator.signal.embeddings import Embedder, has_vector
from evaluator.signal.groups import ORIGINAL, Estimate, Floats, GroupTexts, mean_estimate
from service.errors import InputError

ORIGINAL_PAIRS = "original, G"
NEIGHBOR_PAIRS = "one neighbor, G"
NEIGHBORS_PAIRS = "neighbors, N*G"
MATCHED_PAIRS = "neighbors, as many pairs as the original"
BETWEEN_PAIRS = "original against neighbors"
SERIES = (ORIGINAL_PAIRS, NEIGHBOR_PAIRS, NEIGHBORS_PAIRS, MATCHED_PAIRS, BETWEEN_PAIRS)

POINTS = 101
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class DistanceRow:
    """Mean cosine distances among the responses to one question.

    `original`: among G responses to it. `neighbor`: among G responses to one neighbor, mean over neighbors.
    `neighbors`: among all N*G responses to its neighbors. `matched`: among G of those, spread evenly over the
    neighbors, so that it stands on as many pairs as `original`. `between`: from a response to the original to
    one to a neighbor. A plain run has `original` only.
    """

    checkpoint: str
    group_id: str
    original: float
    neighbor: float | None
    neighbors: float | None
    matched: float | None
    between: float | None


@dataclass(frozen=True)
class DensityRow:
    """One point of a density over questions: a chart's row."""

    checkpoint: str
    series: str
    distance: float
    density: float


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """The distances of one checkpoint, their means by series and paired differences to the original."""

    checkpoint: str
    embedding: str
    g: int
    n: int
    rows: tuple[DistanceRow, ...]
    means: dict[str, Estimate]
    differences: dict[str, Estimate]
    left_out: int
    without_vector: int


def diversity(
    checkpoint: str, texts: Iterable[GroupTexts], embedder: Embedder, g: int, n: int, *, seed: int = 0
) -> Diversity:
    """Return the distances for G responses a prompt and N neighbors a question.

    Of more responses G are drawn by the seed, of more neighbors the first N are taken. Questions with fewer
    are left out and counted, and so are responses in which the embedding finds nothing. A mean over all pairs
    of n unit vectors is 1 - (|sum|^2 - n) / (n (n-1)), so no matrix of pairs is made.

    Raises:
        InputError: G below 2, N below 0, or no question with enough responses.
    """
    if g < 2 or n < 0:
        raise InputError(f"--g {g} and --n {n}: give a G of at least 2 and an N of at least 0.")
    rows, left_out, empty = [], 0, 0
    for group, vectors, lost in _embedded(texts, embedder):
        empty += lost
        # A question's draw must not hang on which questions came before it.
        rng = np.random.default_rng([seed, *group.group_id.encode()])
        row = _distances(checkpoint, group.group_id, vectors, g, n, rng)
        if row is None:
            left_out += 1
        else:
            rows.append(row)
    if not rows:
        raise InputError(
            f"{checkpoint}: no question has {g} responses to its original"
            + (f" and to {n} neighbors" if n else "")
            + ". Give a smaller --g or --n, or draw more responses."
        )
    values = {name: _values(rows, name) for name in SERIES if n or name == ORIGINAL_PAIRS}
    own = values[ORIGINAL_PAIRS]
    return Diversity(
        checkpoint=checkpoint,
        embedding=embedder.name,
        g=g,
        n=n,
        rows=tuple(rows),
        means={name: mean_estimate(series, bounds=(0.0, 2.0)) for name, series in values.items()},
        differences={
            name: mean_estimate(series - own) for name, series in values.items() if name != ORIGINAL_PAIRS
        },
        left_out=left_out,
        without_vector=empty,
    )


def densities(result: Diversity, *, points: int = POINTS) -> list[DensityRow]:
    """Return the density over questions of each series, on one axis: a Gaussian kernel, Silverman's width.

    A series whose questions all have one distance has no density and is left out.
    """
    values = {name: _values(result.rows, name) for name in result.means}
    widths = {name: _width(series) for name, series in values.items()}
    widest = max((width for width in widths.values() if width), default=0.0)
    joined = np.concatenate(list(values.values()))
    axis = np.linspace(max(0.0, joined.min() - 3 * widest), joined.max() + 3 * widest, points)
    rows = []
    for name, series in values.items():
        width = widths[name]
        if width:
            scaled = (axis[:, None] - series) / width
            density = np.exp(-(scaled**2) / 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
            rows += [
                DensityRow(result.checkpoint, name, float(x), float(y))
                for x, y in zip(axis, density, strict=True)
            ]
    return rows


def _width(values: Floats) -> float:
    """Return Silverman's bandwidth (Density Estimation, 1986, Eq. 3.31), 0 where nothing varies."""
    if len(values) < 2:
        return 0.0
    low, high = np.percentile(values, [25, 75])
    spread = float(values.std(ddof=1))
    if high > low:
        spread = min(spread, float(high - low) / 1.34)
    return 0.9 * spread * float(len(values)) ** -0.2 if spread > 1e-12 else 0.0


def _values(rows: Sequence[DistanceRow], name: str) -> Floats:
    fields = dict(zip(SERIES, ("original", "neighbor", "neighbors", "matched", "between"), strict=True))
    return np.array([getattr(row, fields[name]) for row in rows], dtype=np.float64)


def _embedded(
    texts: Iterable[GroupTexts], embedder: Embedder
) -> Iterator[tuple[GroupTexts, dict[int, Any], int]]:
    """Yield each question with the vectors of its responses by variant, and how many have none."""
    waiting: list[GroupTexts] = []
    size = 0
    for group in chain(texts, [None]):
        if group is not None:
            waiting.append(group)
            size += sum(map(len, group.prompts.values()))
            if size < _TEXTS_AT_ONCE:
                continue
        flat = [text for held in waiting for responses in held.prompts.values() for text in responses]
        vectors = embedder.embed(flat) if flat else None
        there = has_vector(vectors) if flat else np.zeros(0, dtype=bool)
        start = 0
        for held in waiting:
            prompts, lost = {}, 0
            for variant, responses in held.prompts.items():
                here = np.arange(start, start + len(responses))
                start += len(responses)
                lost += int((~there[here]).sum())
                if vectors is not None:
                    prompts[variant] = vectors[here[there[here]]]
            yield held, prompts, lost
        waiting, size = [], 0


def _distances(
    checkpoint: str, group_id: str, vectors: dict[int, Any], g: int, n: int, rng: np.random.Generator
) -> DistanceRow | None:
    enough = {variant: part for variant, part in sorted(vectors.items()) if part.shape[0] >= g}
    neighbors = [variant for variant in enough if variant != ORIGINAL][:n]
    if ORIGINAL not in enough or len(neighbors) < n:
        return None
    drawn = [
        enough[variant][np.sort(rng.permutation(enough[variant].shape[0])[:g])]
        for variant in (ORIGINAL, *neighbors)
    ]
    own_GF, *others_GF = np.split(_dense(drawn), n + 1)
    own = own_GF.sum(axis=0)
    original = _within(own, g)
    if n == 0:
        return DistanceRow(checkpoint, group_id, original, None, None, None, None)
    sums = [part.sum(axis=0) for part in others_GF]
    total = np.sum(sums, axis=0)
    # G responses spread over the neighbors: the first G of those dealt out one neighbor after the other.
    places = [divmod(place, n) for place in range(g)]
    matched = np.sum([others_GF[which][place] for place, which in places], axis=0)
    return DistanceRow(
        checkpoint,
        group_id,
        original,
        float(np.mean([_within(part, g) for part in sums])),
        _within(total, n * g),
        _within(matched, g),
        float(1 - own @ total / (g * n * g)),
    )


def _dense(parts: Sequence[Any]) -> Floats:
    """Return the rows of all parts in one matrix, of sparse ones without the features that no row has."""
    from scipy import sparse

    if not sparse.issparse(parts[0]):
        return np.concatenate(parts).astype(np.float64)
    rows = sparse.vstack(parts, format="csr")
    return rows[:, np.unique(rows.indices)].toarray().astype(np.float64)  # type: ignore[no-any-return]


def _within(total: Floats, count: int) -> float:
    """Return the mean cosine distance over the pairs of `count` unit vectors with this sum."""
    # Rounding must not make equal responses closer than 0.
    return max(0.0, float(1 - (total @ total - count) / (count * (count - 1))))
