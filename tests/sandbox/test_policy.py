"""The shipped policy and its tokenizer load as any other; pre-training repeats itself."""

import json
from dataclasses import asdict
from typing import Any

import pytest
import torch
import transformers

from sandbox.phrasings import PHRASINGS
from sandbox.policy import RECORD, pretrain_policy, write_shipped_policy
from sandbox.pretraining import SCHEDULE, Schedule, pretrain
from sandbox.problems import Story, WordProblem
from sandbox.worlds import WORLDS
from service.errors import InputError
from service.hashing import file_sha256


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a copy of the shipped policy, as `python -m sandbox policy` writes it."""
    target = tmp_path_factory.mktemp("policy") / "policy-a"
    write_shipped_policy(target)
    return target


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("world", ["A", "C"])
def test_a_shipped_policy_is_small_and_says_how_it_was_made(world, tmp_path):
    folder = tmp_path / "policy"
    write_shipped_policy(folder, WORLDS[world])
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    record = json.loads((folder / RECORD).read_text())
    assert record["sha256"] == file_sha256(folder / "model.safetensors")
    assert record["world"] == asdict(WORLDS[world])
    assert record["schedule"] == asdict(SCHEDULE)
    card = (folder / "README.md").read_text()
    assert f"python -m sandbox pretrain FOLDER --world {world} --seed {record['seed']} --threads 1" in card
    with pytest.raises(InputError, match="is not empty"):
        write_shipped_policy(folder, WORLDS[world])


def test_the_tokenizer_keeps_any_text_and_takes_digits_apart(tokenizer):
    texts = [phrasing.text(WordProblem(4, 17, 5, Story("Tom", "pen", "delivery"))) for phrasing in PHRASINGS]
    for text in [*texts, "Zürich 1,234 ✓\n\t{}"]:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert [tokenizer.decode([token]) for token in tokenizer("=173")["input_ids"]] == ["=", "1", "7", "3"]


@pytest.mark.slow
def test_pre_training_repeats_itself_bit_by_bit():
    losses: list[float] = []

    def train(seed: int) -> dict[str, Any]:
        schedule, report = Schedule(steps=5, batch=16), lambda progress: losses.append(progress.loss)
        made, _ = pretrain(WORLDS["A"], seed=seed, threads=1, schedule=schedule, report=report)
        return dict(made.state_dict())

    one, two, other = train(0), train(0), train(1)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.slow
def test_a_pre_trained_policy_is_written_whole_or_not_at_all(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    few: dict[str, Any] = {"threads": 1, "report": lambda progress: None}
    with pytest.raises(InputError, match="is not empty"):
        pretrain_policy(tmp_path / "full", WORLDS["A"], seed=0, steps=1, **few)
    record = pretrain_policy(tmp_path / "new", WORLDS["C"], seed=3, steps=2, **few)
    assert (record["world"]["name"], record["seed"], record["schedule"]["steps"]) == ("C", 3, 2)
    stored = json.loads((tmp_path / "new" / RECORD).read_text())
    assert stored == record
    assert stored["sha256"] == file_sha256(tmp_path / "new" / "model.safetensors")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "new")
    assert loaded.dtype == torch.float32
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "new"]
