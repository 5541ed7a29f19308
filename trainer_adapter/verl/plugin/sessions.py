"""Prompt and seed of each response of a row.

verl requests the responses of a row by session, each separately. If a second stage depends on the first, the
sessions of a row, which run in one process, share its `Stages`.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from trainer_adapter.verl.plugin.overrides import CORRECTNESS

_LOG = logging.getLogger("tagrpo.agent_loop")

Draw: TypeAlias = Callable[[int], Awaitable[Any]]
"""Draws the response of a session for the question's own prompt."""

Grade: TypeAlias = Callable[[list[Any]], Awaitable[Any]]
"""Writes rewards into responses."""


def prompt_of(session: int, prompts: int, rollouts: int) -> int:
    """Return the prompt of a question's response: 0 for the question, k for its k-th neighbor.

    Responses are split evenly over the prompts, and the question gets the remainder: with 32 responses, four
    prompts have 8 each, three have 12, 10 and 10.
    """
    if not 0 <= session < rollouts:
        raise ValueError(f"session is {session}, but must be 0 to {rollouts - 1}")
    share, rest = divmod(rollouts, prompts)
    return 0 if session < share + rest else 1 + (session - share - rest) // share


def seed_of(base: int, step: int, question_id: str, draw: int, session: int) -> int:
    """Return the sampler's seed of a response, 31 bits; the same in every run with the same `base`."""
    text = "\0".join(map(str, (base, step, question_id, draw, session)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


class Stages:
    """Two stages of a question: half of its responses for itself, then the others for its neighbors.

    The first session starts the whole first stage, so that a failing session does not block the others.
    """

    def __init__(self, rollouts: int, neighbors: int, seed: int | None, draw: Draw, grade: Grade) -> None:
        self._half = rollouts // 2
        self._order = random.Random(seed).sample(range(1, neighbors + 1), neighbors)
        self._drawn = asyncio.create_task(self._first_stage(draw, grade))

    def is_first(self, session: int) -> bool:
        """Return whether a session belongs to the first stage."""
        return session < self._half

    async def response(self, session: int) -> Any:
        """Return a response of the first stage."""
        outcome = (await asyncio.shield(self._drawn))[session]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def prompt(self, session: int) -> int:
        """Return the prompt of a session of the second stage: 0 for the question, k for its k-th neighbor.

        It is the question if a response of the first stage is correct, otherwise its neighbors in turn.
        """
        outcomes = await asyncio.shield(self._drawn)
        if any(not isinstance(each, BaseException) and _is_right(each) for each in outcomes):
            return 0
        return self._order[(session - self._half) % len(self._order)]

    async def _first_stage(self, draw: Draw, grade: Grade) -> list[Any]:
        outcomes = await asyncio.gather(*map(draw, range(self._half)), return_exceptions=True)
        outputs = [each for each in outcomes if not isinstance(each, BaseException)]
        if outputs:
            try:
                await grade(outputs)
            except Exception:  # they are graded again with the others, which reports a failure
                _LOG.exception("grading the first stage of a question failed, so its neighbors are sampled")
        return outcomes


_stages: dict[str, tuple[int, Stages]] = {}
"""Stages of the questions that this process draws for now, by verl's name of the row, with their step."""


def stages_of(uid: str, step: int, begin: Callable[[], Stages]) -> Stages:
    """Return the stages of a row, started by the first caller; those of earlier steps are dropped."""
    if uid not in _stages:
        for stale in [name for name, (of_step, _) in _stages.items() if of_step < step]:
            del _stages[stale]
        _stages[uid] = step, begin()
    return _stages[uid][1]


def _is_right(output: Any) -> bool:
    graded = output.extra_fields.get("reward_extra_info") or {}
    return float(graded.get(CORRECTNESS, output.reward_score or 0.0)) > 0
