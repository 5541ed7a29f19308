"""Questions with images on their way into verl: places, positions, the data set, and checks before."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_model import save_tiny_model
from tiny_vision import save_tiny_vision_model
from training_configs import assign
from vision_proof import export_pictured

from service.engines.images import open_processor
from service.errors import InputError, PrerequisiteError
from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.runs.checking import check_lengths
from trainer_adapter.runs.composing import Machine, compose_run
from trainer_adapter.runs.data import read_data
from trainer_adapter.verl.image_prompts import load_processor
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


@pytest.mark.parametrize("lengths", [(7, 7, 7), (5, 7, 6), (4,), (48,) * 12])
def test_positions_are_packed_by_tokens_whatever_the_lengths(lengths: tuple[int, ...]) -> None:
    pytest.importorskip("verl")
    from tensordict import TensorDict

    from trainer_adapter.verl.plugin.images.positions import pack_by_tokens

    rows = [torch.arange(4 * length).view(4, length) + 1000 * row for row, length in enumerate(lengths)]
    data = TensorDict(
        {"position_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}, batch_size=len(rows)
    )
    for _ in range(2):  # verl asks for it several times
        pack_by_tokens(data)
        for row, packed in zip(rows, data["position_ids"].unbind(), strict=True):
            assert torch.equal(row, packed)
    texts = TensorDict({"position_ids": torch.arange(3)[None]}, batch_size=1)
    pack_by_tokens(texts)
    assert torch.equal(texts["position_ids"], torch.arange(3)[None])


@pytest.mark.slow
def test_the_data_set_gives_rows_with_their_images(model: Path, exported: Path) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf

    from trainer_adapter.verl.plugin.images.dataset import ImageDataset

    config = OmegaConf.create({"max_prompt_length": 160, "filter_overlong_prompts_workers": 1})
    processor = load_processor(str(model))
    rows = ImageDataset(str(exported / "train.parquet"), processor.tokenizer, config, processor)
    assert len(rows) == 12
    (image,) = images_of(rows[0]["raw_prompt"])
    assert image.size == (40, 40)
    assert "images" not in rows[0]
    none_fits = OmegaConf.create({"max_prompt_length": 20, "filter_overlong_prompts_workers": 1})
    assert len(ImageDataset(str(exported / "train.parquet"), processor.tokenizer, none_fits, processor)) == 0


def composed(exported: Path, model: Path | None, *overrides: str) -> Any:
    return compose_run(
        RECIPES["ta_grpo"],
        Machine(cpu=True),
        model=None if model is None else str(model),
        data=read_data(exported),
        overrides=assign(RECIPES["ta_grpo"], overrides).overrides,
    )


def test_a_run_takes_the_data_set_for_images(exported: Path, model: Path) -> None:
    composition = composed(exported, model)
    assert composition.value("data.custom_cls.name") == "ImageDataset"
    own = composed(exported, model, "data.custom_cls.path=/own.py")
    assert own.value("data.custom_cls.name") is None
    (note,) = check_lengths(composition, read_data(exported))
    assert note.startswith("the longest prompt has ")


def test_prompts_too_long_with_their_images_are_named(exported: Path, model: Path) -> None:
    composition = composed(exported, model, "data.max_prompt_length=50")
    with pytest.raises(
        InputError,
        match=r"prompts of more than 50 tokens including images \(.* has 51",
    ):
        check_lengths(composition, read_data(exported))


def test_a_model_that_does_not_see_is_refused(exported: Path, tmp_path: Path, model: Path) -> None:
    text_model = save_tiny_model(tmp_path / "text")
    with pytest.raises(InputError, match="not support images, but some questions of the set have images"):
        check_lengths(composed(exported, text_model), read_data(exported))
    blind = tmp_path / "blind"
    blind.mkdir()
    for file in model.iterdir():
        if file.name != "processor_config.json":
            (blind / file.name).write_bytes(file.read_bytes())
    with pytest.raises(PrerequisiteError, match="its image processor could not be loaded"):
        check_lengths(composed(exported, blind), read_data(exported))


def test_the_record_of_a_prompt_says_where_images_stand(model: Path) -> None:
    from trainer_adapter.verl.plugin.images.placing import prompt_text

    processor = open_processor(str(model))
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    images = [Image.new("RGB", (40, 40)), Image.new("RGB", (90, 90))]
    made = processor(text=[f"<|im_start|>user\nIs {mark} or{mark}larger?<|im_end|>\n"], images=images)
    ids = made["input_ids"][0]
    text = prompt_text(processor.tokenizer, ids, frozenset({processor.image_token_id}))
    assert text == "user\nIs <image> or<image>larger?\n"
    assert prompt_text(processor.tokenizer, ids, frozenset()) == "user\nIs  orlarger?\n"
