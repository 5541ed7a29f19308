"""The published figures: as printed, with notes on those that do not fit."""

import pytest

from evaluator.reports import published
from evaluator.reports.published import papers

TA, A_GRAE, CW = papers()
QWEN, R1, VL = "Qwen2.5-Math-7B", "DeepSeek-R1-7B", "Qwen2.5-VL-3B-Instruct"
SMALL, LARGE = "DeepSeek-R1-Distill-Qwen-1.5B", "Qwen-2.5-Math-7B-Instruct"
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


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
