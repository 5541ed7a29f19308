"""What a run will ask and cost, before anything is sent: from texts, or scaled from a run that is done."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Integer, cast, func, select
from sqlalchemy.orm import Session

from service.asks.money import Price, cost_pico
from service.asks.tables import AskRow
from service.runs.spending import read_ledger
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD

CHARACTERS_PER_TOKEN = np.array([4.0, 3.0])  # of English with formulas; fewer where a text has many of these
IMAGE_TOKENS = np.array([64.0, 16_384.0])  # of an image: from the fewest to Qwen 2.5 VL's most
SHORT_ANSWER = 200  # tokens; nothing but max_tokens is known of the longest

Range = tuple[float, float]
Between = NDArray[np.float64]
"""The least and the most that is expected, to calculate with."""
PriceOf = Callable[[str], Price | None]
"""Returns the price of a model in force (half in batch jobs), None where it is not known."""


@dataclass(frozen=True)
class Stage:
    """One kind of request to one model: the least and the most of each that is expected."""

    kind: str
    model: str
    requests: Range
    prompt_tokens: Range
    completion_tokens: Range
    usd: Range | None  # None: the price is not known


@dataclass(frozen=True)
class Estimate:
    """What a run over `questions` is expected to take. `trial` names the run that it is scaled from, if any.

    `hours` are known from a trial only, at its pace.
    """

    questions: int
    stages: tuple[Stage, ...]
    trial: str | None = None
    trial_questions: int | None = None
    hours: Range | None = None
    images: int = 0  # of the questions; of each it is not known how many tokens it takes

    @property
    def usd(self) -> Range | None:
        """The money of all stages; None where a price is not known."""
        known = [stage.usd for stage in self.stages if stage.usd is not None]
        if len(known) < len(self.stages):
            return None
        return sum(usd[0] for usd in known), sum(usd[1] for usd in known)

    def to_json(self) -> dict[str, Any]:
        """Return the same for `--json`."""
        return {**asdict(self), "usd": self.usd}


def scaled(
    session: Session, trial: Run, count: int, questions: int, scale: float, *, spread: float = 1.0
) -> Estimate:
    """Return `scale` times what a trial of `count` questions took, give or take 2/sqrt(count).

    What questions cost varies about as much as it is. `spread` widens the range both ways once more, where
    the trial was of other questions.
    """
    error = min(0.9, 2 / math.sqrt(count))
    scales = scale * np.array([(1 - error) / spread, (1 + error) * spread])
    stages = tuple(
        Stage(
            line.kind,
            line.model,
            _range(line.requests * scales),
            _range(line.prompt_tokens * scales),
            _range(line.completion_tokens * scales),
            None if line.unpriced else _range(line.usd * scales),
        )
        for line in read_ledger(session, trial.id)
    )
    minute = cast(AskRow.ended_at / 60, Integer)
    minutes = session.scalar(select(func.count(minute.distinct())).where(AskRow.run_id == trial.id)) or 0
    return Estimate(questions, stages, trial.name, count, _range(minutes / 60 * scales))


def priced(
    kind: str, model: str, requests: Between, prompts: Between, completions: Between, price_of: PriceOf
) -> Stage:
    """Return a stage with its money, as far as the price is known."""
    price = price_of(model)
    usd = None
    if price is not None:
        pairs = zip(prompts, completions, strict=True)
        usd = _range([(cost_pico(price, round(p), round(c)) or 0) / PICO_PER_USD for p, c in pairs])
    return Stage(kind, model, _range(requests), _range(prompts), _range(completions), usd)


def between(low: float, high: float) -> Between:
    """Return a range to calculate with."""
    return np.array([low, high], float)


def tokens(characters: int) -> Between:
    """Return how many tokens a text of so many characters has."""
    return characters / CHARACTERS_PER_TOKEN


def _range(ends: Iterable[float]) -> Range:
    low, high = map(float, ends)
    return low, high
