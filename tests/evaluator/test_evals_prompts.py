"""Presets and what the user puts in their place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InputError
from service.models.prompts import (
    PRESETS,
    Overrides,
    find_preset,
    make_prompt,
    make_sampling,
    read_template_kwargs,
)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_ask_for_a_box_and_draw_as_the_public_evaluation_does(name: str) -> None:
    preset = PRESETS[name]
    for choice in (False, True):
        asked = make_prompt(preset, Overrides(), choice=choice).fill("1 + 1?")
        assert asked == "1 + 1?" if name == "plain" else "\\boxed{}" in asked
    sampling = make_sampling(preset, Overrides())
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.seed) == (0.6, 0.95, 3072, 0)


def test_the_presets_of_the_paper() -> None:
    paper = make_prompt(PRESETS["paper"], Overrides())
    assert (paper.form, paper.chat_template_kwargs) == ("chat", {"enable_thinking": False})
    assert paper.fill("1 + 1?") == (
        "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}.\n1 + 1?"
    )
    public = make_prompt(PRESETS["paper-eval"], Overrides(), choice=True)
    assert (public.form, PRESETS["paper-eval"].n) == ("raw", 128)
    assert public.fill("1 + 1?").startswith("You FIRST think about the reasoning process")
    assert public.fill("1 + 1?").endswith("outputting the box.\n1 + 1?")


def test_a_letter_is_asked_for_where_every_problem_wants_one() -> None:
    default = PRESETS["default"]
    choice = make_prompt(default, Overrides(), choice=True).template
    assert "letter" in choice
    assert "letter" not in make_prompt(default, Overrides()).template


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(InputError, match="only: default, paper, paper-eval, plain"):
        find_preset("mine")


def test_every_part_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Solve: {question}\nAnswer:\n")
    overrides = Overrides(
        system="Be brief.",
        prompt_file=file,
        chat_template_kwargs='{"enable_thinking": true}',
        temperature=1.0,
        top_p=1.0,
        max_tokens=99,
        seed="7",
        samples_per_request=2,
    )
    prompt, sampling = (
        make_prompt(PRESETS["paper"], overrides),
        make_sampling(PRESETS["paper"], overrides),
    )
    assert (prompt.template, prompt.system) == ("Solve: {question}\nAnswer:", "Be brief.")
    assert prompt.chat_template_kwargs == {"enable_thinking": True}
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (1.0, 1.0, 99)
    assert (sampling.seed, sampling.samples_per_request) == (7, 2)


def test_raw_text_leaves_the_presets_chat_settings_out_but_not_the_users() -> None:
    raw = make_prompt(PRESETS["paper"], Overrides(raw=True))
    assert (raw.form, raw.chat_template_kwargs) == ("raw", {})
    for given_too in (Overrides(raw=True, system="x"), Overrides(raw=True, chat_template_kwargs='{"a": 1}')):
        with pytest.raises(InputError, match="need a chat prompt"):
            make_prompt(PRESETS["default"], given_too)


def test_greedy_responses_are_asked_for_one_at_a_time() -> None:
    assert make_sampling(PRESETS["default"], Overrides(temperature=0.0)).samples_per_request == 1
    assert make_sampling(PRESETS["default"], Overrides(temperature=0.1)).samples_per_request == 8


@pytest.mark.parametrize("text", ["", "no", "[1]", "1", '"enable_thinking"', "{"])
def test_template_arguments_are_a_json_object(text: str) -> None:
    with pytest.raises(InputError, match="--chat-template-kwargs"):
        read_template_kwargs(text)


@pytest.mark.parametrize("content", [b"no place for it", b"\xff{question}"])
def test_a_prompt_file_has_to_be_text_with_the_placeholder(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"prompt\.txt"):
        make_prompt(PRESETS["default"], Overrides(prompt_file=file))
    with pytest.raises(InputError, match=r"gone\.txt"):
        make_prompt(PRESETS["default"], Overrides(prompt_file=tmp_path / "gone.txt"))


@given(st.text())
def test_a_problem_stands_in_the_prompt_as_it_is(question: str) -> None:
    for preset in PRESETS.values():
        assert question in make_prompt(preset, Overrides()).fill(question)
