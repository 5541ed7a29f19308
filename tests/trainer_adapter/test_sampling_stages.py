"""Two stages of sampling: a failure keeps nobody waiting."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from trainer_adapter.verl.plugin.sessions import Stages, stages_of

ROLLOUTS, NEIGHBORS = 8, 3


class Sampler:
    """Draws responses whose text is their session; grades those in `right` as right."""

    def __init__(
        self, right: tuple[int, ...] = (), failing: tuple[int, ...] = (), ungraded: bool = False
    ) -> None:
        self.right, self.failing, self.ungraded = right, failing, ungraded
        self.drawn: list[int] = []
        self.graded = 0

    async def draw(self, session: int) -> Any:
        self.drawn.append(session)
        await asyncio.sleep(0)
        if session in self.failing:
            raise RuntimeError(f"session {session} failed")
        return SimpleNamespace(session=session, reward_score=None, extra_fields={})

    async def grade(self, outputs: list[Any]) -> None:
        self.graded += 1
        await asyncio.sleep(0)
        if self.ungraded:
            raise RuntimeError("no reward worker")
        for output in outputs:
            output.extra_fields["reward_extra_info"] = {"acc": float(output.session in self.right)}


def prompts(sampler: Sampler) -> list[Any]:
    """Return what each session gets: a response's session, a prompt, an error."""

    async def run(session: int, name: str) -> Any:
        stages = stages_of(name, 1, lambda: Stages(ROLLOUTS, NEIGHBORS, 1, sampler.draw, sampler.grade))
        if stages.is_first(session):
            return (await stages.response(session)).session
        return await stages.prompt(session)

    async def row() -> list[Any]:
        name = f"row {random.random()}"
        return await asyncio.gather(
            *(run(session, name) for session in range(ROLLOUTS)), return_exceptions=True
        )

    return asyncio.run(asyncio.wait_for(row(), 10))


def test_a_response_that_fails_fails_alone() -> None:
    first, second, *rest = prompts(Sampler(right=(0,), failing=(1,)))
    assert (first, str(second), rest) == (0, "session 1 failed", [2, 3, 0, 0, 0, 0])


def test_without_grades_the_neighbors_are_asked_and_the_responses_kept() -> None:
    got = prompts(Sampler(right=(0, 1, 2, 3), ungraded=True))
    assert (got[:4], set(got[4:])) == ([0, 1, 2, 3], {1, 2, 3})


def test_a_cancelled_session_leaves_the_stage_to_the_others() -> None:
    async def row() -> Any:
        sampler = Sampler(right=(0,))
        stages = Stages(ROLLOUTS, NEIGHBORS, 1, sampler.draw, sampler.grade)
        first = asyncio.create_task(stages.response(0))
        await asyncio.sleep(0)
        first.cancel()
        return await stages.prompt(5)

    assert asyncio.run(asyncio.wait_for(row(), 10)) == 0
