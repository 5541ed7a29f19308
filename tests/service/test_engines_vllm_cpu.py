"""The real `vllm serve`, in vLLM's build for CPUs: equal texts for equal seeds, images, its end."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from asking import attempt, opened
from pictures import picture
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model
from vllm_runs import survivors, use_cpu_build

from service.asks.request import Choice, Message, Request
from service.engines.batch_loop import TransformersEndpoint
from service.engines.vllm import VllmEndpoint
from service.models.access import Model
from service.questions.images import read_image

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
TORCHVISION = (Path(__file__).parents[1] / "support" / "torchvision_cpu", Path(sys.prefix) / "torchvision")
"""Folders with torchvision for the server; next to this torch it would end every import of transformers."""
SAMPLING = {"max_tokens": 30, "temperature": 0.9, "top_p": 0.95, "top_k": 0, "min_p": 0.0, "stop": ()}
KILLED = """
import asyncio, sys
from pathlib import Path
from service.engines.vllm import VllmEndpoint
from service.models.access import Model

async def main():
    endpoint = VllmEndpoint(Model(model=sys.argv[1], sampler="vllm", dtype="float32"), Path(sys.argv[2]))
    await endpoint.open()
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    use_cpu_build()
    return save_tiny_model(tmp_path_factory.mktemp("model"), heads=2, spread=0.2)


def question(number: int, *, n: int = 4, seed: int = 7, **sampling: Any) -> Request:
    messages = (Message("user", f"What is {number}" + " plus one" * number + "?"),)
    return Request("m", messages, sampling={**SAMPLING, **sampling}, seed=seed, n=n)


async def ask(endpoint: VllmEndpoint | TransformersEndpoint, request: Request) -> tuple[Choice, ...]:
    return (await attempt(endpoint, request)).choices


async def test_texts_drawn_twice_with_one_seed_are_equal(model, tmp_path):
    before = {*psutil.Process().children(recursive=True)}
    endpoint = VllmEndpoint(Model(model=str(model), sampler="vllm", dtype="float32"), tmp_path / "vllm.log")
    await endpoint.open()
    try:
        questions = [question(number) for number in range(8)]
        drawn = await asyncio.gather(*(ask(endpoint, each) for each in questions))
        again = await asyncio.gather(*(ask(endpoint, each) for each in reversed(questions)))
        assert drawn == again[::-1]
        texts = {choice.text for choices in drawn for choice in choices}
        assert len(texts) > 28
        ones = await asyncio.gather(*(ask(endpoint, question(1, n=1, seed=7 + place)) for place in range(4)))
        assert [each for (each,) in ones] == list(drawn[1]), "response i has the seed plus i"
        (whole,) = await ask(endpoint, question(1, n=1, temperature=0.0))
        stop = next(char for char in whole.text[1:] if char.isascii() and char.isprintable())
        (cut,) = await ask(endpoint, question(1, n=1, temperature=0.0, stop=(stop,)))
        assert (cut.text, cut.finish_reason) == (whole.text.partition(stop)[0], "stop")
        (long,) = await ask(endpoint, Request("m", prompt="x" * 510, sampling=SAMPLING, seed=1))
        assert long.finish_reason in ("length", "stop")
        assert endpoint.notices
        async with asyncio.timeout(30):
            while not endpoint.generated_tokens:
                await asyncio.sleep(0.1)
        assert endpoint.engine["gpu"] is None
        started = {*psutil.Process().children(recursive=True)} - before
        assert len(started) >= 2
    finally:
        await endpoint.close()
    assert survivors(list(started)) == []


def test_sigkill_of_tagrpo_ends_every_vllm_process(model, tmp_path):
    command = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(model), str(tmp_path / "vllm.log")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout.readline() == "ready\n", (tmp_path / "vllm.log").read_text()
    started = psutil.Process(command.pid).children(recursive=True)
    assert len(started) >= 2
    command.kill()
    command.wait()
    assert survivors(started) == []


async def test_vllm_sees_the_images_that_transformers_sees(tmp_path, monkeypatch):
    use_cpu_build()
    folder = save_tiny_vision_model(tmp_path / "model")
    # This process has no torchvision, so the processor was saved without the part that the server looks for.
    videos = {"video_processor_type": "Qwen2VLVideoProcessor"}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))
    red, green, blue = (read_image(picture(color, (40, 40))) for color in ("red", "green", "blue"))
    wide = read_image(picture("red", (90, 60)))
    parts = [("Which ", image, " is it?") for image in (red, green, blue)]
    parts += [("Is ", wide, " like ", green, "?"), ("Which is it?",)]
    requests = [
        Request(
            "m", (Message("user", "", each),), sampling={**SAMPLING, "max_tokens": 12, "temperature": 0.0}
        )
        for each in parts
    ]
    local = TransformersEndpoint(Model(model=str(folder), device="cpu", dtype="float32"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*map(str, TORCHVISION), os.environ["PYTHONPATH"]]))
    served = VllmEndpoint(Model(model=str(folder), sampler="vllm", dtype="float32"), tmp_path / "vllm.log")
    drawn = []
    for endpoint in (local, served):
        async with opened(endpoint):
            drawn.append(await asyncio.gather(*(ask(endpoint, request) for request in requests)))
    here, there = ([(choice.text, choice.finish_reason) for (choice,) in each] for each in drawn)
    assert here == there
    assert len({text for text, _ in there}) == len(requests)
