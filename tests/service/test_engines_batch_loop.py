"""A checkpoint on transformers behind `ask`: its identity, prompts, seeds, batches, stop texts, images."""

import asyncio
import json
import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import asking
import pytest
import torch
from pictures import picture
from tiny_model import SPECIAL_TOKENS, save_tiny_model
from tiny_vision import TOKENS_OF_AN_IMAGE, save_tiny_vision_model

from service.asks.request import CONTEXT_LENGTH, SERVER_ERROR, Choice, Fault, Message, Request, read_reply
from service.engines.batch_loop import TransformersEndpoint
from service.engines.checkpoint import Checkpoint, fingerprint, open_checkpoint
from service.errors import InputError, PrerequisiteError
from service.models.access import Model
from service.questions.images import read_image

SAMPLING = {"max_tokens": 12, "temperature": 0.8, "top_p": 0.95, "top_k": 0, "stop": ()}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a folder with a random model that ends a response now and then."""
    from transformers import AutoModelForCausalLM

    folder = save_tiny_model(tmp_path_factory.mktemp("model"), spread=0.2)
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    loaded.generation_config.eos_token_id = [2, 3, 4, 5, 6, 7, 8]
    loaded.generation_config.repetition_penalty = 1.5  # the checkpoint's own: ignored
    loaded.save_pretrained(folder)
    return folder


def opened(folder: Path, **settings: Any) -> AbstractAsyncContextManager[TransformersEndpoint]:
    given = {"model": str(folder), "device": "cpu", "dtype": "float64", **settings}
    return asking.opened(TransformersEndpoint(Model(**given)))


def question(number: int, *, n: int = 4, seed: int | None = 7, **sampling: Any) -> Request:
    messages = (Message("user", f"What is {number}" + " plus one" * number + "?"),)
    return Request("m", messages, sampling={**SAMPLING, **sampling}, seed=seed, n=n)


async def ask(
    endpoint: TransformersEndpoint, request: Request, stopping: asyncio.Event | None = None
) -> tuple[Choice, ...]:
    async with endpoint.slot(stopping or asyncio.Event()) as server:
        reply = await endpoint.send(request, server)
    return reply.choices


async def ask_all(endpoint: TransformersEndpoint, *requests: Request) -> list[tuple[Choice, ...]]:
    return await asyncio.gather(*(ask(endpoint, request) for request in requests))


async def test_responses_do_not_depend_on_the_batch(model):
    requests = [question(number, temperature=0.8 + 0.1 * (number % 2)) for number in range(6)]
    async with opened(model) as endpoint:
        together = await ask_all(endpoint, *requests)
        alone = [await ask(endpoint, request) for request in requests]
    async with opened(model, batch_size=3) as endpoint:
        narrow = await ask_all(endpoint, *reversed(requests))
    assert together == alone == narrow[::-1]
    choices = [choice for each in together for choice in each]
    assert len({choice.text for choice in choices}) > 18
    assert {choice.finish_reason for choice in choices} == {"stop", "length"}
    assert not any(token in choice.text for token in SPECIAL_TOKENS for choice in choices)


async def test_response_i_has_the_seed_plus_i(model):
    async with opened(model) as endpoint:
        (four, *ones) = await ask_all(
            endpoint, question(1), *(question(1, n=1, seed=7 + place) for place in range(4))
        )
        unseeded = [await endpoint.send(question(1, seed=None, max_tokens=40)) for _ in range(2)]
    assert four == tuple(choice for (choice,) in ones)
    assert not any(reply.seeded for reply in unseeded)
    assert unseeded[0].body != unseeded[1].body


async def test_a_stopped_run_resumes_with_the_same_texts(model):
    requests = [question(number, max_tokens=60) for number in range(6)]
    async with opened(model) as endpoint:
        undisturbed = await ask_all(endpoint, *requests)
    stopping = asyncio.Event()
    async with opened(model, batch_size=4) as endpoint:
        asks = [asyncio.create_task(ask(endpoint, request, stopping)) for request in requests]
        await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
        stopping.set()
        endpoint.wake()
        ended = await asyncio.gather(*asks, return_exceptions=True)
    faults = [each for each in ended if isinstance(each, BaseException)]
    assert 0 < len(faults) < len(requests)
    assert {fault.kind for fault in faults if isinstance(fault, Fault)} == {SERVER_ERROR}
    async with opened(model) as endpoint:
        resumed = [
            await ask(endpoint, request) if isinstance(each, BaseException) else each
            for request, each in zip(requests, ended, strict=True)
        ]
    assert resumed == undisturbed


async def test_tokens_count_while_a_response_is_drawn(model, monkeypatch):
    monkeypatch.setattr("service.engines.decoding._TURN_S", 0.002)
    async with opened(model) as endpoint, asyncio.timeout(60):
        asked = asyncio.create_task(ask(endpoint, question(1, n=1, max_tokens=60, temperature=0)))
        counts = set()
        while not asked.done():
            counts.add(endpoint.generated_tokens)
            await asyncio.sleep(0)
        await asked
        drawn = endpoint.generated_tokens
    assert len(counts) > 2
    assert max(counts) <= drawn <= 60


async def test_a_stop_text_ends_a_response_before_it(model):
    async with opened(model) as endpoint:
        (whole,) = await ask(endpoint, question(1, n=1, seed=3, max_tokens=80))
        stop = next(char for char in whole.text[2:] if char.isascii() and char.isprintable())
        (cut,) = await ask(endpoint, question(1, n=1, seed=3, max_tokens=80, stop=("never", stop)))
    assert (cut.text, cut.finish_reason) == (whole.text.partition(stop)[0], "stop")


async def test_the_context_limits_responses_and_a_long_prompt_is_refused(model):
    async with opened(model) as endpoint:
        request = Request(
            "m", prompt="x" * 500, sampling={**SAMPLING, "max_tokens": 100, "temperature": 0.8}, seed=5
        )
        reply = await endpoint.send(request)
        prompt_tokens, completion_tokens = reply.prompt_tokens, reply.completion_tokens
        assert prompt_tokens == 500
        assert completion_tokens <= 12
        assert "fewer than max_tokens" in endpoint.notices[0]
        with pytest.raises(Fault) as raised:
            await ask(endpoint, Request("m", prompt="x" * 512, sampling=SAMPLING, seed=5))
    assert raised.value.kind == CONTEXT_LENGTH


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "tpu"}, "'tpu' is not a device"),
        ({"device": "cuda"}, "finds no cuda device"),
        ({"model": "/none/there", "sampler": "local"}, "cannot be loaded"),
    ],
)
async def test_settings_that_cannot_be_used_are_errors_before_any_request(model, settings, message):
    if settings.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises((InputError, PrerequisiteError), match=message):
        async with opened(model, **settings):
            pass


def test_a_checkpoint_stored_in_an_unusable_dtype_is_refused(model, tmp_path):
    stored = shutil.copytree(model, tmp_path / "model") / "config.json"
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "dtype": "int8"}), encoding="utf-8")
    assert Model(model="m", sampler="local", dtype="auto", device="auto").dtype is None
    with pytest.raises(InputError, match=r"dtype is 'int8' \(the checkpoint's\)"):
        _ = TransformersEndpoint(Model(model=str(stored.parent), device="cpu", dtype="auto")).engine


def test_the_context_is_read_under_any_of_its_names():
    import transformers

    config = transformers.MptConfig(max_seq_len=300)
    assert Checkpoint("m", None, config, None).context == 300


async def test_images_reach_the_model_in_any_batch(tmp_path):
    folder = save_tiny_vision_model(tmp_path / "model")
    images = [read_image(picture(color, (40, 40))) for color in ("red", "blue")]
    requests = [
        Request("m", (Message("user", "", ("See ", image, " now")),), sampling=SAMPLING, seed=3, n=3)
        for image in images
    ]
    async with opened(folder) as endpoint:
        alone = [await ask(endpoint, request) for request in requests]
        red, words, blue = await ask_all(endpoint, requests[0], question(2), requests[1])
        assert [red, blue] == alone
        assert red != blue
        assert words == await ask(endpoint, question(2))
        body = (await endpoint.send(requests[0])).body
    prompt_tokens = read_reply(body).prompt_tokens
    special = 3 + 2  # of the chat, and around the image
    text = "user\nSee " + " now" + "\n" + "assistant\n"
    assert prompt_tokens == len(text) + special + TOKENS_OF_AN_IMAGE


def test_the_reader_of_images_counts_for_models_that_take_them(model, tmp_path, monkeypatch):
    """Pillow and torchvision make different pixels."""
    folder = save_tiny_vision_model(tmp_path / "model")
    names = set()
    for backend in ("pil", "torchvision"):
        endpoint = TransformersEndpoint(Model(model=str(folder), device="cpu"))
        reader = type(endpoint.checkpoint.processor.image_processor)
        monkeypatch.setattr(reader, "backend", backend)
        assert endpoint.engine["images"] == backend
        names.add(endpoint.model)
    assert len(names) == 2
    assert "images" not in TransformersEndpoint(Model(model=str(model), device="cpu")).engine


def test_a_moved_folder_keeps_its_fingerprint(model, tmp_path):
    copied = shutil.copytree(model, tmp_path / "copy")
    (copied / "README.md").write_text("about", encoding="utf-8")
    assert fingerprint(copied) == fingerprint(model)


def test_a_later_step_of_a_training_has_another_fingerprint(model, tmp_path):
    other = save_tiny_model(tmp_path / "other", seed=1)
    sizes = [(each / "model.safetensors").stat().st_size for each in (model, other)]
    assert sizes[0] == sizes[1]  # same tensors, other numbers
    assert fingerprint(other) != fingerprint(model)


def test_configuration_tokenizer_and_older_weight_files_count(model, tmp_path):
    changed = shutil.copytree(model, tmp_path / "changed")
    config = json.loads((changed / "config.json").read_text("utf-8"))
    (changed / "config.json").write_text(json.dumps({**config, "rope_theta": 7.0}), encoding="utf-8")
    first = fingerprint(changed)
    assert first != fingerprint(model)
    (changed / "pytorch_model.bin").write_bytes(bytes(3_000_000))
    second = fingerprint(changed)
    assert second != first
    (changed / "pytorch_model.bin").write_bytes(bytes(1_500_000) + b"x" * 1_500_000)
    assert fingerprint(changed) not in (first, second)


def test_an_unmerged_adapter_is_refused(model, tmp_path):
    """Without the trained part, pass@k would be that of the model before its training."""
    beside = tmp_path / "merged"
    shutil.copytree(model, beside)
    (beside / "lora_adapter").mkdir()
    with pytest.raises(PrerequisiteError, match="has an unmerged adapter"):
        open_checkpoint(str(beside), None)


REJECTS_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ messages[0]['content'] }}"
)
DROPS_SYSTEM = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"


@pytest.fixture
def tokenizer(model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def chat(text: str, *, system: str | None = None, **kwargs: Any) -> Request:
    messages = [Message("system", system)] if system else []
    extra = {"chat_template_kwargs": kwargs} if kwargs else {}
    return Request("m", (*messages, Message("user", text)), sampling={"max_tokens": 5}, extra=extra)


def test_a_model_without_a_template_continues_one_user_message(tokenizer):
    tokenizer.chat_template = None
    checkpoint = Checkpoint("tiny", None, None, tokenizer)
    assert checkpoint.template_id is None
    assert [checkpoint.render(chat(text)).text for text in ("1+1?", "2+2?")] == ["1+1?", "2+2?"]
    assert [notice.startswith("tiny has no chat template") for notice in checkpoint.notices] == [True]
    with pytest.raises(InputError, match="accepts only a single user message"):
        checkpoint.render(chat("1+1?", system="Be brief."))


def test_a_template_that_prints_the_date_prints_the_same_every_day(tokenizer):
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[-1]['content'] }}"
    assert Checkpoint("m", None, None, tokenizer).render(chat("2 + 2?")).text == "26 Jul 2024: 2 + 2?"


@pytest.mark.parametrize(
    ("template", "reason"),
    [(REJECTS_SYSTEM, "System role not supported"), (DROPS_SYSTEM, "drops the system")],
)
def test_a_system_message_that_the_template_does_not_take_is_an_error(tokenizer, template, reason):
    tokenizer.chat_template = template
    checkpoint = Checkpoint("tiny", None, None, tokenizer)
    with pytest.raises(InputError, match=reason):
        checkpoint.render(chat("x", system="Be brief."))
    assert checkpoint.render(chat("x")).text == "x"
