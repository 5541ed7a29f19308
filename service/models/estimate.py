"""What a run will ask and cost, before anything is sent: from texts, or scaled from a run that is done."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Integer, cast, func, select
from sqlalchemy.orm import Session

from service.asks.batch import BATCH_PRICE
from service.asks.money import Price, find_price
from service.asks.tables import AskRow
from service.models.access import Model
from service.runs.progress import read_ledger
from service.runs.store import Run

CHARACTERS_PER_TOKEN = np.array([4.0, 3.0])  # of English with formulas; fewer where a text has many of these
IMAGE_TOKENS = np.array([64.0, 16_384.0])  # of an image: from the fewest to Qwen 2.5 VL's most
SHORT_ANSWER = 200  # tokens; nothing but max_tokens is known of the longest

Between = NDArray[np.float64]
"""The least and the most that is expected, to calculate with."""


@dataclass(frozen=True)
class Estimate:
    """What a run over `questions` is expected to take. `trial` names the run that it is scaled from, if any.

    Each stage is of one kind of request to one model, with the least and the most of each number that is
    expected; its `usd` is None if the price is not known. `hours` are known from a trial only, at its pace.
    """

    questions: int
    stages: list[dict[str, Any]]
    trial: str | None = None
    trial_questions: int | None = None
    hours: list[float] | None = None
    images: int = 0  # of the questions; of each it is not known how many tokens it takes

    @property
    def usd(self) -> list[float] | None:
        """The money of all stages; None where a price is not known."""
        known = [stage["usd"] for stage in self.stages if stage["usd"] is not None]
        if len(known) < len(self.stages):
            return None
        return [sum(usd[0] for usd in known), sum(usd[1] for usd in known)]

    def to_json(self) -> dict[str, Any]:
        """Return the same for `--json`."""
        return {**vars(self), "usd": self.usd}


def scaled(session: Session, trial: Run, count: int, questions: int, scale: float) -> Estimate:
    """Return `scale` times what a trial of `count` questions took, give or take 2/sqrt(count).

    What questions cost varies about as much as it is.
    """
    error = min(0.9, 2 / math.sqrt(count))
    scales = scale * between(1 - error, 1 + error)
    stages = []
    for line in read_ledger(session, trial.id):
        usd = None if line.unpriced else line.usd * scales
        numbers = (line.requests, line.prompt_tokens, line.completion_tokens)
        stages.append(_stage(line.kind, line.model, usd, *(number * scales for number in numbers)))
    minute = cast(AskRow.ended_at / 60, Integer)
    minutes = session.scalar(select(func.count(minute.distinct())).where(AskRow.run_id == trial.id)) or 0
    return Estimate(questions, stages, trial.name, count, (minutes / 60 * scales).tolist())


def priced(
    kind: str, model: Model, requests: Between | float, prompts: Between, completions: Between
) -> dict[str, Any]:
    """Return a stage with its money, if the price is known: half in batch jobs, 0 on this machine."""
    price = find_price(model.model, model.price) if model.sampler == "remote" else Price(0.0, 0.0)
    usd = None
    if price is not None:
        share = BATCH_PRICE if model.has_batch_jobs else 1.0
        usd = share * (price.prompt * prompts + price.completion * completions) / 1e6
    return _stage(kind, model.model, usd, requests, prompts, completions)


def _stage(kind: str, model: str, usd: Between | None, *numbers: Between | float) -> dict[str, Any]:
    names = ("requests", "prompt_tokens", "completion_tokens")
    ranges = {
        name: np.full(2, each, float).round().tolist() for name, each in zip(names, numbers, strict=True)
    }
    return {"kind": kind, "model": model, **ranges, "usd": None if usd is None else usd.tolist()}


def between(low: float, high: float) -> Between:
    """Return a range to calculate with."""
    return np.array([low, high], float)


def tokens(characters: int) -> Between:
    """Return how many tokens a text of so many characters has."""
    return characters / CHARACTERS_PER_TOKEN
