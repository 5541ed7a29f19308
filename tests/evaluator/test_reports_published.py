"""The published figures: as printed, with notes on those that do not fit."""

from collections.abc import Sequence

import pytest

from evaluator.benchmarks import BENCHMARKS
from evaluator.reports import published
from evaluator.reports.published import Paper, paper_of, papers

TA, A_GRAE, CW = papers()
QWEN, R1, VL = "Qwen2.5-Math-7B", "DeepSeek-R1-7B", "Qwen2.5-VL-3B-Instruct"
SMALL, LARGE = "DeepSeek-R1-Distill-Qwen-1.5B", "Qwen-2.5-Math-7B-Instruct"
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIX = ("amc12", "olympiadbench", "aime24", "aime25", "minerva", "gpqa-diamond")


def figure(model: str, method: str, column: str, k: int) -> float:
    return float(paper_of(model).figures[model, method, column, k].printed)


def mean(model: str, method: str, columns: Sequence[str], k: int = 32) -> float:
    return sum(figure(model, method, column, k) for column in columns) / len(columns)


def test_each_paper_holds_what_it_prints() -> None:
    sizes = {
        paper.name: sum(len(row.split()) for table in paper.tables for row in table["rows"].values())
        for paper in papers()
    }
    assert sizes == {
        "TA-GRPO": 4 * 4 * 8 + 2,
        "A-GRAE": 3 * 9 * (9 + 7 + 5 + 8) + 2 * 7 * 3,
        "CW-GRPO": 2 * 4 * 6 + 6 * 6 + 2 + 4 + 6 * 2,
    }
    assert {paper.name: paper.source for paper in papers()} == {
        "TA-GRPO": "arXiv:2601.22478 v5",
        "A-GRAE": "arXiv:2602.05548 (text of February 5, 2026)",
        "CW-GRPO": "arXiv:2605.11538 (as of May 13, 2026)",
    }
    assert A_GRAE.ks(QWEN) == A_GRAE.ks(R1) == KS
    assert len(published.models()) == len(set(published.models()))  # a model is in one paper


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_columns_are_benchmarks_of_the_same_size(paper: Paper) -> None:
    keys = {column.key for column in paper.layout if not column.of}
    assert {key for table in paper.tables for key in table["columns"]} == {
        column.key for column in paper.layout
    }
    for column in paper.layout:
        if column.of:
            assert keys.issuperset(column.of)
        elif column.problems is not None and column.key in BENCHMARKS:
            assert column.problems == BENCHMARKS[column.key].rows
    assert set(paper.models).issuperset(model for note in paper.notes for model in note.get("models", ()))
    for note in paper.notes:
        for method, column, ks in note.get("odd", ()):
            assert all((model, method, column, k) in paper.figures for model in note["models"] for k in ks)


def test_gains_of_ta_grpo_are_those_over_dynamic_sampling() -> None:
    def gains(over: str, columns: Sequence[str]) -> list[float]:
        return [mean(m, "TA-GRPO", columns) - mean(m, over, columns) for m in TA.models]

    with_ds = "GRPO w/ DS"
    assert gains(with_ds, ["competition"]) == pytest.approx([5.09, 5.01, 3.50, 5.25], abs=0.001)
    assert gains(with_ds, ["out-of-distribution"]) == pytest.approx([4.74, 3.53, 3.40, 2.68], abs=0.001)
    assert gains(with_ds, SIX)[:2] == pytest.approx([4.97, 4.34], abs=0.01)
    assert gains("GRPO", SIX)[:2] == pytest.approx([6.05, 5.18], abs=0.01)
    assert [mean(m, "TA-GRPO", SIX) for m in ("Qwen3-1.7B", "Qwen3-4B")] == pytest.approx(
        [61.39, 68.59], abs=0.005
    )
    (words,) = [flag for flag in published.flags("Qwen3-1.7B", [32]) if "gains of TA-GRPO" in flag]
    assert words.endswith("that is over GRPO w/ DS, and over GRPO it is 6.05, 6.24 and 9.61.")


def test_rows_are_those_of_model_and_k() -> None:
    rows = published.published_rows(VL, 1)
    assert list(rows)[:2] == ["base model", "GRPO"]
    assert {key: figure.text for key, figure in list(rows.values())[2].items()} == {
        "geo3k": "45.7",
        "mathvision": "24.0",
        "mathverse": "36.8",
        "mri300": "88.2",
        "ct300": "73.1",
        "xray300": "71.3",
    }
    assert published.published_rows(VL, 2) == {}
    assert len(published.published_rows(QWEN, 256)) == 9 + 2 + 4
    assert published.labels(SMALL, 1) == ("Table 2", "Table 3")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen3-4B", "Qwen3-4B"),
        ("hosted_vllm/Qwen/Qwen3-4B", "Qwen3-4B"),
        ("meta-llama/llama-3.2-1b", "Llama-3.2-1B"),
        ("Qwen/Qwen2.5-Math-7B-Instruct", LARGE),
        ("Qwen/Qwen2.5-Math-7B", QWEN),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", R1),
        ("Qwen/Qwen3-4B-Base", None),
        ("my-run/checkpoint-100", None),
    ],
)
def test_models_are_known_by_the_end_of_their_name(name: str, model: str | None) -> None:
    assert published.recognise(name) == model
