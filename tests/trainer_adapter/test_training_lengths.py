"""Prompts over the limit, with their images: found with the model's tokenizer before a training starts."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_model import save_tiny_model, save_tiny_tokenizer
from tiny_vision import save_tiny_vision_model
from training_configs import composed
from verl_exports import export_entries
from vision_proof import export_pictured

from rephraser.sets.types import Neighbor, SetEntry
from service.errors import InputError, PrerequisiteError
from service.questions.question import make_question
from trainer_adapter.runs.checking import check_lengths
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.data import TrainingData, read_data
from trainer_adapter.runs.running import _settle_thinking
from trainer_adapter.verl.export import Layout
from trainer_adapter.verl.plugin.images.placing import images_of, with_images
from trainer_adapter.verl.prompts import PromptTemplate, without_thinking

# One token a byte and one a special token: three marks, "user\n", "\n" and "assistant\n".
AROUND = 3 + len("user\n") + len("\n") + len("assistant\n")
# Japanese has three bytes a sign, so that an estimate by signs is far too low.
LONG = "二と三を足して答えを箱に入れなさい。" * 8
LONG_TOKENS = AROUND + len(LONG.encode())


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    return save_tiny_tokenizer(tmp_path / "model")


def exported(folder: Path, *neighbors: str, layout: Layout = "grouped", **template: object) -> TrainingData:
    places = enumerate(neighbors, start=1)
    about = ("llm", "paraphrase", "h", "m", "accepted", 0.99, False)
    around = tuple(Neighbor(f"c{place}", text, *about) for place, text in places)
    entries = [SetEntry(make_question("Add 2 and 3.", "5"), around)]
    export_entries(folder, entries, PromptTemplate(instruction="", **template), layout=layout)
    return read_data(folder)


def checked(data: TrainingData, model: Path, *texts: str, recipe: str = "ta_grpo") -> list[str]:
    return check_lengths(composed(recipe, f"model={model}", *texts, data=data), data)


def test_a_neighbor_that_an_estimate_let_pass_is_refused_by_name(tmp_path, model):
    data = exported(tmp_path / "out", "Sum 2 and 3.", LONG, max_prompt_tokens=400)
    assert data.longest_prompt <= 400 < LONG_TOKENS
    named = make_question("Add 2 and 3.", "5").id
    with pytest.raises(InputError) as raised:
        checked(data, model)
    message = str(raised.value)
    assert "1 prompt of more than 400 tokens" in message
    assert f"(neighbor c2 of question {named} in train.parquet has {LONG_TOKENS})" in message
    assert f"--tokenizer {model} --max-prompt-tokens 400" in message


def test_neighbors_that_the_recipe_does_not_ask_are_not_counted(tmp_path, model):
    data = exported(tmp_path / "out", "Sum 2 and 3.", "2+3?", "Add 3 to 2.", LONG, max_prompt_tokens=400)
    [note] = checked(data, model)  # the fourth neighbor of a recipe that asks three
    longest = AROUND + len("Add 2 and 3.")
    assert note == (
        f"the export estimated prompt lengths; counted with {model}, the longest prompt has {longest} tokens"
    )
    assert checked(exported(tmp_path / "no", LONG, max_prompt_tokens=400), model, recipe="grpo")


def test_what_the_models_own_tokenizer_counted_is_not_counted_again(tmp_path, model):
    data = exported(tmp_path / "out", "Sum 2 and 3.", tokenizer=str(model))
    data.train_file.unlink()
    assert checked(data, model) == []
    with pytest.raises(InputError, match=r"has 31 tokens\. Export with --max-prompt-tokens 20"):
        checked(data, model, "data.max_prompt_length=20")


def test_whether_a_model_thinks_is_no_accident(tmp_path, model):
    """As with Qwen 3, whose chat template thinks unless it is told not to."""
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if enable_thinking is false %}</think>{% endif %}")
    open_ = PromptTemplate(tokenizer=str(model))
    assert without_thinking(open_).chat_template_kwargs == {"enable_thinking": False}
    thinks = replace(open_, chat_template_kwargs={"enable_thinking": True})
    assert without_thinking(thinks) == thinks
    assert without_thinking(PromptTemplate()) == PromptTemplate()  # nothing is known of the policy
    silent = exported(tmp_path / "out", "Sum 2 and 3.")
    asked = exported(tmp_path / "on", "2+3?", chat_template_kwargs={"enable_thinking": True})

    def settled(data: TrainingData, name: str) -> Mapping[str, Any]:
        return _settle_thinking(data, name).template.chat_template_kwargs

    assert settled(silent, str(tmp_path)) == {}  # it has no tokenizer
    for name in (str(model), "Qwen/Qwen3-4B"):
        assert settled(silent, name) == {"enable_thinking": False}
        assert settled(asked, name) == {"enable_thinking": True}


def test_a_note_says_that_the_tokenizer_cannot_be_loaded(tmp_path):
    data = exported(tmp_path / "out", "Sum 2 and 3.")
    [note] = checked(data, tmp_path / "nowhere")
    assert note.startswith("prompts were not counted with the model's tokenizer, so some may be too long: ")
    assert "nowhere: could not be loaded" in note


def test_a_base_model_takes_a_template_from_its_folder(tmp_path, model):
    file = model / "chat_template.jinja"
    template = file.read_text("utf-8")
    file.unlink()
    data = exported(tmp_path / "out", "Sum 2 and 3.")
    with pytest.raises(InputError, match=r"no chat template.*add a template as chat_template\.jinja"):
        checked(data, model)
    file.write_text(template, "utf-8")
    assert checked(data, model)


@pytest.fixture(scope="module")
def seeing_model(tmp_path_factory):
    return save_tiny_vision_model(tmp_path_factory.mktemp("seeing"))


@pytest.fixture(scope="module")
def pictured(tmp_path_factory, seeing_model):
    return export_pictured(tmp_path_factory.mktemp("export"), seeing_model).parent


def user(content: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Look."}, {"role": "user", "content": content}]


def test_images_stand_where_the_text_says():
    filled = with_images(user("Is <image> or<image>larger?"), ["a", "b"])
    assert filled[0]["content"] == [{"type": "text", "text": "Look."}]
    assert filled[1]["content"] == [
        {"type": "text", "text": "Is "},
        {"type": "image", "image": "a"},
        {"type": "text", "text": " or"},
        {"type": "image", "image": "b"},
        {"type": "text", "text": "larger?"},
    ]
    assert images_of(filled) == ["a", "b"]
    assert with_images(user("no <image> here"), []) == user("no <image> here")
    with pytest.raises(ValueError, match="a prompt has 1 <image>, but its question has 2 images"):
        with_images(user("Is <image>?"), ["a", "b"])


def seeing(pictured: Path, seeing_model: Path, *texts: str) -> Composition:
    return composed("ta_grpo", "cpu=true", f"model={seeing_model}", *texts, data=read_data(pictured))


def test_a_run_takes_the_data_set_for_images(pictured, seeing_model):
    composition = seeing(pictured, seeing_model)
    assert composition.value("data.custom_cls.name") == "ImageDataset"
    own = seeing(pictured, seeing_model, "data.custom_cls.path=/own.py")
    assert own.value("data.custom_cls.name") is None
    (note,) = check_lengths(composition, read_data(pictured))
    assert note.startswith("the longest prompt has ")


def test_prompts_too_long_with_their_images_are_named(pictured, seeing_model):
    composition = seeing(pictured, seeing_model, "data.max_prompt_length=50")
    with pytest.raises(InputError, match=r"prompts of more than 50 tokens including images \(.* has 51"):
        check_lengths(composition, read_data(pictured))


def test_a_model_that_does_not_see_is_refused(pictured, tmp_path, seeing_model):
    text_model = save_tiny_model(tmp_path / "text")
    with pytest.raises(InputError, match="not support images, but some questions of the set have images"):
        check_lengths(seeing(pictured, text_model), read_data(pictured))
    blind = tmp_path / "blind"
    blind.mkdir()
    for file in seeing_model.iterdir():
        if file.name != "processor_config.json":
            (blind / file.name).write_bytes(file.read_bytes())
    with pytest.raises(PrerequisiteError, match="next to its weights"):
        check_lengths(seeing(pictured, blind), read_data(pictured))
