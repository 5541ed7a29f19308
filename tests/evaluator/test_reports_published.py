"""The published figures: as printed, with notes on those that do not fit."""

from collections.abc import Sequence

import pytest

from evaluator.benchmarks import BENCHMARKS
from evaluator.reports import published
from evaluator.reports.published import Paper, paper_of, papers
from service.errors import InputError

TA, A_GRAE, CW = papers()
QWEN, R1, VL = "Qwen2.5-Math-7B", "DeepSeek-R1-7B", "Qwen2.5-VL-3B-Instruct"
SMALL, LARGE = "DeepSeek-R1-Distill-Qwen-1.5B", "Qwen-2.5-Math-7B-Instruct"
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIX = ("amc12", "olympiadbench", "aime24", "aime25", "minerva", "gpqa-diamond")


def figure(model: str, method: str, column: str, k: int) -> float:
    return float(paper_of(model).figures[model, method, column, k].printed)


def mean(model: str, method: str, columns: Sequence[str], k: int = 32) -> float:
    return sum(figure(model, method, column, k) for column in columns) / len(columns)


def marked(model: str) -> list[tuple[object, ...]]:
    """Return method, column and k of the figures that are marked as odd."""
    figures = paper_of(model).figures
    return sorted(
        (method, *place) for (of, method, *place), figure in figures.items() if of == model and figure.odd
    )


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


def test_one_average_of_ta_grpo_is_not_the_mean_of_its_columns() -> None:
    assert [(model, marked(model)) for model in TA.models if marked(model)] == [
        ("Qwen3-4B", [("TA-GRPO", "competition", 32)])
    ]
    (flag,) = [flag for flag in published.flags("Qwen3-4B", [32]) if "66.73" in flag]
    assert "which is 66.48" in flag
    assert flag.endswith("(!).")


def test_equal_rewards_differ_by_what_is_printed() -> None:
    (table,) = published.printed_list("equal rewards").tables
    assert table.title.endswith("(arXiv:2601.22478 v5, Figure 3 and section 5.2)")
    for *_, original, neighbors, difference in table.rows:
        gap = float(neighbors.rstrip("%")) - float(original.rstrip("%"))
        assert f"{gap:+.1f} points" == difference


def test_a_grae_is_above_what_it_is_added_to() -> None:
    pairs = [
        (model, method, key)
        for model, keys in ((QWEN, KS), (R1, KS), (VL, (1,)))
        for method in ("GRPO", "DAPO", "Dr.GRPO")
        for column in published.layout_of(model)
        for key in [(column.key, k) for k in keys]
    ]
    assert len(pairs) == 3 * (27 + 27 + 6)
    for model, method, (column, k) in pairs:
        assert figure(model, f"{method} + A-GRAE", column, k) >= figure(model, method, column, k)


def test_ranks_that_the_text_of_a_grae_states_and_its_tables_do_not() -> None:
    sample, group, full = (f"GRPO + A-GRAE{end}" for end in (" (sample level)", " (group level)", ""))
    assert figure(QWEN, sample, "aime25", 1) < figure(QWEN, group, "aime25", 1)  # third, not second
    assert figure(QWEN, full, "aime25", 256) < figure(QWEN, group, "aime25", 256)
    assert figure(QWEN, full, "math-test", 128) < figure(QWEN, "W-REINFORCE", "math-test", 128)
    assert figure(QWEN, sample, "aime25", 1) < figure(QWEN, "Hard-Focused", "aime25", 1)


def test_figures_of_a_grae_that_do_not_fit() -> None:
    copies = [("Positive-Dominant", "amc23", k) for k in KS]
    assert marked(QWEN) == sorted(
        [
            ("GRPO", "amc23", 1),  # 60.2 in Table 2, 59.2 in Tables 5 and 6
            *copies,  # those of GRPO
            ("Dr.GRPO + A-GRAE", "math-test", 8),
            ("Dr.GRPO + A-GRAE", "aime25", 64),
            ("Dr.GRPO + A-GRAE", "amc23", 128),
            ("GRPO + A-GRAE (group level)", "math-test", 128),
            ("Easy-Focused", "aime25", 128),
        ]
    )
    assert marked(R1) == [("DAPO + A-GRAE", "amc23", 64), ("GRPO + A-GRAE", "amc23", 64)]


def test_figures_of_other_papers_are_said_to_be_those_that_a_grae_printed() -> None:
    (words,) = [flag for flag in published.flags(QWEN, [1]) if "W-REINFORCE (arXiv" in flag]
    assert "GRPO-LEAD (arXiv:2504.09696)" in words
    assert "figures from the A-GRAE paper" in words
    assert {"W-REINFORCE", "GRPO-LEAD"} <= published.published_rows(QWEN, 1).keys()
    assert not any("W-REINFORCE" in flag for flag in published.flags(R1, [1]))


def test_averages_and_gains_of_cw_grpo() -> None:
    five = [column.key for column in CW.layout if not column.of]
    methods = ("GRPO", "Clip-Cov", "CW-GRPO")
    for model in (SMALL, LARGE):
        for method in ("Base Model", *methods):
            printed = figure(model, method, "five", 1)
            assert mean(model, method, five, 1) == pytest.approx(printed, abs=0.05)
    gains = [
        round(figure(m, each, "five", 1) - figure(m, "Base Model", "five", 1), 1)
        for m in (SMALL, LARGE)
        for each in methods
    ]
    assert gains == [3.7, 4.7, 6.4, 2.7, 3.3, 5.3]  # printed: 4.3 for the last
    texts = published.flags(LARGE, [1])
    assert (
        "the text calls 4.3 (Table 2) a gain of CW-GRPO over Base Model; according to the tables it is 5.3."
        in texts
    )


def test_counts_of_cw_grpo_show_one_sample_a_problem() -> None:
    counts = {"aime24": 3 / 30, "math500": 412 / 500, "amc23": 23 / 40, "minerva": 88 / 272}
    counts["olympiadbench"] = 279 / 675
    assert {key: round(100 * share, 1) for key, share in counts.items()} == {
        key: figure(LARGE, "Clip-Cov", key, 1) for key in counts
    }
    assert marked(LARGE) == []
    assert marked(SMALL) == [
        ("Base Model", "aime24", 1),
        ("Base Model", "amc23", 1),
        ("Clip-Cov", "math500", 1),
        ("Clip-Cov", "olympiadbench", 1),
        ("GRPO, 200 steps", "olympiadbench", 1),
    ]


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


def test_a_model_that_no_paper_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"the model .Qwen3-8B.\. Available: Qwen3-1\.7B"):
        published.find_model("Qwen3-8B")


def test_benchmarks_take_the_order_of_the_first_paper() -> None:
    assert published.in_order(["gsm8k", "aime25", "own", "amc12"]) == ["amc12", "aime25", "gsm8k", "own"]
