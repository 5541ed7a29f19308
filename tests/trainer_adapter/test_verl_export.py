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
from trainer_adapter.verl.export import AnswerForm, DroppedPrompt, VerlExportReport
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
) -> VerlExportReport:
    return export_entries(folder, entries, template, **changes)


def rows(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())


def test_grouped_has_one_row_a_question_with_its_neighbors_inside(tmp_path):
    report = export(tmp_path / "out")
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
    assert (report.questions, report.neighbors, report.rows) == (2, 2, 2)
    assert report.verdicts == {"accepted": 1, "unverified": 1}
    assert report.neighbors_per_question == {0: 1, 2: 1}
    assert export(tmp_path / "again").files[0].read_bytes() == report.files[0].read_bytes()


def test_only_neighbors_of_the_strategies_are_exported(tmp_path):
    harder = Neighbor("c_h", "Add 2, 3 and 0.", "file", "harder", "h", "file", "accepted", None, False)
    mixed = (replace(SUM, neighbors=(*SUM.neighbors, harder)), LONE)
    report = export(tmp_path / "e", mixed, strategies=("harder",))
    first, second = rows(tmp_path / "e" / "train.parquet")
    assert (first["neighbor_ids"], second["neighbor_ids"], report.neighbors) == (["c_h"], [], 1)
    assert json.loads((tmp_path / "e" / "manifest.json").read_text())["strategies"] == ["harder"]
    with pytest.raises(InputError, match=r"no neighbor has the strategy easier\. Choose from harder, para"):
        export(tmp_path / "f", mixed, strategies=("easier",))


def test_flat_has_one_row_a_prompt(tmp_path):
    report = export(tmp_path / "out", layout="flat")
    written = rows(tmp_path / "out" / "train.parquet")
    texts = ("What is 2+3?", "Add 2 and 3.", "Find the sum of 2 and 3.", "Halve 8.")
    assert [row["prompt"][0]["content"] for row in written] == [f"{text}\n\nBox it." for text in texts]
    assert [row["extra_info"]["variant"] for row in written] == [0, 1, 2, 0]
    assert [row["extra_info"]["neighbor_id"] for row in written] == [None, "c_a", "c_b", None]
    assert [row["extra_info"]["index"] for row in written] == [0, 1, 2, 3]
    assert [row["reward_model"]["ground_truth"] for row in written] == ["5", "5", "5", "4"]
    assert len({row["extra_info"]["question_id"] for row in written}) == 2
    assert (report.questions, report.neighbors, report.rows) == (2, 2, 4)


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
    report = export(tmp_path / "out", (long_one, mixed))
    assert [row["neighbor_ids"] for row in rows(report.files[0])] == [["c_ok"]]
    [dropped] = report.dropped_neighbors
    assert (dropped.question_id, dropped.neighbor_id) == (mixed.question.id, "c_long")
    assert dropped.tokens > 300
    [question] = report.dropped_questions
    assert (question.question_id, question.neighbor_id) == (long_one.question.id, None)
    assert report.neighbors_of_dropped_questions == 1
    assert report.longest_prompt <= 200
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]
    assert counts["dropped_neighbors"] == [
        {"question_id": mixed.question.id, "neighbor_id": "c_long", "tokens": dropped.tokens}
    ]


def test_validation_questions_are_the_same_in_any_order_and_stand_without_neighbors(tmp_path):
    many = tuple(entry(f"Double {n}.", str(2 * n), neighbor(f"c{n}", "x")) for n in range(20))
    forwards = export(tmp_path / "a", many, layout="flat", validation_share=0.2)
    backwards = export(tmp_path / "b", many[::-1], layout="flat", validation_share=0.2)

    def ids(path: Path) -> set[str]:
        return {row["extra_info"]["question_id"] for row in rows(path)}

    assert forwards.validation_questions == 4
    held_back = rows(forwards.files[1])
    assert [row["extra_info"]["variant"] for row in held_back] == [0, 0, 0, 0]
    assert {row["extra_info"]["split"] for row in held_back} == {"validation"}
    assert ids(forwards.files[1]) == ids(backwards.files[1])
    assert not ids(forwards.files[0]) & ids(forwards.files[1])
    assert (forwards.neighbors, forwards.rows) == (16, 32)


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
    report = export(tmp_path / "out", template=template)
    assert report.longest_prompt == expected
    assert not report.lengths_estimated
    long = len("Find the sum of 2 and 3.") - len("What is 2+3?")
    assert report.dropped_neighbors == (DroppedPrompt(SUM.question.id, "c_b", expected + long),)


@pytest.mark.slow
def test_verls_own_data_set_reads_a_flat_export(tmp_path, tokenizer):
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    files = export(tmp_path / "out", layout="flat").files
    config = OmegaConf.create({"max_prompt_length": 200, "filter_overlong_prompts_workers": 1})
    read = RLHFDataset(str(files[0]), AutoTokenizer.from_pretrained(tokenizer), config)
    for row, written in zip(read, rows(files[0]), strict=True):
        assert row["raw_prompt"] == written["prompt"]
        for name in ("data_source", "reward_model", "extra_info"):
            assert row[name] == written[name]


def test_a_tokenizer_that_cannot_be_loaded_says_what_to_do(tmp_path, tokenizer, monkeypatch):
    absent = PromptTemplate(tokenizer=str(tmp_path / "nowhere"))
    with pytest.raises(PrerequisiteError, match=r"not be loaded .*`tagrpo sets export` without --tokenizer"):
        export(tmp_path / "out", template=absent)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'tagrpo\[train\]'"):
        export(tmp_path / "out", template=absent)
