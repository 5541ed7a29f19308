"""Diversity of responses: distances between their TF-IDF vectors, original against neighbors.

TA-GRPO (arXiv 2601.22478v5), section 5.2 and Figure 4: the density over questions of the average distance
among embeddings of G responses to the original, and of N*G responses to its neighbors. The paper names
neither the embedding model nor the distance. Here it is the cosine distance of words, numbers and parts of
formulas: two wordings of one idea are far apart.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evaluator.signal.groups import ORIGINAL, Floats, PartTables, Row, Texts, mean_estimate
from service.errors import InputError

ORIGINAL_PAIRS = "original, G"
SERIES = {
    ORIGINAL_PAIRS: "original",
    "one neighbor, G": "neighbor",
    "neighbors, N*G": "neighbors",
    "neighbors, as many pairs as the original": "matched",
    "original against neighbors": "between",
}
"""Series of distances, with their column in the table `diversity`.

`original`: among G responses to the question. `neighbor`: among G responses to one neighbor, mean over
neighbors. `neighbors`: among all N*G responses to its neighbors. `matched`: among G of those, spread evenly
over the neighbors. `between`: from a response to the original to one to a neighbor.
"""

EMBEDDING = "TF-IDF over words and formulas"
REMARK = "distances measure wording and formulas, not meaning"
TOKENS = r"\\[A-Za-z]+|[^\W\d_]+|\d+(?:\.\d+)?|[^\w\s]"
"""LaTeX commands, words, numbers, other signs of formulas: counted singly and in pairs."""

Embed = Callable[[Sequence[str]], Any]
"""From texts to rows of length 1; the row of a text without any token is 0."""


def fit_tf_idf(texts: Iterable[str]) -> Embed:
    """Return TF-IDF with weights from these texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=TOKENS, ngram_range=(1, 2), sublinear_tf=True)
    try:
        vectorizer.fit(texts)
    except ValueError as error:  # no text has a token
        raise InputError("the run contains no response texts to compare.") from error
    return vectorizer.transform  # type: ignore[no-any-return]


def diversity(
    checkpoint: str, texts: Iterable[Texts], embed: Embed, g: int, n: int, *, seed: int = 0
) -> PartTables:
    """Return distances by question, means and densities, for G responses a prompt and N neighbors a question.

    Of more responses, G are drawn by the seed; of more neighbors, the first N are taken. Questions with fewer
    are left out and counted, and so are responses without a vector.
    """
    from scipy import sparse

    rows: list[Row] = []
    left_out = empty = 0
    for group_id, prompts in texts:
        # The random draw for a question must not depend on the questions before it.
        rng = np.random.default_rng([seed, *group_id.encode()])
        vectors = {}
        for variant, responses in sorted(prompts.items()):
            matrix = sparse.csr_matrix(embed(responses) if responses else np.zeros((0, 1)))
            lengths = np.asarray(abs(matrix).sum(axis=1)).ravel()
            empty += int((lengths == 0).sum())
            if (lengths > 0).sum() >= g:
                vectors[variant] = matrix[lengths > 0]
        neighbors = [variant for variant in vectors if variant != ORIGINAL][:n]
        if ORIGINAL not in vectors or len(neighbors) < n:
            left_out += 1
            continue
        drawn = [
            vectors[variant][np.sort(rng.permutation(vectors[variant].shape[0])[:g])]
            for variant in (ORIGINAL, *neighbors)
        ]
        stacked = sparse.vstack(drawn)
        distances = 1 - (stacked @ stacked.T).toarray()
        rows.append({"group_id": group_id, **_means(distances, g, n)})
    if not rows:
        raise InputError(
            f"{checkpoint}: no question has {g} responses to its original"
            + (f" and to {n} neighbors" if n else "")
            + ". Give a smaller --g or --n, or sample more responses."
        )
    names = [name for name in SERIES if n or name == ORIGINAL_PAIRS]
    values = {name: np.array([row[SERIES[name]] for row in rows], dtype=np.float64) for name in names}
    means = [
        {"series": name, "minus": None, **mean_estimate(series, (0.0, 2.0))}
        for name, series in values.items()
    ]
    for name in names[1:]:
        difference = mean_estimate(values[name] - values[ORIGINAL_PAIRS])
        means.append({"series": name, "minus": ORIGINAL_PAIRS, **difference})
    notes = []
    if left_out:
        notes.append(f"{checkpoint}: questions with too few responses, excluded: {left_out:,}")
    if empty:
        notes.append(
            f"{checkpoint}: {empty:,} responses are excluded, because they contain no words or formulas"
        )
    tables = {"diversity": rows, "diversity_means": means, "diversity_densities": densities(values)}
    return tables, [*notes, REMARK]


def _means(distances: Floats, g: int, n: int) -> dict[str, float | None]:
    """Return mean distances by column, for G responses to the original and then G to each of N neighbors."""

    def within(places: Sequence[int]) -> float:
        pairs = distances[np.ix_(places, places)][np.triu_indices(len(places), 1)]
        return max(0.0, float(pairs.mean()))  # rounding must not make equal responses closer than 0

    original = within(range(g))
    if n == 0:
        return {"original": original, "neighbor": None, "neighbors": None, "matched": None, "between": None}
    starts = [g * (number + 1) for number in range(n)]
    return {
        "original": original,
        "neighbor": float(np.mean([within(range(start, start + g)) for start in starts])),
        "neighbors": within(range(g, g * (n + 1))),
        # G responses spread over the neighbors: the first G of those dealt out one neighbor after the other.
        "matched": within([starts[place % n] + place // n for place in range(g)]),
        "between": float(distances[:g, g:].mean()),
    }


def densities(values: Mapping[str, Floats], *, points: int = 101) -> list[Row]:
    """Return the density over questions of each series, on one axis.

    A series whose questions all have one distance is left out. The density has a Gaussian kernel of
    Silverman's width, reflected at 0 and 1, the bounds of a distance.
    """
    from scipy.stats import gaussian_kde

    widths = {name: width for name, series in values.items() if (width := _width(series))}
    joined = np.concatenate(list(values.values()))
    widest = max(widths.values(), default=0.0)
    axis = np.linspace(max(0.0, joined.min() - 3 * widest), min(1.0, joined.max() + 3 * widest), points)
    return [
        {"series": name, "distance": float(x), "density": float(y)}
        for name, width in widths.items()
        for kernel in [gaussian_kde(values[name], width / values[name].std(ddof=1))]
        for x, y in zip(axis, kernel(axis) + kernel(-axis) + kernel(2 - axis), strict=True)
    ]


def _width(values: Floats) -> float:
    """Return Silverman's bandwidth (Density Estimation, 1986, Eq. 3.31), 0 if nothing varies."""
    if len(values) < 2 or (spread := float(values.std(ddof=1))) <= 1e-12:
        return 0.0
    low, high = np.percentile(values, [25, 75])
    if high > low:
        spread = min(spread, float(high - low) / 1.34)
    return float(0.9 * spread * len(values) ** -0.2)
