"""Prices and the worst case of a request."""

import subprocess
import sys
from pathlib import Path

import pytest
from asking import question
from pictures import picture

from service.asks.money import Price, PriceTable, cost_pico, max_image_tokens, worst_pico
from service.asks.request import Message
from service.errors import BudgetError, InputError
from service.questions.images import read_image

OFFLINE = """
import socket, sys
import service.asks.remote, service.engines.opening
assert "litellm" not in sys.modules

def refuse(*arguments, **settings):
    raise AssertionError("something uses the network")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
from service.asks.money import PriceTable
price = PriceTable().price("gpt-4-turbo")
assert "litellm" in sys.modules
print(price.prompt, price.completion)
"""


@pytest.mark.slow
def test_importing_loads_no_litellm_and_prices_need_no_network() -> None:
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10.0", "30.0"]


def test_the_users_price_comes_before_litellms() -> None:
    table = PriceTable.read(spellings=["gpt-4-turbo=1,2", "m=3,4"])
    assert table.price("openai/gpt-4-turbo") == Price(1.0, 2.0)
    assert table.price("hosted_vllm/m") == Price(3.0, 4.0)
    assert PriceTable().price("gpt-4-turbo") == Price(10.0, 30.0)
    assert PriceTable().price("hosted_vllm/m") is None
    with pytest.raises(BudgetError, match="hosted_vllm/m=0,0 if it is free"):
        PriceTable().require("hosted_vllm/m")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.toml", '"gpt-4-turbo" = {prompt = 1.5, completion = 2}'),
        ("p.toml", '"gpt-4-turbo" = [1.5, 2]'),
        ("p.json", '{"gpt-4-turbo": [1.5, 2]}'),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert PriceTable.read(tmp_path / name).price("gpt-4-turbo") == Price(1.5, 2.0)


@pytest.mark.parametrize("spelling", ["m=1", "m=1,2,3", "m=a,b", "m=-1,2", "m=1,inf", "1,2"])
def test_invalid_prices_are_refused(spelling: str) -> None:
    with pytest.raises(InputError, match=f"^--price {spelling}: give"):
        PriceTable.read(spellings=[spelling])


@pytest.mark.parametrize("text", ["", "[1, 2]", '"m"', "{"])
def test_invalid_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError, match=r"p\.json: "):
        PriceTable.read(tmp_path / "p.json")


def test_costs_are_whole_picodollars() -> None:
    assert cost_pico(Price(10.0, 30.0), 1000, 100) == 13 * 10**9
    assert cost_pico(Price(0.1, 0.2), 3, 1) == 500_000
    assert cost_pico(None, 3, 1) is None


def test_the_worst_case_covers_prompt_images_and_all_responses() -> None:
    price = Price(1.0, 1.0)
    short = worst_pico(question(2), price)
    assert short == (len("What is 2 + 3?") + 16 + 64 + 50) * 10**6
    assert worst_pico(question(2, n=3), price) == short + 2 * 50 * 10**6
    assert worst_pico(question(2, prompt="é" * 10), price) == (20 + 16 + 64 + 50) * 10**6
    assert worst_pico(question(2), None) is None
    image = read_image(picture(size=(600, 500)))
    pictured = question(2, messages=(Message("user", "What is 2 + 3?", ("What is 2 + 3?", image)),))
    assert max_image_tokens(image) == 2_833 + 2 * 5_667
    assert worst_pico(pictured, price) == short + max_image_tokens(image) * 10**6
