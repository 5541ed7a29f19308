"""What decides the distribution of responses is in the key, is sent as it stands, or is refused by name."""

from types import SimpleNamespace
from typing import Any

import pytest

from service.errors import InputError, PrerequisiteError
from service.models.local import LocalSampler
from service.models.prompts import PRESETS, Overrides, make_sampling
from service.models.published import PUBLISHED, override_sampling, read_sampling, read_seed
from service.models.remote import ChatRequest, Endpoint, Message
from service.models.remote.backend import open_backend
from service.models.remote.endpoint import check_sampling
from service.models.settings import PromptSpec, Sampling, SamplingSettings

VLLM = Endpoint("hosted_vllm/some", "http://127.0.0.1:1/v1")
EVERYTHING = Sampling(0.7, 0.8, 100, 20, 0.05, 1.1, 0.2, 0.3, ("\n\n",))


def sent(endpoint: Endpoint, sampling: Sampling, **request: Any) -> dict[str, Any]:
    ask = ChatRequest(1, (Message("user", "?"),), **sampling.decoding, **request)
    return open_backend(endpoint).body(ask)


def test_a_vllm_server_is_sent_every_setting_and_none_is_left_to_its_generation_config() -> None:
    body = sent(VLLM, EVERYTHING, seed=3)
    given = {name: body[name] for name in EVERYTHING.decoding}
    assert given == {**EVERYTHING.decoding, "stop": ["\n\n"]}
    assert body["seed"] == 3
    neutral = sent(VLLM, Sampling(1.0, 1.0, 100))
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    assert [neutral[name] for name in names] == [1.0, 1.0, -1, 0.0, 1.0]
    assert (neutral["presence_penalty"], neutral["frequency_penalty"]) == (0.0, 0.0)
    assert "seed" not in neutral


def test_providers_are_sent_no_fields_that_they_do_not_know() -> None:
    body = sent(Endpoint("gpt-4-turbo"), Sampling(0.6, 0.95, 100))
    assert set(body) == {"model", "messages", "temperature", "top_p", "max_tokens"}


@pytest.mark.parametrize(
    ("model", "sampling", "name"),
    [
        ("openai/o3-mini", Sampling(0.6, 1.0), "temperature"),
        ("openai/o3-mini", Sampling(1.0, 0.95), "top_p"),
        ("openai/gpt-5", Sampling(1.0, 1.0, stop=("x",)), "stop"),
        ("gpt-4-turbo", Sampling(top_k=20), "top_k"),
        ("anthropic/claude-3-5-sonnet-20241022", Sampling(presence_penalty=0.5), "presence_penalty"),
    ],
)
def test_a_setting_that_a_provider_drops_is_refused_by_name(
    model: str, sampling: Sampling, name: str
) -> None:
    with pytest.raises(PrerequisiteError, match=f"takes no {name} "):
        check_sampling(Endpoint(model), sampling)


@pytest.mark.parametrize("endpoint", [VLLM, Endpoint("openai/some", VLLM.api_base)])
def test_servers_of_ones_own_take_all_settings(endpoint: Endpoint) -> None:
    check_sampling(endpoint, EVERYTHING)


def test_models_that_take_no_temperature_are_asked_at_theirs() -> None:
    check_sampling(Endpoint("openai/o3-mini"), Sampling(1.0, 1.0))


def test_settings_are_in_the_key_and_neutral_ones_need_not_be_told() -> None:
    plain = SamplingSettings()
    assert set(plain.to_json()) == {"temperature", "top_p", "max_tokens", "seed", "samples_per_request"}
    for name, value in EVERYTHING.beyond.items():
        other = SamplingSettings(**{name: value})
        assert other.to_json() != plain.to_json()
        assert SamplingSettings.from_json(other.to_json()) == other
    assert set(EVERYTHING.beyond) == set(EVERYTHING.decoding) - {"temperature", "top_p", "max_tokens"}


def test_transformers_refuse_what_they_do_not_draw_by() -> None:
    prompt = PromptSpec("{question}")

    def check(settings: SamplingSettings) -> None:
        LocalSampler("nowhere").check(SimpleNamespace(model="m", prompt=prompt, sampling=settings))

    with pytest.raises(InputError, match="not by top_k, stop;"):
        check(SamplingSettings(top_k=20, stop=("x",)))
    with pytest.raises(InputError, match="--seed none"):
        check(SamplingSettings(seed=None))


def test_settings_are_read_from_published_names_and_pairs_and_single_ones_win() -> None:
    assert read_sampling(None) == {}
    assert read_sampling("qwen3-thinking") == dict(PUBLISHED["qwen3-thinking"])
    settings = make_sampling(
        PRESETS["default"],
        Overrides(sampling="qwen3-thinking, top_k=40,min-p=0.1", temperature=0.5, seed="none", stop=("x",)),
    )
    assert settings == SamplingSettings(0.5, 0.95, 32_768, 40, 0.1, stop=("x",), seed=None)
    for name in PUBLISHED:
        override_sampling(Sampling(), name)
    assert (read_seed("7"), read_seed("None")) == (7, None)


@pytest.mark.parametrize("text", ["qwen4", "top_k", "top_k=many", "best_of=3", "stop=x", "gpt-oss=1", ""])
def test_settings_that_cannot_be_read_are_told(text: str) -> None:
    with pytest.raises(InputError, match="--sampling"):
        read_sampling(text)


@pytest.mark.parametrize(
    "value",
    [
        {"temperature": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"max_tokens": 0},
        {"top_k": -1},
        {"min_p": 1.5},
        {"repetition_penalty": 0.0},
        {"presence_penalty": 3.0},
        {"frequency_penalty": -3.0},
        {"stop": ("",)},
    ],
)
def test_settings_out_of_range_are_refused(value: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Sampling(**value)
    with pytest.raises(InputError, match="--seed"):
        read_seed("seven")
