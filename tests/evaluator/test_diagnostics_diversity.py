"""Diversity: distances against brute force, TF-IDF, densities."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from evaluator.signal.diversity import densities, diversity


def angles(texts: Sequence[str]) -> Any:
    """Turn angles in degrees into points on the unit circle; "-" has no vector."""
    angles = np.deg2rad([0.0 if text == "-" else float(text) for text in texts])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors[[text == "-" for text in texts]] = 0.0
    return vectors


def tables(texts: Any, g: int, n: int) -> Any:
    return diversity("base", texts, angles, g, n)[0]


def distance(first: str, second: str) -> float:
    return float(1 - np.cos(np.deg2rad(float(first) - float(second))))


def mean_distance(pairs: Any) -> float:
    return float(np.mean([distance(*pair) for pair in pairs]))


def test_means_are_those_over_all_pairs() -> None:
    texts = own, first, second = ("0", "10", "50"), ("80", "90", "100"), ("5", "200", "31")
    (row,) = tables([("a", dict(enumerate(texts)))], 3, 2)["diversity"]
    assert row["original"] == pytest.approx(mean_distance(combinations(own, 2)))
    assert row["neighbor"] == pytest.approx(
        (mean_distance(combinations(first, 2)) + mean_distance(combinations(second, 2))) / 2
    )
    assert row["neighbors"] == pytest.approx(mean_distance(combinations(first + second, 2)))
    assert row["between"] == pytest.approx(mean_distance(product(own, first + second)))


def test_the_fair_series_has_as_many_pairs_spread_over_the_neighbors() -> None:
    texts = {0: ("0", "0", "0"), 1: ("0", "0", "0"), 2: ("90", "90", "90")}
    (row,) = tables([("a", texts)], 3, 2)["diversity"]
    assert row["original"] == 0.0
    assert row["neighbor"] == 0.0
    assert row["matched"] == pytest.approx(2 / 3)  # two of one neighbor, one of the other
    assert row["neighbors"] == pytest.approx(9 / 15)


def test_a_density_integrates_to_one() -> None:
    rng = np.random.default_rng(1)
    texts = [(f"q{n}", {0: tuple(map(str, rng.normal(0, 40, 3)))}) for n in range(200)]
    distances = np.array([row["original"] for row in tables(texts, 3, 0)["diversity"]])
    rows = densities({"original": distances}, points=400)
    axis = np.array([row["distance"] for row in rows])
    density = np.array([row["density"] for row in rows])
    assert np.trapezoid(density, axis) == pytest.approx(1.0, abs=0.1)
    assert axis.min() >= 0
    assert tables([("a", {0: ("1", "1")}), ("b", {0: ("2", "2")})], 2, 0)["diversity_densities"] == []
