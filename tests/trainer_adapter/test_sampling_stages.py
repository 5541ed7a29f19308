"""Two stages of sampling: who asks which prompt, and that a failure keeps nobody waiting."""

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

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


def prompts(sampler: Sampler, asked: list[int], seed: int | None = 1) -> list[Any]:
    """Return what each session gets, in the order of `asked`: a response's session, a prompt, an error."""

    async def run(session: int, name: str) -> Any:
        stages = stages_of(name, 1, lambda: Stages(ROLLOUTS, NEIGHBORS, seed, sampler.draw, sampler.grade))
        if stages.is_first(session):
            return (await stages.response(session)).session
        return await stages.prompt(session)

    async def row() -> list[Any]:
        name = f"row {random.random()}"
        return await asyncio.gather(*(run(session, name) for session in asked), return_exceptions=True)

    return asyncio.run(asyncio.wait_for(row(), 10))


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_where_one_is_right_the_others_are_the_questions_too(order: int) -> None:
    sampler = Sampler(right=(2,))
    assert prompts(sampler, list(range(ROLLOUTS))[::order]) == ([0, 1, 2, 3] + [0] * 4)[::order]
    assert (sorted(sampler.drawn), sampler.graded) == ([0, 1, 2, 3], 1)


@pytest.mark.parametrize("seed", range(4))
def test_where_all_are_wrong_each_neighbor_is_asked_and_one_of_them_twice(seed: int) -> None:
    asked = prompts(Sampler(), list(range(ROLLOUTS)), seed)[4:]
    assert sorted(Counter(asked).values()) == [1, 1, 2]
    assert set(asked) == {1, 2, 3}
    assert asked == prompts(Sampler(), list(range(ROLLOUTS)), seed)[4:]


def test_a_response_that_fails_fails_alone() -> None:
    first, second, *rest = prompts(Sampler(right=(0,), failing=(1,)), list(range(ROLLOUTS)))
    assert (first, str(second), rest) == (0, "session 1 failed", [2, 3, 0, 0, 0, 0])


def test_without_grades_the_neighbors_are_asked_and_the_responses_kept() -> None:
    got = prompts(Sampler(right=(0, 1, 2, 3), ungraded=True), list(range(ROLLOUTS)))
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
