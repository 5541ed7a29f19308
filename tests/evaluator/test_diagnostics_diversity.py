"""Diversity: distances against brute force, TF-IDF, a tiny sentence model, densities."""

import sys
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import save_tiny_model

from evaluator.signal.diversity import (
    BETWEEN_PAIRS,
    MATCHED_PAIRS,
    NEIGHBOR_PAIRS,
    NEIGHBORS_PAIRS,
    ORIGINAL_PAIRS,
    densities,
    diversity,
)
from evaluator.signal.embeddings import SentenceModel, TfIdf, has_vector, make_embedder
from evaluator.signal.groups import GroupTexts
from service.errors import InputError, PrerequisiteError


class Angles:
    """Texts that are angles in degrees become points on the unit circle; "-" has no vector."""

    name = "angles"
    remark = None

    def embed(self, texts: Sequence[str]) -> Any:
        angles = np.deg2rad([0.0 if text == "-" else float(text) for text in texts])
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        vectors[[text == "-" for text in texts]] = 0.0
        return vectors


def distance(first: str, second: str) -> float:
    return float(1 - np.cos(np.deg2rad(float(first) - float(second))))


def mean_distance(pairs: Any) -> float:
    return float(np.mean([distance(*pair) for pair in pairs]))


def test_means_are_those_over_all_pairs() -> None:
    texts = GroupTexts("a", {0: ("0", "10", "50"), 1: ("80", "90", "100"), 2: ("5", "200", "31")})
    (row,) = diversity("base", [texts], Angles(), 3, 2).rows
    own, first, second = (texts.prompts[variant] for variant in range(3))
    assert row.original == pytest.approx(mean_distance(combinations(own, 2)))
    assert row.neighbor == pytest.approx(
        (mean_distance(combinations(first, 2)) + mean_distance(combinations(second, 2))) / 2
    )
    assert row.neighbors == pytest.approx(mean_distance(combinations(first + second, 2)))
    assert row.between == pytest.approx(mean_distance(product(own, first + second)))


def test_the_fair_series_has_as_many_pairs_spread_over_the_neighbors() -> None:
    texts = GroupTexts("a", {0: ("0", "0", "0"), 1: ("0", "0", "0"), 2: ("90", "90", "90")})
    (row,) = diversity("base", [texts], Angles(), 3, 2).rows
    assert row.original == 0.0
    assert row.neighbor == 0.0
    assert row.matched == pytest.approx(2 / 3)  # two of one neighbor, one of the other
    assert row.neighbors == pytest.approx(9 / 15)


def test_differences_are_paired_and_have_intervals() -> None:
    rng = np.random.default_rng(0)
    texts = [
        GroupTexts(
            f"q{n}",
            {0: tuple(map(str, rng.normal(0, 20, 4))), 1: tuple(map(str, rng.normal(0, 60, 4)))},
        )
        for n in range(50)
    ]
    result = diversity("base", texts, Angles(), 4, 1)
    assert set(result.means) == {
        ORIGINAL_PAIRS,
        NEIGHBOR_PAIRS,
        NEIGHBORS_PAIRS,
        MATCHED_PAIRS,
        BETWEEN_PAIRS,
    }
    gap = result.differences[NEIGHBORS_PAIRS]
    assert gap.low is not None
    assert gap.low > 0
    assert gap.value == pytest.approx(
        result.means[NEIGHBORS_PAIRS].value - result.means[ORIGINAL_PAIRS].value
    )
    again = diversity("base", list(reversed(texts)), Angles(), 4, 1)
    assert again.means[ORIGINAL_PAIRS].value == pytest.approx(result.means[ORIGINAL_PAIRS].value)


def test_responses_and_questions_that_cannot_count_are_counted() -> None:
    texts = [
        GroupTexts("a", {0: ("0", "10", "-")}),
        GroupTexts("b", {0: ("0", "-")}),
        GroupTexts("c", {1: ("0", "1")}),
    ]
    result = diversity("base", texts, Angles(), 2, 0)
    assert (len(result.rows), result.left_out, result.without_vector) == (1, 2, 2)
    assert result.means[ORIGINAL_PAIRS].low is None
    with pytest.raises(InputError, match="no question has 3 responses"):
        diversity("base", texts, Angles(), 3, 0)
    with pytest.raises(InputError, match="at least 2"):
        diversity("base", texts, Angles(), 1, 0)


def test_a_density_integrates_to_one() -> None:
    rng = np.random.default_rng(1)
    texts = [GroupTexts(f"q{n}", {0: tuple(map(str, rng.normal(0, 40, 3)))}) for n in range(200)]
    result = diversity("base", texts, Angles(), 3, 0)
    rows = densities(result, points=400)
    axis = np.array([row.distance for row in rows])
    density = np.array([row.density for row in rows])
    assert np.trapezoid(density, axis) == pytest.approx(1.0, abs=0.1)
    assert axis.min() >= 0
    alike = diversity(
        "base", [GroupTexts("a", {0: ("1", "1")}), GroupTexts("b", {0: ("2", "2")})], Angles(), 2, 0
    )
    assert densities(alike) == []


def test_tf_idf_sees_words_and_formulas() -> None:
    texts = [
        r"Let $x = \frac{3}{4}$, so we multiply.",
        r"Let $x = \frac{3}{4}$, so we multiply.",
        r"Draw the triangle and use $\sin 30^\circ$.",
        "  ",
    ]
    vectors = TfIdf(texts).embed(texts)
    assert has_vector(vectors).tolist() == [True, True, True, False]
    likeness = (vectors @ vectors.T).toarray()
    assert likeness[0, 1] == pytest.approx(1.0)
    assert likeness[0, 2] < 0.2
    assert np.diag(likeness)[:3] == pytest.approx(1.0)


def test_tf_idf_is_the_stated_fallback() -> None:
    embedder = make_embedder(None, lambda: ["one", "two"])
    assert embedder.name.startswith("TF-IDF")
    assert "without --embedding" in (embedder.remark or "")


def test_a_sentence_model_of_a_folder(tmp_path: Path) -> None:
    model = SentenceModel(str(save_tiny_model(tmp_path / "model")))
    vectors = model.embed(["two plus two", "a triangle", " "])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 0], abs=1e-5)
    assert "first 512 tokens" in (model.remark or "")
    texts = [
        GroupTexts(f"q{n}", {0: (f"add {n}", f"subtract {n}"), 1: (f"halve {n}", f"double {n}")})
        for n in range(3)
    ]
    result = diversity("base", texts, model, 2, 1)
    assert all(0 < row.original < 2 for row in result.rows)


def test_a_model_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sentence-transformers model could be loaded"):
        SentenceModel(str(tmp_path / "nothing"))


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(PrerequisiteError, match=r"tagrpo\[embeddings\]"):
        SentenceModel("any")
