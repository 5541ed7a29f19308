"""Questions with images on their way into verl: places, positions, the data set, and checks before."""

from pathlib import Path
from typing import Any

import pytest
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model
from training_configs import composed
from vision_proof import export_pictured

from service.errors import InputError, PrerequisiteError
from trainer_adapter.runs.checking import check_lengths
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.data import read_data
from trainer_adapter.verl.plugin.images.placing import images_of, with_images


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vision_model(tmp_path_factory.mktemp("seeing"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    return export_pictured(tmp_path_factory.mktemp("export"), model).parent


def user(content: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Look."}, {"role": "user", "content": content}]


def test_images_stand_where_the_text_says() -> None:
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


def seeing(exported: Path, model: Path, *texts: str) -> Composition:
    return composed("ta_grpo", "cpu=true", f"model={model}", *texts, data=read_data(exported))


def test_a_run_takes_the_data_set_for_images(exported: Path, model: Path) -> None:
    composition = seeing(exported, model)
    assert composition.value("data.custom_cls.name") == "ImageDataset"
    own = seeing(exported, model, "data.custom_cls.path=/own.py")
    assert own.value("data.custom_cls.name") is None
    (note,) = check_lengths(composition, read_data(exported))
    assert note.startswith("the longest prompt has ")


def test_prompts_too_long_with_their_images_are_named(exported: Path, model: Path) -> None:
    composition = seeing(exported, model, "data.max_prompt_length=50")
    with pytest.raises(
        InputError,
        match=r"prompts of more than 50 tokens including images \(.* has 51",
    ):
        check_lengths(composition, read_data(exported))


def test_a_model_that_does_not_see_is_refused(exported: Path, tmp_path: Path, model: Path) -> None:
    text_model = save_tiny_model(tmp_path / "text")
    with pytest.raises(InputError, match="not support images, but some questions of the set have images"):
        check_lengths(seeing(exported, text_model), read_data(exported))
    blind = tmp_path / "blind"
    blind.mkdir()
    for file in model.iterdir():
        if file.name != "processor_config.json":
            (blind / file.name).write_bytes(file.read_bytes())
    with pytest.raises(PrerequisiteError, match="next to its weights"):
        check_lengths(seeing(exported, blind), read_data(exported))
