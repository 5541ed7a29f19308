"""The real `vllm serve`, in vLLM's build for CPUs: equal texts for equal seeds, its end, images."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import vllm_draws
from asking import attempt, opened
from pictures import picture
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model
from vllm_draws import SAMPLING
from vllm_runs import survivors, use_cpu_build

from service.asks.request import Choice, Message, Request
from service.engines.batch_loop import TransformersEndpoint
from service.engines.vllm import VllmEndpoint
from service.models.access import Model
from service.questions.images import read_image

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
TORCHVISION = (Path(__file__).parents[1] / "support" / "torchvision_cpu", Path(sys.prefix) / "torchvision")
"""Folders with torchvision for the server; next to this torch it would end every import of transformers."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    use_cpu_build()
    return save_tiny_model(tmp_path_factory.mktemp("model"), heads=2, spread=0.2)


async def ask(endpoint: VllmEndpoint | TransformersEndpoint, request: Request) -> tuple[Choice, ...]:
    return (await attempt(endpoint, request)).choices


def test_equal_seeds_draw_equal_texts_and_sigkill_of_tagrpo_ends_every_vllm_process(model, tmp_path):
    log = tmp_path / "vllm.log"
    call = [sys.executable, vllm_draws.__file__, model, log]
    process = subprocess.Popen([*map(str, call)], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line, log.read_text()
    answers = json.loads(line)
    drawn, (whole, _), (cut,) = answers["drawn"], answers["whole"][0], answers["cut"]
    assert answers["again"] == drawn[::-1]
    assert len({text for choices in drawn for text, _ in choices}) > 28
    assert [each for (each,) in answers["ones"]] == drawn[1], "response i has the seed plus i"
    assert cut == [whole.partition(answers["stop"])[0], "stop"]
    assert answers["long"][0][1] in ("length", "stop")
    assert answers["notices"]
    assert answers["gpu"] is None
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 2
    process.kill()
    process.wait()
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
