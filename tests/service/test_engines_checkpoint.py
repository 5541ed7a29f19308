"""The identity of a checkpoint: its commit, or the fingerprint of its folder."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_model import save_tiny_model

from service.engines.checkpoint import fingerprint, open_checkpoint
from service.errors import PrerequisiteError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def test_a_moved_folder_keeps_its_fingerprint(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copy")
    (copied / "README.md").write_text("about", encoding="utf-8")
    assert fingerprint(copied) == fingerprint(folder)


def test_a_later_step_of_a_training_has_another_fingerprint(folder: Path, tmp_path: Path) -> None:
    other = save_tiny_model(tmp_path / "other", seed=1)
    sizes = [(one / "model.safetensors").stat().st_size for one in (folder, other)]
    assert sizes[0] == sizes[1]  # same tensors, other numbers
    assert fingerprint(other) != fingerprint(folder)


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


def test_an_unmerged_adapter_is_refused(folder: Path, tmp_path: Path) -> None:
    """Without the trained part, pass@k would be that of the model before its training."""
    beside = tmp_path / "merged"
    shutil.copytree(folder, beside)
    (beside / "lora_adapter").mkdir()
    with pytest.raises(PrerequisiteError, match="has an unmerged adapter"):
        open_checkpoint(str(beside), None)
