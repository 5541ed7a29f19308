"""The published figures: as printed, and flagged where they do not add up."""

import pytest

from evaluator.benchmarks import BENCHMARKS
from evaluator.reports import published
from evaluator.reports.published import COLUMNS, LAYOUT, TABLE, Average
from service.errors import InputError


def test_every_row_has_a_figure_for_every_column() -> None:
    assert len(LAYOUT) == 8
    for rows in TABLE.values():
        assert tuple(rows) == published.METHODS
        assert all(len(printed) == 8 for printed in rows.values())


def test_columns_are_benchmarks_of_the_same_size() -> None:
    assert {column.benchmark: BENCHMARKS[column.benchmark].rows for column in COLUMNS} == {
        column.benchmark: column.problems for column in COLUMNS
    }


def test_one_average_is_not_the_mean_of_its_columns() -> None:
    odd = [
        (model, row.method, [row.printed[place] for place in row.odd])
        for model in TABLE
        for row in published.published_rows(model)
        if row.odd
    ]
    assert odd == [("Qwen3-4B", "TA-GRPO", ["66.73"])]
    (flag,) = [flag for flag in published.flags("Qwen3-4B") if "66.73" in flag]
    assert "66.48" in flag
    assert not any("mean of its columns" in flag for flag in published.flags("Qwen3-1.7B"))


def test_the_gains_that_the_flag_names_follow_from_the_table() -> None:
    def mean_of_six(model: str, method: str) -> float:
        printed = TABLE[model][method]
        values = [float(v) for v, c in zip(printed, LAYOUT, strict=True) if not isinstance(c, Average)]
        return sum(values) / 6

    def gain(model: str, over: str) -> float:
        return mean_of_six(model, "TA-GRPO") - mean_of_six(model, over)

    gains = [gain(m, o) for o in ("GRPO w/ DS", "GRPO") for m in ("Qwen3-1.7B", "Qwen3-4B")]
    assert gains == pytest.approx([4.97, 4.34, 6.05, 5.18], abs=0.01)
    assert all(number in published.GAINS_FLAG for number in ("4.97", "4.34", "6.05", "5.18"))
    assert published.GAINS_FLAG not in published.flags("Llama-3.2-1B")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Qwen3-4B", "Qwen3-4B"),
        ("hosted_vllm/Qwen/Qwen3-4B", "Qwen3-4B"),
        ("meta-llama/llama-3.2-1b", "Llama-3.2-1B"),
        ("Qwen/Qwen3-4B-Base", None),
        ("my-run/checkpoint-100", None),
    ],
)
def test_models_are_known_by_the_end_of_their_name(name: str, found: str | None) -> None:
    assert published.recognise(name) == found


def test_a_model_that_the_table_has_not_is_refused() -> None:
    with pytest.raises(InputError, match=r"no model .Qwen3-8B.; it has Qwen3-1\.7B"):
        published.find_model("Qwen3-8B")


def test_benchmarks_take_the_order_of_the_table() -> None:
    assert published.in_order(["gsm8k", "aime25", "own", "amc12"]) == ["amc12", "aime25", "gsm8k", "own"]
