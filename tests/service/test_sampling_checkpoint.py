"""What a checkpoint is known by: its commit, or the fingerprint of its folder."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_model import save_tiny_model

from service.errors import PrerequisiteError
from service.models.checkpoint import fingerprint, open_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def test_a_folder_has_a_fingerprint_that_does_not_depend_on_its_place(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copy")
    (copied / "README.md").write_text("about", encoding="utf-8")
    assert fingerprint(copied) == fingerprint(folder)


def test_a_later_step_of_a_training_has_another_fingerprint(folder: Path, tmp_path: Path) -> None:
    other = save_tiny_model(tmp_path / "other", seed=1)
    sizes = [(one / "model.safetensors").stat().st_size for one in (folder, other)]
    assert sizes[0] == sizes[1]  # same tensors, other numbers
    assert fingerprint(other) != fingerprint(folder)


def test_one_changed_tensor_changes_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    changed = shutil.copytree(folder, tmp_path / "changed")
    tensors = load_file(changed / "model.safetensors")
    name = sorted(tensors)[-1]
    tensors[name] = tensors[name] + torch.ones_like(tensors[name])
    save_file(tensors, changed / "model.safetensors", metadata={"format": "pt"})
    assert fingerprint(changed) != fingerprint(folder)


def test_configuration_tokenizer_and_older_weight_files_count(folder: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(folder, tmp_path / "changed")
    config = json.loads((changed / "config.json").read_text("utf-8"))
    (changed / "config.json").write_text(json.dumps({**config, "rope_theta": 7.0}), encoding="utf-8")
    first = fingerprint(changed)
    assert first != fingerprint(folder)
    (changed / "pytorch_model.bin").write_bytes(bytes(3_000_000))
    second = fingerprint(changed)
    assert second != first
    (changed / "pytorch_model.bin").write_bytes(bytes(1_500_000) + b"x" * 1_500_000)
    assert fingerprint(changed) not in (first, second)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"version https://git-lfs.github.com/spec/v1\nsize 9\n", bytes(7) + b"\x01{"]
)
def test_weights_that_are_none_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(PrerequisiteError, match=r"model\.safetensors: is no whole safetensors file"):
        fingerprint(tmp_path)


def test_context_dtype_and_weights_of_a_folder(folder: Path) -> None:
    found = open_checkpoint(str(folder), None, "local")
    assert (found.commit, found.context, found.dtype) == (None, 512, "float32")
    assert found.weights == fingerprint(folder)


def test_an_adapter_beside_its_model_is_not_left_out_in_silence(folder: Path, tmp_path: Path) -> None:
    """The trained part would be missing: pass@k would be that of the model before its training."""
    beside = tmp_path / "merged"
    shutil.copytree(folder, beside)
    (beside / "lora_adapter").mkdir()
    with pytest.raises(PrerequisiteError, match="holds an adapter beside its model"):
        open_checkpoint(str(beside), None, "local")


def test_a_folder_without_a_model_and_a_revision_of_a_folder_are_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PrerequisiteError, match=r"empty' cannot be loaded: .* config\.json"):
        open_checkpoint(str(tmp_path / "empty"), None, "local")
    with pytest.raises(PrerequisiteError, match="has no revisions"):
        open_checkpoint(str(folder), "v2", "local")
