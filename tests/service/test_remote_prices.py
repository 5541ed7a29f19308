"""Price tables: the user's, litellm's, and what is not known."""

from pathlib import Path

import pytest

from service.errors import BudgetError, InputError
from service.models.remote import Price, PriceTable


def nothing_known(_: str) -> Price | None:
    return None


def test_the_users_price_wins_over_litellms() -> None:
    assert PriceTable().price("gpt-4-turbo") == Price(10.0, 30.0)
    assert PriceTable.read(spellings=["gpt-4-turbo=1,2.5"]).price("gpt-4-turbo") == Price(1.0, 2.5)


def test_a_model_of_ones_own_server_has_no_price_until_it_is_told() -> None:
    model = "hosted_vllm/Qwen/Qwen3-4B"
    assert PriceTable().price(model) is None
    assert PriceTable.read(spellings=[f"{model}=0,0"]).price(model) == Price(0.0, 0.0)
    assert PriceTable.read(spellings=["Qwen/Qwen3-4B=0.1,0.2"]).price(model) == Price(0.1, 0.2)


def test_an_unknown_price_is_refused_with_the_way_out() -> None:
    with pytest.raises(BudgetError, match=r"--price own/model=IN,OUT.*own/model=0,0"):
        PriceTable(known=nothing_known).require("own/model")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.toml", '"own/model" = {prompt = 1.5, completion = 2}\nother = [3, 4]\n'),
        ("prices.json", '{"own/model": {"prompt": 1.5, "completion": 2}, "other": [3, 4]}'),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    table = PriceTable.read(path, ["other=5,6"])
    assert table.price("own/model") == Price(1.5, 2.0)
    assert table.price("other") == Price(5.0, 6.0)


@pytest.mark.parametrize(
    "spelling", ["gpt-4-turbo", "m=1", "m=1,2,3", "m=a,b", "m=-1,2", "m=nan,1", "m=inf,1"]
)
def test_prices_that_are_none_are_refused(spelling: str) -> None:
    with pytest.raises(InputError, match="--price"):
        PriceTable.read(spellings=[spelling])


@pytest.mark.parametrize("text", ["no = [toml", "x = 3", "x = {prompt = 1}"])
def test_files_that_are_no_tables_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"prices\.toml"):
        PriceTable.read(path)


def test_costs_are_per_million_tokens() -> None:
    assert Price(10.0, 30.0).cost(1000, 500) == pytest.approx(0.025)
    assert Price(10.0, 30.0).scaled(0.5) == Price(5.0, 15.0)
