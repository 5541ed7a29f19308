"""Vectors of responses: by a sentence-transformers model, or TF-IDF where none is named."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from evaluator.signal.groups import Bools
from service.errors import InputError, PrerequisiteError, first_line

TOKENS = r"\\[A-Za-z]+|[^\W\d_]+|\d+(?:\.\d+)?|[^\w\s]"
"""What TF-IDF counts, singly and in pairs: LaTeX commands, words, numbers, other signs of formulas."""

_FEATURES = 2**18
_TEXTS_AT_ONCE = 512


class Embedder(Protocol):
    """Turns texts into vectors of length 1; rows of a matrix, dense or sparse. A text without any is 0."""

    @property
    def name(self) -> str: ...

    @property
    def remark(self) -> str | None: ...

    def embed(self, texts: Sequence[str]) -> Any: ...


class TfIdf:
    """Hashed TF-IDF over words, numbers and parts of formulas, with weights from the texts it is fitted to.

    It sees which words and formulas a solution uses, not what they mean: two wordings of one idea are far
    apart. A model of sentence embeddings is the better measure; this one needs no download.
    """

    name = "TF-IDF over words and formulas"
    remark = "without --embedding, distances measure wording and formulas, not meaning"

    def __init__(self, texts: Iterable[str]) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer

        self._vectorizer = HashingVectorizer(
            n_features=_FEATURES,
            token_pattern=TOKENS,
            lowercase=True,
            alternate_sign=False,
            ngram_range=(1, 2),
            norm=None,
        )
        seen = np.zeros(_FEATURES)
        number = 0
        for part in _parts(texts):
            counts = self._vectorizer.transform(part)
            seen += np.bincount(counts.indices, minlength=_FEATURES)
            number += len(part)
        self._weights = np.log((1 + number) / (1 + seen)) + 1

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a sparse matrix [texts, features]."""
        from sklearn.preprocessing import normalize

        counts = self._vectorizer.transform(list(texts))
        counts.data = (1 + np.log(counts.data)) * self._weights[counts.indices]
        return normalize(counts)


class SentenceModel:
    """A sentence-transformers model by its name on the Hub or the path of its folder.

    Raises:
        PrerequisiteError: sentence-transformers is not installed.
        InputError: there is no such model, or it cannot be loaded.
    """

    def __init__(self, name_or_path: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise PrerequisiteError(
                "--embedding needs sentence-transformers. Install it with `pip install "
                "'tagrpo[embeddings]'`, or remove --embedding to use TF-IDF."
            ) from error
        try:
            self._model: Any = SentenceTransformer(name_or_path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{name_or_path}: no sentence-transformers model could be loaded ({first_line(error)}). "
                "Give a Hub name or a folder."
            ) from error
        self.name = name_or_path

    @property
    def remark(self) -> str | None:
        length = self._model.max_seq_length
        return None if length is None else f"the model reads the first {length:,} tokens of a response"

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a dense matrix [texts, dimensions]; a text of blanks is 0."""
        vectors = np.asarray(
            self._model.encode(
                list(texts), batch_size=32, normalize_embeddings=True, show_progress_bar=False
            ),
            dtype=np.float64,
        )
        vectors[[not text.strip() for text in texts]] = 0.0
        return vectors


def make_embedder(name_or_path: str | None, texts: Callable[[], Iterable[str]]) -> Embedder:
    """Return the model named, or TF-IDF fitted to the texts where none is."""
    return TfIdf(texts()) if name_or_path is None else SentenceModel(name_or_path)


def has_vector(vectors: Any) -> Bools:
    """Return which rows are vectors of length 1; the others are texts in which nothing was found."""
    lengths = np.asarray(abs(vectors).sum(axis=1)).ravel()
    there: Bools = lengths > 0
    return there


def _parts(texts: Iterable[str]) -> Iterable[list[str]]:
    part: list[str] = []
    for text in texts:
        part.append(text)
        if len(part) == _TEXTS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part
