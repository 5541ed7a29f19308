"""The agent loop: which prompt a response is drawn for, its anchor, and the two stages of sampling."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from service.errors import InputError
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.verl.plugin.sessions import Stages, stages_of
from trainer_adapter.verl.plugin.settings import RunSettings
from trainer_adapter.verl.reward import CUT_OFF_FIELD

QUESTION = [{"role": "user", "content": "1+1"}]
NEIGHBORS = [[{"role": "user", "content": "Add 1 to 1."}], [{"role": "user", "content": "Twice 1?"}]]
ROW: dict[str, Any] = {
    "uid": "u",
    "raw_prompt": QUESTION,
    "extra_info": {"question_id": "q", "neighbor_strategies": ["rules", "words"]},
    "neighbors": NEIGHBORS,
    "neighbor_ids": ["c0", "c1"],
    "global_steps": 3,
    "tagrpo_draw": 0,
}
ROOM = 4
PROMPTS = {"1+1": [1, 2], "Add 1 to 1.": [1, 3, 4], "Twice 1?": [1, 5]}


class Loop:
    """What a loop of verl's is made of, with an engine that answers any prompt with `answer`."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, recipe: str, end: str = "", answer: tuple[int, ...] = (7, 2)
    ) -> None:
        from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
        from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

        from trainer_adapter.verl.plugin.agent_loop import NeighborAgentLoop

        self.asked: list[str] = []
        self.params: list[dict[str, Any]] = []

        async def run(_: Any, params: dict[str, Any], priority: int, **row: Any) -> Any:
            self.asked.append(row["raw_prompt"][0]["content"])
            self.params.append(params)
            return AgentLoopOutput(
                prompt_ids=PROMPTS[self.asked[-1]],
                response_ids=list(answer),
                response_mask=[1] * len(answer),
                response_logprobs=[-0.5] * len(answer),
                num_turns=2,
                metrics={},
                extra_fields={"global_steps": 2},
            )

        async def build(messages: Any, images: Any = None) -> list[int]:
            assert images is None
            return PROMPTS[messages[0]["content"]]

        monkeypatch.setattr(SingleTurnAgentLoop, "run", run)
        loop = NeighborAgentLoop.__new__(NeighborAgentLoop)
        loop.recipe, loop.settings = RECIPES[recipe], RunSettings(seed=7)
        loop.never_drawn, loop.response_length = frozenset({9}), ROOM
        rollout = SimpleNamespace(name="vllm")
        loop.config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
        loop.tokenizer = SimpleNamespace(decode=lambda ids: f"a prompt of {len(ids)}{end}")
        loop.ct_build_initial_tokens = build
        self.loop = loop

    def draw(self, session: int | None, **changes: Any) -> Any:
        """Return the response of a session to `ROW`; a column changed to None is left out."""
        row = ROW | changes | {"session_id": session}
        given = {name: value for name, value in row.items() if value is not None}
        return asyncio.run(self.loop.run({"temperature": 1.0}, **given))


def test_neighbors_are_asked_and_their_responses_anchored_to_the_question(monkeypatch):
    loop = Loop(monkeypatch, "ta_grpo")
    outputs = [loop.draw(session) for session in (0, 15, 31)]
    assert loop.asked == ["1+1", "Add 1 to 1.", "Twice 1?"]
    assert [output.prompt_ids for output in outputs] == [PROMPTS["1+1"]] * 3
    about = [output.extra_fields["tagrpo"] for output in outputs]
    assert [each["prompt_ids"].tolist() for each in about] == list(PROMPTS.values())
    assert [each["foreign"] for each in about] == [False, True, True]
    assert [each["neighbor_id"] for each in about] == [None, "c0", "c1"]
    assert [each["strategy"] for each in about] == [None, "rules", "words"]
    assert {each["weights_version"] for each in about} == {2}
    # verl would compare them with those of the anchor; the plug-in keeps them for itself.
    assert {output.response_logprobs for output in outputs} == {None}
    assert [each["log_probs"].tolist() for each in about] == [[-0.5, -0.5]] * 3
    assert len({params["seed"] for params in loop.params}) == 3
    assert all(params["logprobs"] and list(params["logit_bias"]) == [9] for params in loop.params)


def test_data_without_neighbors_is_refused(monkeypatch):
    with pytest.raises(InputError, match=r"ta_grpo needs 3 neighbors per question, but .* no column"):
        Loop(monkeypatch, "ta_grpo").draw(0, neighbors=None)
    assert Loop(monkeypatch, "grpo").draw(0, neighbors=None).extra_fields["tagrpo"]["variant"] == 0


def test_own_prompts_keep_their_prompts_and_log_probs(monkeypatch):
    output = Loop(monkeypatch, "ta_grpo_v1").draw(31)
    assert output.prompt_ids == PROMPTS["Twice 1?"]
    assert output.response_logprobs == [-0.5, -0.5]
    assert not output.extra_fields["tagrpo"]["foreign"]


@pytest.mark.parametrize("draw", [0, None])
def test_what_ends_at_the_limit_may_have_ended_in_a_thought_that_its_prompt_opened(monkeypatch, draw):
    full = tuple(range(ROOM))
    opened = Loop(monkeypatch, "grpo", "<think>\n", full).draw(0, tagrpo_draw=draw, neighbors=None)
    assert opened.extra_fields[CUT_OFF_FIELD] is True
    plain = Loop(monkeypatch, "grpo", "<think></think>\n", full).draw(0, tagrpo_draw=draw, neighbors=None)
    assert plain.extra_fields[CUT_OFF_FIELD] is False
    ended = Loop(monkeypatch, "grpo", "<think>\n").draw(0, tagrpo_draw=draw, neighbors=None)
    assert CUT_OFF_FIELD not in ended.extra_fields


def test_with_verls_own_trainer_the_exports_split_names_rows_for_training(monkeypatch):
    loop = Loop(monkeypatch, "ta_grpo")
    loop.loop.settings = RunSettings(trainer="verl", seed=7)
    about = {**ROW["extra_info"], "split": "validation"}
    without = {"tagrpo_draw": None, "global_steps": None}
    assert "tagrpo" not in loop.draw(31, extra_info=about, **without).extra_fields
    trained = {"extra_info": {**about, "split": "train"}, **without}
    # verl's V0 trainer numbers no responses, so that the loop counts those of a question.
    outputs = [loop.draw(None, uid=uid, **trained) for uid in ["a"] * 32 + ["b"] * 20 + ["a"]]
    variants = [output.extra_fields["tagrpo"]["variant"] for output in outputs]
    assert variants == [*[0] * 12, *[1] * 10, *[2] * 10, *[0] * 12, *[1] * 8, 0]
    assert [output.prompt_ids for output in outputs] == [PROMPTS["1+1"]] * len(outputs)
    assert not any("seed" in params for params in loop.params)


ROLLOUTS, NEIGHBOR_COUNT = 8, 3


class Sampler:
    """Draws responses whose text is their session; grades those in `right` as right."""

    def __init__(
        self, right: tuple[int, ...] = (), failing: tuple[int, ...] = (), ungraded: bool = False
    ) -> None:
        self.right, self.failing, self.ungraded = right, failing, ungraded

    async def draw(self, session: int) -> Any:
        await asyncio.sleep(0)
        if session in self.failing:
            raise RuntimeError(f"session {session} failed")
        return SimpleNamespace(session=session, reward_score=None, extra_fields={})

    async def grade(self, outputs: list[Any]) -> None:
        await asyncio.sleep(0)
        if self.ungraded:
            raise RuntimeError("no reward worker")
        for output in outputs:
            output.extra_fields["reward_extra_info"] = {"acc": float(output.session in self.right)}


def prompts(sampler: Sampler) -> list[Any]:
    """Return what each session gets: a response's session, a prompt, an error."""

    async def run(session: int, name: str) -> Any:
        stages = stages_of(name, 1, lambda: Stages(ROLLOUTS, NEIGHBOR_COUNT, 1, sampler.draw, sampler.grade))
        if stages.is_first(session):
            return (await stages.response(session)).session
        return await stages.prompt(session)

    async def row() -> list[Any]:
        name = f"row {random.random()}"
        sessions = (run(session, name) for session in range(ROLLOUTS))
        return await asyncio.gather(*sessions, return_exceptions=True)

    return asyncio.run(asyncio.wait_for(row(), 10))


def test_a_response_that_fails_fails_alone():
    first, second, *rest = prompts(Sampler(right=(0,), failing=(1,)))
    assert (first, str(second), rest) == (0, "session 1 failed", [2, 3, 0, 0, 0, 0])


def test_without_grades_the_neighbors_are_asked_and_the_responses_kept():
    got = prompts(Sampler(right=(0, 1, 2, 3), ungraded=True))
    assert (got[:4], set(got[4:])) == ([0, 1, 2, 3], {1, 2, 3})


def test_a_cancelled_session_leaves_the_stage_to_the_others():
    async def row() -> Any:
        sampler = Sampler(right=(0,))
        stages = Stages(ROLLOUTS, NEIGHBOR_COUNT, 1, sampler.draw, sampler.grade)
        first = asyncio.create_task(stages.response(0))
        await asyncio.sleep(0)
        first.cancel()
        return await stages.prompt(5)

    assert asyncio.run(asyncio.wait_for(row(), 10)) == 0
