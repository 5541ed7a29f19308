import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from verl_exports import export_entries

from evaluator.grading import AnswerKind
from rephraser.sets.types import Neighbor, SetEntry
from rephraser.verdict.successes import Successes
from service.errors import InputError, PrerequisiteError
from service.questions.question import make_question
from trainer_adapter.runs.data import read_data
from trainer_adapter.verl.export import AnswerForm
from trainer_adapter.verl.prompts import PromptTemplate
from trainer_adapter.verl.reward import compute_score

SHORT = PromptTemplate(instruction="Box it.", max_prompt_tokens=200)


COUNTED = Successes("solver", 4, 32, 3, 12)


def neighbor(name: str, text: str, verdict: str = "accepted", successes: Successes | None = None) -> Neighbor:
    return Neighbor(name, text, "llm", "paraphrase", "h", "m", verdict, 0.99, False, successes)


def entry(text: str, answer: str, *neighbors: Neighbor) -> SetEntry:
    return SetEntry(make_question(text, answer, "Level 1", "Prealgebra"), neighbors)


SUM = entry(
    "What is 2+3?",
    "5",
    neighbor("c_a", "Add 2 and 3.", successes=COUNTED),
    neighbor("c_b", "Find the sum of 2 and 3.", "unverified"),
)
LONE = entry("Halve 8.", "4")
ENTRIES = (SUM, LONE)


def export(
    folder: Path, entries: tuple[SetEntry, ...] = ENTRIES, template: PromptTemplate = SHORT, **changes: Any
) -> dict[str, Any]:
    """Export, and return the counts of the manifest."""
    return dict(export_entries(folder, entries, template, **changes)["counts"])


def rows(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())


def test_grouped_has_one_row_a_question_with_its_neighbors_inside(tmp_path):
    counts = export(tmp_path / "out")
    first, second = rows(tmp_path / "out" / "train.parquet")
    assert first == {
        "data_source": "toy",
        "prompt": [{"role": "user", "content": "What is 2+3?\n\nBox it."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "5"},
        "neighbors": [
            [{"role": "user", "content": "Add 2 and 3.\n\nBox it."}],
            [{"role": "user", "content": "Find the sum of 2 and 3.\n\nBox it."}],
        ],
        "neighbor_ids": ["c_a", "c_b"],
        "extra_info": {
            "index": 0,
            "question_id": SUM.question.id,
            "set": "toy@1",
            "split": "train",
            "level": "Level 1",
            "subject": "Prealgebra",
            "answer_kind": "latex",
            "tolerance": None,
            "neighbor_strategies": ["paraphrase", "paraphrase"],
            "neighbor_verdicts": ["accepted", "unverified"],
            "neighbor_successes": [vars(COUNTED), None],
        },
    }
    assert second["neighbors"] == []
    assert second["extra_info"]["index"] == 1
    assert (counts["questions"], counts["neighbors"], counts["rows"]) == (2, 2, 2)
    assert counts["verdicts"] == {"accepted": 1, "unverified": 1}
    assert counts["neighbors_per_question"] == {0: 1, 2: 1}
    export(tmp_path / "again")
    again, out = (tmp_path / folder / "train.parquet" for folder in ("again", "out"))
    assert again.read_bytes() == out.read_bytes()


def test_only_neighbors_of_the_strategies_are_exported(tmp_path):
    harder = Neighbor("c_h", "Add 2, 3 and 0.", "file", "harder", "h", "file", "accepted", None, False)
    mixed = (replace(SUM, neighbors=(*SUM.neighbors, harder)), LONE)
    counts = export(tmp_path / "e", mixed, strategies=("harder",))
    first, second = rows(tmp_path / "e" / "train.parquet")
    assert (first["neighbor_ids"], second["neighbor_ids"], counts["neighbors"]) == (["c_h"], [], 1)
    assert json.loads((tmp_path / "e" / "manifest.json").read_text())["strategies"] == ["harder"]
    with pytest.raises(InputError, match=r"no neighbor has the strategy easier\. Choose from harder, para"):
        export(tmp_path / "f", mixed, strategies=("easier",))


def test_flat_has_one_row_a_prompt(tmp_path):
    counts = export(tmp_path / "out", layout="flat")
    written = rows(tmp_path / "out" / "train.parquet")
    texts = ("What is 2+3?", "Add 2 and 3.", "Find the sum of 2 and 3.", "Halve 8.")
    assert [row["prompt"][0]["content"] for row in written] == [f"{text}\n\nBox it." for text in texts]
    assert [row["extra_info"]["variant"] for row in written] == [0, 1, 2, 0]
    assert [row["extra_info"]["neighbor_id"] for row in written] == [None, "c_a", "c_b", None]
    assert [row["extra_info"]["index"] for row in written] == [0, 1, 2, 3]
    assert [row["reward_model"]["ground_truth"] for row in written] == ["5", "5", "5", "4"]
    assert len({row["extra_info"]["question_id"] for row in written}) == 2
    assert (counts["questions"], counts["neighbors"], counts["rows"]) == (2, 2, 4)


def graded(response: str, gold: str, about: dict[str, Any]) -> float:
    return float(asyncio.run(compute_score("x", response, gold, about))["acc"])


@pytest.mark.parametrize("layout", ["grouped", "flat"])
def test_kind_and_tolerance_travel_to_the_reward(tmp_path, layout):
    answers = AnswerForm(AnswerKind.TOLERANCE, "0.1")
    export(tmp_path / "out", layout=layout, answer_kind="tolerance", tolerance="0.1", validation_share=0.5)
    for file in ("train.parquet", "validation.parquet"):
        for row in rows(tmp_path / "out" / file):
            about = row["extra_info"]
            gold = row["reward_model"]["ground_truth"]
            near = f"\\boxed{{{gold}.05}}"
            assert graded(near, gold, about) == 1.0
            assert graded(near, gold, {**about, "answer_kind": "latex", "tolerance": None}) == 0.0
    assert read_data(tmp_path / "out", verify=True).answers == answers


def test_long_neighbors_and_questions_are_left_out_and_listed(tmp_path):
    long_one = entry("Add " + "1, " * 300, "300", neighbor("c_lost", "Count to 300."))
    mixed = entry("Halve 6.", "3", neighbor("c_long", "Halve " + "6 " * 300), neighbor("c_ok", "And 6/2?"))
    returned = export(tmp_path / "out", (long_one, mixed))
    assert [row["neighbor_ids"] for row in rows(tmp_path / "out" / "train.parquet")] == [["c_ok"]]
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]
    assert counts == {**returned, "neighbors_per_question": {"1": 1}}
    [dropped] = counts["dropped_neighbors"]
    assert dropped.pop("tokens") > 300
    assert dropped == {"question_id": mixed.question.id, "neighbor_id": "c_long"}
    [question] = counts["dropped_questions"]
    assert (question["question_id"], question["neighbor_id"]) == (long_one.question.id, None)
    assert counts["neighbors_of_dropped_questions"] == 1
    assert counts["longest_prompt"] <= 200


def test_validation_questions_are_the_same_in_any_order_and_stand_without_neighbors(tmp_path):
    many = tuple(entry(f"Double {n}.", str(2 * n), neighbor(f"c{n}", "x")) for n in range(20))
    counts = export(tmp_path / "a", many, layout="flat", validation_share=0.2)
    export(tmp_path / "b", many[::-1], layout="flat", validation_share=0.2)

    def ids(name: str) -> set[str]:
        return {row["extra_info"]["question_id"] for row in rows(tmp_path / name)}

    assert counts["validation_questions"] == 4
    held_back = rows(tmp_path / "a" / "validation.parquet")
    assert [row["extra_info"]["variant"] for row in held_back] == [0, 0, 0, 0]
    assert {row["extra_info"]["split"] for row in held_back} == {"validation"}
    assert ids("a/validation.parquet") == ids("b/validation.parquet")
    assert not ids("a/train.parquet") & ids("a/validation.parquet")
    assert (counts["neighbors"], counts["rows"]) == (16, 32)


@pytest.mark.parametrize(
    ("entries", "changes", "message"),
    [
        ((), {}, "toy@1: the set has no questions"),
        ((entry("Halve 8.", ""),), {}, "has no answer"),
        (
            ENTRIES,
            {"template": PromptTemplate(max_prompt_tokens=20)},
            r"longer than 20 tokens \(the shortest",
        ),
        (ENTRIES, {"answer_kind": "choice"}, "its answer '5' is not a valid choice"),
        ((LONE,), {"validation_share": 0.1}, "leaves none of 1 questions"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_nothing_is_left(tmp_path, entries, changes, message):
    with pytest.raises(InputError, match=message):
        export(tmp_path / "out", entries, **changes)
    assert list(tmp_path.iterdir()) == []


def test_only_an_older_export_is_overwritten_and_only_when_asked(tmp_path):
    export(tmp_path / "out", (SUM,), validation_share=0.0)
    with pytest.raises(InputError, match="--overwrite"):
        export(tmp_path / "out")
    assert len(rows(tmp_path / "out" / "train.parquet")) == 1
    export(tmp_path / "out", overwrite=True)
    assert len(rows(tmp_path / "out" / "train.parquet")) == 2

    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="contains no manifest"):
        export(tmp_path / "letters", overwrite=True)
    assert (tmp_path / "letters" / "letter.txt").read_text() == "dear"


@pytest.fixture
def tokenizer(tmp_path_factory, monkeypatch):
    from tiny_model import save_tiny_tokenizer

    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    return save_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def test_lengths_are_those_of_the_chat_template(tmp_path, tokenizer):
    # One token a byte and one a special token: "user\n" + text + "\n" and "assistant\n" with three marks.
    asked = len("What is 2+3?\n\nBox it.")
    expected = 1 + len("user\n") + asked + 1 + len("\n") + 1 + len("assistant\n")
    template = PromptTemplate(instruction="Box it.", tokenizer=str(tokenizer), max_prompt_tokens=expected)
    manifest = export_entries(tmp_path / "out", ENTRIES, template)
    assert manifest["counts"]["longest_prompt"] == expected
    assert manifest["prompt_lengths"] == "tokenizer"
    long = len("Find the sum of 2 and 3.") - len("What is 2+3?")
    dropped = {"question_id": SUM.question.id, "neighbor_id": "c_b", "tokens": expected + long}
    assert manifest["counts"]["dropped_neighbors"] == [dropped]


@pytest.mark.slow
def test_verls_own_data_set_reads_a_flat_export(tmp_path, tokenizer):
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    export(tmp_path / "out", layout="flat")
    file = tmp_path / "out" / "train.parquet"
    config = OmegaConf.create({"max_prompt_length": 200, "filter_overlong_prompts_workers": 1})
    read = RLHFDataset(str(file), AutoTokenizer.from_pretrained(tokenizer), config)
    for row, written in zip(read, rows(file), strict=True):
        assert row["raw_prompt"] == written["prompt"]
        for name in ("data_source", "reward_model", "extra_info"):
            assert row[name] == written[name]


def test_a_tokenizer_that_cannot_be_loaded_says_what_to_do(tmp_path, tokenizer, monkeypatch):
    absent = PromptTemplate(tokenizer=str(tmp_path / "nowhere"))
    with pytest.raises(PrerequisiteError, match=r"not be loaded .*`tagrpo sets export` without --tokenizer"):
        export(tmp_path / "out", template=absent)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(PrerequisiteError, match="Install the extra `train`"):
        export(tmp_path / "out", template=absent)
