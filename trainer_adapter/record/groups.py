"""Joint groups of a training, counted: by step and kind, page by page, one over the training."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import InputError
from trainer_adapter.record.counting import SUMS

MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR = "mixed", "all right", "all wrong", "unclear"
KINDS = (MIXED, ALL_RIGHT, ALL_WRONG, UNCLEAR)
"""Of a joint group by correctness: right and wrong ones, right only, wrong only, or one of both with unknown.

If the reward is correctness, only mixed groups have a gradient. In unclear ones it depends on what unknown
grades count as, and the rewards of a group say whether they differ.
"""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StepGroups:
    """A step in numbers: its questions by kind of their joint group (see `KINDS`), its responses."""

    step: int
    reward: float  # mean of a response
    questions: int
    mixed: int
    all_right: int
    all_wrong: int
    unclear: int
    responses: int
    correct: int
    wrong: int
    unknown: int
    truncated: int
    timeouts: int
    tokens: int


@dataclass(frozen=True)
class RolloutGroup:
    """The responses to a question and its neighbors at a step."""

    step: int
    question_id: str
    kind: str
    responses: int
    prompts: int  # the original and its neighbors
    correct: int
    wrong: int
    unknown: int
    original_correct: int  # of the original's prompt alone
    original_wrong: int
    original_unknown: int
    truncated: int
    timeouts: int  # grades unknown because the grader ran out of time
    tokens: int
    reward_sum: float
    reward_least: float
    reward_most: float

    @property
    def reward(self) -> float:
        """Mean of a response."""
        return self.reward_sum / self.responses


@dataclass(frozen=True)
class GroupFilters:
    """Which groups to return; None and False do not restrict."""

    step: int | None = None  # one step
    kind: str | None = None  # mixed, all right, all wrong or unclear
    unknown: bool = False  # with responses of unknown grade
    timeouts: bool = False  # with grades that are unknown because the grader ran out of time
    truncated: bool = False  # with responses cut at the maximum length

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise InputError(f"{self.kind!r} is not a kind of group. Choose from {', '.join(KINDS)}.")


class TrainingCounts:
    """The counts of a training in memory, by prompt and by joint group; rows are in order of their keys.

    `prompts` has the columns of `counts.parquet` as arrays; ids and strategies are places in `texts`, -1 for
    null. `groups` has the same by joint group, and `prompts`, `original_...` and `kind` (place in `KINDS`).
    """

    def __init__(self, table: Any) -> None:
        self.texts: dict[str, list[str]] = {}
        self.prompts: dict[str, Array] = {}
        for name in ("step", "question_id", "variant", "neighbor_id", "strategy", *SUMS, *_BOUNDS):
            column = table.column(name)
            if name in ("question_id", "neighbor_id", "strategy"):
                coded = column.combine_chunks().dictionary_encode()
                self.texts[name] = coded.dictionary.to_pylist()
                column = coded.indices.fill_null(-1)
            self.prompts[name] = column.to_numpy()
        prompts, original = self.prompts, self.prompts["variant"] == 0
        step, question = prompts["step"], prompts["question_id"]
        is_first = np.ones(len(step), bool)
        is_first[1:] = (step[1:] != step[:-1]) | (question[1:] != question[:-1])
        self.group_of = np.cumsum(is_first) - 1
        starts = np.flatnonzero(is_first)
        sums = {name: prompts[name] for name in SUMS} | {
            f"original_{name}": prompts[name] * original for name in ("correct", "wrong", "unknown")
        }
        self.groups = groups = {name: np.add.reduceat(values, starts) for name, values in sums.items()}
        groups |= {name: prompts[name][starts] for name in ("step", "question_id")}
        groups["prompts"] = np.diff(starts, append=len(original))
        for name, bound in _BOUNDS.items():
            groups[name] = bound.reduceat(prompts[name], starts)
        right, wrong = groups["correct"] > 0, groups["wrong"] > 0
        groups["kind"] = np.select([right & wrong, groups["unknown"] > 0, right], [0, 3, 1], 2)

    def text(self, column: str, prompt: int) -> str | None:
        """Return the text of a prompt's neighbor id or strategy, by the prompt's place."""
        number = int(self.prompts[column][prompt])
        return None if number < 0 else self.texts[column][number]

    def page_steps(self, filters: GroupFilters = GroupFilters()) -> list[StepGroups]:
        """Return the steps with groups that match the filters, counted over these groups."""
        matching = self._matching(filters)
        steps, place = np.unique(self.groups["step"][matching], return_inverse=True)

        def summed(values: Array) -> list[float]:
            sums: list[float] = np.bincount(place, values, len(steps)).tolist()
            return sums

        kinds = self.groups["kind"][matching]
        columns = {"questions": summed(np.ones(len(place)))}
        columns |= {kind.replace(" ", "_"): summed(kinds == number) for number, kind in enumerate(KINDS)}
        columns |= {name: summed(self.groups[name][matching]) for name in _OF_STEP}
        rewards = columns.pop("reward_sum")
        return [
            StepGroups(
                step=step,
                **{name: int(values[row]) for name, values in columns.items()},
                reward=rewards[row] / columns["responses"][row],
            )
            for row, step in enumerate(steps.tolist())
        ]

    def page_groups(
        self,
        filters: GroupFilters = GroupFilters(),
        *,
        after: tuple[int, str] | None = None,
        before: tuple[int, str] | None = None,
        limit: int = 25,
    ) -> list[RolloutGroup]:
        """Return up to `limit` groups by step and question, after the key `after` or before `before`."""
        places = np.flatnonzero(self._matching(filters))
        if before is not None:
            places = places[places < self._place(before, bisect_left)][-limit:]
        elif after is not None:
            places = places[places >= self._place(after, bisect_right)]
        return self._groups(places[:limit])

    def question_history(self, question_id: str) -> list[RolloutGroup]:
        """Return a question's groups over the training."""
        ids = self.texts["question_id"]
        number = ids.index(question_id) if question_id in ids else -1
        return self._groups(np.flatnonzero(self.groups["question_id"] == number))

    def drawn_by_step(self) -> list[tuple[int, int, int]]:
        """Return each recorded step with the responses and tokens that were drawn until its end."""
        steps = self.page_steps()
        responses = accumulate(step.responses for step in steps)
        tokens = accumulate(step.tokens for step in steps)
        return list(zip([step.step for step in steps], responses, tokens, strict=True))

    def _place(self, key: tuple[int, str], bisect: Any) -> int:
        """Return the first place of a group after the key (`bisect_right`), or from it on (`bisect_left`)."""
        step, question_id = key
        low, high = (int(np.searchsorted(self.groups["step"], step, side)) for side in ("left", "right"))
        ids = self.texts["question_id"]
        return low + int(
            bisect([ids[number] for number in self.groups["question_id"][low:high]], question_id)
        )

    def _groups(self, places: Array) -> list[RolloutGroup]:
        columns = {field.name: self.groups[field.name][places].tolist() for field in fields(RolloutGroup)}
        columns["question_id"] = [self.texts["question_id"][number] for number in columns["question_id"]]
        columns["kind"] = [KINDS[number] for number in columns["kind"]]
        return [
            RolloutGroup(**dict(zip(columns, values, strict=True)))
            for values in zip(*columns.values(), strict=True)
        ]

    def _matching(self, filters: GroupFilters) -> Array:
        groups = self.groups
        matching: Array = np.ones(len(groups["step"]), bool)
        if filters.step is not None:
            matching &= groups["step"] == filters.step
        if filters.kind is not None:
            matching &= groups["kind"] == KINDS.index(filters.kind)
        for name in ("unknown", "timeouts", "truncated"):
            if getattr(filters, name):
                matching &= groups[name] > 0
        return matching


_BOUNDS = {"reward_least": np.minimum, "reward_most": np.maximum}
_OF_STEP = ("responses", "correct", "wrong", "unknown", "truncated", "timeouts", "tokens", "reward_sum")
