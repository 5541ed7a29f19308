"""Prices and the worst case of a request."""

import subprocess
import sys

import pytest
from asking import question
from pictures import picture

from service.asks.money import Price, find_price, max_image_tokens, require_price, worst_pico
from service.asks.request import Message
from service.errors import BudgetError
from service.questions.images import read_image

OFFLINE = """
import socket, sys
import service.asks.remote, service.engines.opening
assert "litellm" not in sys.modules

def refuse(*arguments, **settings):
    raise AssertionError("something uses the network")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
from service.asks.money import find_price
price = find_price("gpt-4-turbo")
assert "litellm" in sys.modules
print(price.prompt, price.completion)
"""


@pytest.mark.slow
def test_importing_loads_no_litellm_and_prices_need_no_network() -> None:
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10.0", "30.0"]


def test_the_users_price_comes_before_litellms() -> None:
    assert find_price("openai/gpt-4-turbo", (1.0, 2.0)) == Price(1.0, 2.0)
    assert find_price("gpt-4-turbo") == Price(10.0, 30.0)
    assert find_price("hosted_vllm/m") is None
    assert require_price("hosted_vllm/m", (0.0, 0.0)) == Price(0.0, 0.0)
    with pytest.raises(BudgetError, match=r"hosted_vllm/m.*\[0,0\] if it is free"):
        require_price("hosted_vllm/m")


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
