"""All-wrong questions that neighbors rescued, in a training that samples in stages (`sampling=rescue`).

Half of a question's responses are drawn for the question itself. If none of them is right, the others go to
its neighbors. If a neighbor's response is right, the group has a gradient again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluator.reports.document import percent
from service.errors import InputError
from trainer_adapter.record.groups import Array, TrainingCounts

RESCUED, NEVER = "rescued", "never rescued"
OUTCOMES = (RESCUED, NEVER)
"""Of a question that was dead at least once: a neighbor's response was right at some step, or at none."""


@dataclass(frozen=True)
class RescueTotals:
    """What the stages of a training did, over all steps."""

    groups: int  # questions, each counted at every step it is in
    dead: int  # those without a right response to the question itself
    asked: int  # those of them whose neighbors were asked
    revived: int  # those of these to which a neighbor's response is right
    first: int  # responses of the first stage, all to questions
    more: int  # responses of the second stage to questions that had a right one
    to_neighbors: int  # responses of the second stage to neighbors
    weighed: int  # wrong responses of neighbors that the anchor weighs (`tapered`), in groups with a gradient
    # their mean weight, min(1, pi_old(o | question) / pi(o | neighbor)); None where none is known
    weight: float | None
    effective: float | None  # their effective share, (sum w)^2 / (n sum w^2)

    @property
    def dead_share(self) -> float | None:
        return self.dead / self.groups if self.groups else None

    @property
    def revived_share(self) -> float | None:
        """Of the dead questions whose neighbors were asked."""
        return self.revived / self.asked if self.asked else None

    def sentences(self) -> list[str]:
        """Return sentences about groups, responses by stage, and weights."""
        dead = f"{self.dead:,} of {self.groups:,} groups were all wrong at first ({percent(self.dead_share)})"
        revived = f"neighbors were sampled for {self.asked:,} groups and rescued {self.revived:,}"
        first = f"responses: {self.first:,} in the first stage; in the second, {self.more:,} to questions"
        lines = [
            f"{dead}; {revived} ({percent(self.revived_share)})",
            f"{first}, {self.to_neighbors:,} to neighbors",
        ]
        if self.weight is not None:
            wrong = f"{self.weighed:,} wrong responses to neighbors have mean weight {self.weight:.3f}"
            lines.append(f"{wrong} (effective share {percent(self.effective)})")
        return lines


@dataclass(frozen=True)
class Rescuer:
    """A neighbor that a dead question's second stage was drawn for: its responses, and the right ones."""

    variant: int
    neighbor_id: str | None
    strategy: str | None
    right: int
    drawn: int


@dataclass(frozen=True)
class RescuedQuestion:
    """A question that was dead at some step."""

    question_id: str
    visits: int  # steps with the question
    dead: int  # visits without a correct response to the question itself
    revived: int  # of these, visits at which a neighbor had one
    last_step: int  # the last at which it was dead
    neighbors: tuple[Rescuer, ...]

    @property
    def outcome(self) -> str:
        return RESCUED if self.revived else NEVER

    def in_words(self) -> str:
        """Return the right responses of each neighbor, those first that had any."""
        order = sorted(self.neighbors, key=lambda neighbor: (-neighbor.right, neighbor.variant))
        return ", ".join(
            f"{neighbor.strategy or f'neighbor {neighbor.variant}'} {neighbor.right}/{neighbor.drawn}"
            for neighbor in order
        )


def samples_in_stages(spec: Mapping[str, Any]) -> bool:
    """Say whether a training's recipe asks neighbors only where a question needs them."""
    recipe = spec.get("recipe")
    return isinstance(recipe, dict) and recipe.get("sampling") == "rescue"


def rescue_totals(counts: TrainingCounts, spec: Mapping[str, Any]) -> RescueTotals:
    """Return what the stages of a training with these settings did."""
    _check_stages(spec)
    groups = counts.groups
    dead, asked, revived = _outcomes(counts)
    original = sum(groups[f"original_{grade}"] for grade in ("correct", "wrong", "unknown"))
    responses, to_neighbors = int(groups["responses"].sum()), int((groups["responses"] - original).sum())
    first = int((groups["responses"] // 2).sum())
    tapered = spec["recipe"].get("anchor") == "tapered"
    weighed, weight, squares = (
        float(counts.prompts[name].sum()) if tapered else 0.0 for name in ("weighed", "weight", "squares")
    )
    return RescueTotals(
        groups=len(dead),
        dead=int(dead.sum()),
        asked=int(asked.sum()),
        revived=int(revived.sum()),
        first=first,
        more=responses - to_neighbors - first,
        to_neighbors=to_neighbors,
        weighed=int(weighed),
        weight=weight / weighed if weighed else None,
        effective=weight**2 / (weighed * squares) if squares else None,
    )


def page_rescues(
    counts: TrainingCounts,
    spec: Mapping[str, Any],
    *,
    outcome: str | None = None,
    after: str | None = None,
    limit: int = 25,
) -> list[RescuedQuestion]:
    """Return up to `limit` questions that were dead and had their neighbors asked, most often dead first."""
    _check_stages(spec)
    if outcome is not None and outcome not in OUTCOMES:
        raise InputError(f"{outcome!r} is not an outcome. Choose {' or '.join(OUTCOMES)}.")
    _, asked, is_revived = _outcomes(counts)
    ids, question = counts.texts["question_id"], counts.groups["question_id"]
    visits, dead, revived = (
        np.bincount(question[which], minlength=len(ids)) for which in (slice(None), asked, is_revived)
    )
    matching = dead > 0
    if outcome is not None:
        matching &= (revived > 0) == (outcome == RESCUED)
    order = sorted(np.flatnonzero(matching).tolist(), key=lambda number: (-dead[number], ids[number]))
    if after is not None:
        listed = [ids[number] for number in order]
        order = order[listed.index(after) + 1 if after in listed else 0 :]
    return [
        RescuedQuestion(
            ids[number],
            visits=int(visits[number]),
            dead=int(dead[number]),
            revived=int(revived[number]),
            last_step=int(counts.groups["step"][asked & (question == number)].max()),
            neighbors=_rescuers(counts, number),
        )
        for number in order[:limit]
    ]


def _check_stages(spec: Mapping[str, Any]) -> None:
    if not samples_in_stages(spec):
        raise InputError(
            "this training run samples neighbors for every question or for none. Only recipes with "
            "sampling=rescue, such as ta_rescue, have rescues."
        )


def _outcomes(counts: TrainingCounts) -> tuple[Array, Array, Array]:
    """Return which groups are dead, which of these had neighbors asked, and which of those were revived."""
    groups = counts.groups
    dead = groups["original_correct"] == 0
    asked = dead & (groups["prompts"] > 1)
    return dead, asked, asked & (groups["correct"] > 0)


def _rescuers(counts: TrainingCounts, question: int) -> tuple[Rescuer, ...]:
    prompts = counts.prompts
    of_question = (prompts["question_id"] == question) & (prompts["variant"] > 0)
    rescuers = []
    for variant in np.unique(prompts["variant"][of_question]).tolist():
        rows = np.flatnonzero(of_question & (prompts["variant"] == variant))
        right, drawn = (int(prompts[name][rows].sum()) for name in ("correct", "responses"))
        neighbor_id, strategy = (counts.text(name, int(rows[-1])) for name in ("neighbor_id", "strategy"))
        rescuers.append(Rescuer(variant, neighbor_id, strategy, right, drawn))
    return tuple(rescuers)
