"""A question with its neighbors, the grades and texts of the responses to each; means over questions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.passk.estimators import Floats as Floats
from evaluator.passk.estimators import Ints as Ints
from evaluator.passk.intervals import RARE, new_problems_interval

ORIGINAL = 0

Row = dict[str, Any]
PartTables = tuple[dict[str, list[Row]], list[str]]
"""Rows of a part of a diagnosis for one checkpoint, by table, and notes on them."""


@dataclass(frozen=True)
class PromptSample:
    """The responses drawn for one prompt: a question or one of its neighbors."""

    variant: int  # 0 for the question, 1.. for its neighbors
    correct: int
    wrong: int
    unknown: int = 0  # graded neither correct nor wrong
    strategy: str | None = None
    source_id: str | None = None  # of the question or candidate
    tokens: int = 0  # of the `token_samples` responses whose length is known
    token_samples: int = 0

    def __add__(self, other: "PromptSample") -> "PromptSample":
        """Return the responses of both; strategy and source are those of the first that names them."""
        counts = ("correct", "wrong", "unknown", "tokens", "token_samples")
        return replace(
            self,
            strategy=self.strategy or other.strategy,
            source_id=self.source_id or other.source_id,
            **{name: getattr(self, name) + getattr(other, name) for name in counts},
        )

    @property
    def known(self) -> int:
        return self.correct + self.wrong


@dataclass(frozen=True)
class QuestionGroup:
    """A question and its neighbors, by variant; the original may be missing.

    Samples of one variant are added up. Several groups may have one `group_id`: visits of the same question
    in training, each with its own responses. Estimates weigh questions equally, whatever their visits.
    """

    group_id: str
    prompts: tuple[PromptSample, ...]

    def __post_init__(self) -> None:
        variants: dict[int, PromptSample] = {}
        for prompt in self.prompts:
            before = variants.get(prompt.variant)
            variants[prompt.variant] = prompt if before is None else before + prompt
        object.__setattr__(self, "prompts", tuple(variants[variant] for variant in sorted(variants)))


@dataclass(frozen=True)
class CheckpointGroups:
    """The groups of one eval run, or of a stretch of training steps, in the order they were read."""

    label: str
    groups: tuple[QuestionGroup, ...]


Texts = tuple[str, Mapping[int, Sequence[str]]]
"""A question's id, and responses by variant, 0 the original, in the order they were drawn."""


@dataclass(frozen=True)
class ResponseSource:
    """Responses to diagnose."""

    name: str
    checkpoints: tuple[CheckpointGroups, ...]
    # from the label of a checkpoint and ids of questions to their responses, some at a time
    texts: Callable[[str, Sequence[str]], Iterator[Texts]]
    notes: tuple[str, ...] = ()  # remarks on what was read


@dataclass(frozen=True)
class GroupCounts:
    """Counts as arrays [V, 1 + K]: a row a group (a visit of a question), column 0 the original.

    A prompt that is not there has all counts 0. `question` [V] numbers the questions from 0.
    """

    question: Ints
    correct: Ints
    wrong: Ints
    unknown: Ints = field(repr=False)

    @cached_property
    def known(self) -> Ints:
        """Graded right or wrong [V, 1 + K]."""
        return self.correct + self.wrong

    @property
    def neighbors(self) -> int:
        """K: the columns of neighbors."""
        return int(self.correct.shape[1]) - 1

    @cached_property
    def questions(self) -> int:
        return len(np.unique(self.question))

    def rows(self, chosen: NDArray[np.generic]) -> "GroupCounts":
        """Return the groups chosen by a mask or by numbers."""
        return GroupCounts(
            self.question[chosen], self.correct[chosen], self.wrong[chosen], self.unknown[chosen]
        )

    def by_question(self, values: Floats) -> Floats:
        """Return the means of values [V] over the visits of each question that are not NaN, by number."""
        there = ~np.isnan(values)
        _, places, visits = np.unique(self.question[there], return_inverse=True, return_counts=True)
        means: Floats = np.bincount(places, weights=values[there]) / visits
        return means


def count_groups(groups: Sequence[QuestionGroup]) -> GroupCounts:
    """Return the counts of the groups as arrays, in order. Columns run to the highest variant."""
    numbers: dict[str, int] = {}
    question = np.array(
        [numbers.setdefault(group.group_id, len(numbers)) for group in groups], dtype=np.int64
    )
    width = 1 + max(group.prompts[-1].variant for group in groups)
    places, counts = [], []
    for row, group in enumerate(groups):
        for prompt in group.prompts:
            places.append(row * width + prompt.variant)
            counts.append((prompt.correct, prompt.wrong, prompt.unknown))
    arrays = np.zeros((3, len(groups) * width), dtype=np.int64)
    arrays[:, places] = np.array(counts, dtype=np.int64).T
    correct, wrong, unknown = arrays.reshape(3, len(groups), width)
    return GroupCounts(question, correct, wrong, unknown)


def pool_visits(groups: Iterable[QuestionGroup]) -> list[QuestionGroup]:
    """Return one group per question, with the responses of all its visits."""
    pooled: dict[str, list[PromptSample]] = {}
    for group in groups:
        pooled.setdefault(group.group_id, []).extend(group.prompts)
    return [QuestionGroup(group_id, tuple(prompts)) for group_id, prompts in pooled.items()]


def share_estimate(values: Floats) -> Row:
    """Return the mean of values in 0..1, one a question, with `new_problems_interval`."""
    interval = new_problems_interval(values)
    return {"value": float(values.mean()), **interval._asdict(), "questions": len(values)}


def difference_estimate(values: Floats) -> Row:
    """Return the mean of paired differences in -1..1, one per question, with the t interval cut to -1..1.

    If fewer than 5 questions differ at all, it is that of the values with one -1 and one 1 added, so that a
    few equal questions do not look like certainty.
    """
    estimate = mean_estimate(values, bounds=(-1.0, 1.0))
    if np.count_nonzero(np.abs(values) > 1e-12) >= RARE:
        return estimate
    wider = mean_estimate(np.concatenate([values, [-1.0, 1.0]]), bounds=(-1.0, 1.0))
    low, high = min(wider["low"], estimate["value"]), max(wider["high"], estimate["value"])
    return {**estimate, "low": low, "high": high}


def mean_estimate(values: Floats, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Row:
    """Return the mean of values, one per question, with the 95% t interval cut to the bounds.

    The interval is for new questions, and None if there is only one.
    """
    from scipy.special import stdtrit

    number = len(values)
    mean = float(values.mean())
    if number == 1:
        return {"value": mean, "low": None, "high": None, "questions": 1}
    half = float(stdtrit(number - 1, 0.975) * values.std(ddof=1) / np.sqrt(number))
    low, high = max(mean - half, bounds[0]), min(mean + half, bounds[1])
    return {"value": mean, "low": low, "high": high, "questions": number}
