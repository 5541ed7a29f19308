"""Sampling settings: in a run's key, read from published names and pairs, refused out of range."""

from typing import Any

import pytest

from service.errors import InputError
from service.models.prompts import PRESETS, Overrides, make_sampling
from service.models.published import PUBLISHED, override_sampling, read_sampling, read_seed
from service.models.settings import Sampling, SamplingSettings

EVERYTHING = Sampling(0.7, 0.8, 100, 20, 0.05, 1.1, 0.2, 0.3, ("\n\n",))


def test_settings_are_in_the_key_and_neutral_ones_need_not_be_told() -> None:
    plain = SamplingSettings()
    assert set(plain.to_json()) == {"temperature", "top_p", "max_tokens", "seed", "samples_per_request"}
    for name, value in EVERYTHING.beyond.items():
        other = SamplingSettings(**{name: value})
        assert other.to_json() != plain.to_json()
        assert SamplingSettings.from_json(other.to_json()) == other
    assert set(EVERYTHING.beyond) == set(EVERYTHING.decoding) - {"temperature", "top_p", "max_tokens"}


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
