"""The server of the CPU rollout, asked as verl's agent loops ask it, without Ray."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model

PROMPTS = [[5, 6, 7], [40], [70, 71, 72, 73]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision_model(tmp_path_factory.mktemp("seeing"))


def load_policy(folder: Path) -> Any:
    from transformers import AutoConfig

    from service.engines.loading import model_class

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
    return await server.generate(
        "request",
        prompt_ids=prompt,
        sampling_params={"temperature": 1.0, "logprobs": True, **params},
        image_data=images,
    )


def expected_log_probs(model: Any, prompt: list[int], tokens: list[int], **seen: Any) -> list[float]:
    """Return the log-probs of a response at temperature 0.7, from one plain forward pass."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens]), **seen).logits[0, len(prompt) - 1 : -1]
    log_p = torch.log_softmax(logits / 0.7, dim=-1)
    values: list[float] = log_p.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()
    return values


def test_responses_come_back_to_those_who_asked(folder: Path) -> None:
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


def test_log_probs_are_those_of_a_plain_forward_pass(folder: Path) -> None:
    async def ask_all(server: Any) -> list[Any]:
        return await asyncio.gather(*(ask(server, prompt, temperature=0.7) for prompt in PROMPTS))

    model = load_policy(folder)
    for prompt, answer in zip(PROMPTS, serve(folder, ask_all), strict=True):
        expected = expected_log_probs(model, prompt, answer.token_ids)
        assert answer.log_probs == pytest.approx(expected, abs=1e-5)


def test_new_weights_read_a_prompt_again(folder: Path) -> None:
    async def ask_twice(server: Any) -> list[Any]:
        before = await ask(server, PROMPTS[0], temperature=0.0)
        weights = {name: -value for name, value in load_policy(folder).state_dict().items()}
        await server.load(weights, 4)
        return [before, await ask(server, PROMPTS[0], temperature=0.0)]

    async def ask_once(server: Any) -> Any:
        await server.load({name: -value for name, value in load_policy(folder).state_dict().items()}, 4)
        return await ask(server, PROMPTS[0], temperature=0.0)

    before, after = serve(folder, ask_twice)
    assert after.extra_fields["global_steps"] == 4
    assert after.log_probs != pytest.approx(before.log_probs, abs=1e-3)
    assert after.log_probs == pytest.approx(serve(folder, ask_once).log_probs, abs=1e-6)


def test_a_prompt_with_images_is_read_once_and_has_the_log_probs_of_a_forward_pass(seeing: Path) -> None:
    from service.engines.images import FORBIDDEN, image_tokens, open_processor

    processor, model = open_processor(str(seeing)), load_policy(seeing)
    text = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What?<|im_end|>\n"
    pictures = [Image.new("RGB", (40, 40), color) for color in ("red", "blue")]
    encoded = [processor(text=[text], images=[picture], return_tensors="pt") for picture in pictures]
    prompt = encoded[0]["input_ids"][0].tolist()
    bias = dict.fromkeys(image_tokens(model.config), FORBIDDEN)
    read: list[int] = []

    async def ask_all(server: Any) -> list[Any]:
        forward = server._model.model.visual.forward
        server._model.model.visual.forward = lambda *a, **k: read.append(1) or forward(*a, **k)
        params = {"temperature": 0.7, "logit_bias": bias}
        asked = [(picture, seed) for picture in pictures for seed in range(3)]
        return await asyncio.gather(
            *(ask(server, prompt, [picture.copy()], seed=seed, **params) for picture, seed in asked)
        )

    answers = serve(seeing, ask_all)
    assert len(read) == len(pictures)
    for place, answer in enumerate(answers):
        given = encoded[place // 3]
        seen = {name: given[name] for name in ("pixel_values", "image_grid_thw")}
        kinds = torch.zeros(1, len(prompt) + len(answer.token_ids), dtype=torch.long)
        kinds[:, : len(prompt)] = given["mm_token_type_ids"]
        expected = expected_log_probs(model, prompt, answer.token_ids, **seen, mm_token_type_ids=kinds)
        assert answer.log_probs == pytest.approx(expected, abs=1e-4)
    assert answers[0].log_probs != pytest.approx(answers[3].log_probs, abs=1e-3)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"best_of": 2}, "does not support best_of"),
        ({"logit_bias": {5: -100.0}}, "supports logit_bias only as -100.0 for image tokens"),
    ],
)
def test_parameters_that_would_be_ignored_are_refused(
    folder: Path, sent: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        serve(folder, lambda server: ask(server, PROMPTS[0], **sent))


def test_a_failure_reaches_those_who_wait_and_nobody_after_them(folder: Path) -> None:
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
