"""The server of the CPU rollout, asked as verl's agent loops ask it, without Ray."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import save_tiny_model

PROMPTS = [[5, 6, 7], [40], [70, 71, 72, 73]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def weights(folder: Path) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict())


def make_server(folder: Path, dtype: str = "float32") -> Any:
    from trainer_adapter.verl.cpu.rollout import ResponseServer

    return ResponseServer(str(folder), 6, 0, dtype)


async def ask(server: Any, prompt: list[int], **params: Any) -> Any:
    return await server.generate(
        "request", prompt_ids=prompt, sampling_params={"temperature": 1.0, "logprobs": True, **params}
    )


def test_responses_come_back_to_those_who_asked(folder: Path) -> None:
    async def together() -> list[Any]:
        server = make_server(folder)
        await server.load(weights(folder), 3)
        first = [asyncio.create_task(ask(server, prompt, seed=n)) for n, prompt in enumerate(PROMPTS)]
        await asyncio.sleep(0.05)
        late = await ask(server, PROMPTS[0], seed=0)
        return [*await asyncio.gather(*first), late]

    async def alone() -> list[Any]:
        server = make_server(folder)
        await server.load(weights(folder), 3)
        return [await ask(server, prompt, seed=n) for n, prompt in enumerate(PROMPTS)]

    *answers, late = asyncio.run(together())
    for answer, expected in zip(answers, asyncio.run(alone()), strict=True):
        assert answer.token_ids == expected.token_ids
        assert answer.log_probs == pytest.approx(expected.log_probs, abs=1e-5)
        assert answer.extra_fields["global_steps"] == 3
        assert answer.stop_reason in ("completed", "length")
    assert late.token_ids == answers[0].token_ids


def test_log_probs_are_given_only_where_asked_for(folder: Path) -> None:
    async def without() -> Any:
        server = make_server(folder, "float64")
        await server.load(weights(folder), None)
        return await ask(server, PROMPTS[0], logprobs=False, temperature=0.0)

    answer = asyncio.run(without())
    assert answer.log_probs is None
    assert len(answer.token_ids) == 6


def test_a_failure_reaches_those_who_wait_and_nobody_after_them(folder: Path) -> None:
    async def broken() -> tuple[Any, Any]:
        server = make_server(folder)
        with pytest.raises(RuntimeError, match="no weights yet"):
            await ask(server, PROMPTS[0])
        await server.load(weights(folder), 1)
        with pytest.raises(
            ValueError, match="supports images for models like Qwen 2 VL, not for Qwen2ForCausalLM"
        ):
            await server.generate("r", prompt_ids=[1], sampling_params={}, image_data=["an image"])
        failed = await asyncio.gather(ask(server, [10**6]), return_exceptions=True)
        return failed[0], await ask(server, PROMPTS[1], seed=1)

    failed, answered = asyncio.run(broken())
    assert isinstance(failed, IndexError)
    assert answered.token_ids


def test_weights_that_do_not_fit_are_refused(folder: Path) -> None:
    server = make_server(folder)
    half = weights(folder)
    half.pop("model.norm.weight")
    with pytest.raises(ValueError, match=r"do not fit: missing \['model.norm.weight'"):
        asyncio.run(server.load(half, 1))
