"""The server of the CPU rollout, asked as verl's agent loops ask it, without Ray."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import save_tiny_model

PROMPTS = [[5, 6, 7], [40], [70, 71, 72, 73]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def load_policy(folder: Path) -> Any:
    from transformers import AutoConfig

    from service.engines.images import model_class

    return model_class(AutoConfig.from_pretrained(folder)).from_pretrained(folder, dtype=torch.float32).eval()


def serve(
    folder: Path, ask_all: Callable[[Any], Awaitable[Any]], dtype: str = "float32", version: int | None = 3
) -> Any:
    """Return what `ask_all` makes of a server with the weights of a folder."""
    from trainer_adapter.verl.cpu.rollout import ResponseServer

    async def serving() -> Any:
        server = ResponseServer(str(folder), 6, 0, dtype)
        await server.load(dict(load_policy(folder).state_dict()), version)
        return await ask_all(server)

    return asyncio.run(serving())


async def ask(server: Any, prompt: list[int], images: Any = None, **params: Any) -> Any:
    given = {"temperature": 1.0, "logprobs": True, **params}
    return await server.generate("request", prompt_ids=prompt, sampling_params=given, image_data=images)


def test_responses_come_back_to_those_who_asked(folder):
    async def together(server: Any) -> list[Any]:
        first = [asyncio.create_task(ask(server, prompt, seed=n)) for n, prompt in enumerate(PROMPTS)]
        await asyncio.sleep(0.05)
        late = await ask(server, PROMPTS[0], seed=0)
        return [*await asyncio.gather(*first), late]

    async def alone(server: Any) -> list[Any]:
        return [await ask(server, prompt, seed=n) for n, prompt in enumerate(PROMPTS)]

    *answers, late = serve(folder, together)
    for answer, expected in zip(answers, serve(folder, alone), strict=True):
        assert answer.token_ids == expected.token_ids
        assert answer.log_probs == pytest.approx(expected.log_probs, abs=1e-5)
        assert answer.extra_fields["global_steps"] == 3
        assert answer.stop_reason in ("completed", "length")
    assert late.token_ids == answers[0].token_ids


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"best_of": 2}, "does not support best_of"),
        ({"logit_bias": {5: -100.0}}, "supports logit_bias only as -100.0 for image tokens"),
    ],
)
def test_parameters_that_would_be_ignored_are_refused(folder, sent, message):
    with pytest.raises(ValueError, match=message):
        serve(folder, lambda server: ask(server, PROMPTS[0], **sent))


def test_a_failure_reaches_those_who_wait_and_nobody_after_them(folder):
    from trainer_adapter.verl.cpu.rollout import ResponseServer

    with pytest.raises(RuntimeError, match="no weights yet"):
        asyncio.run(ask(ResponseServer(str(folder), 6, 0), PROMPTS[0]))

    async def broken(server: Any) -> tuple[Any, Any]:
        with pytest.raises(ValueError, match="supports images for models like Qwen 2 VL"):
            await ask(server, [1], ["an image"])
        failed = await asyncio.gather(ask(server, [10**6]), return_exceptions=True)
        return failed[0], await ask(server, PROMPTS[1], seed=1)

    failed, answered = serve(folder, broken)
    assert isinstance(failed, IndexError)
    assert answered.token_ids
