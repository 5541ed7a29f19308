"""Importing the client loads no litellm; using it asks no network for prices."""

import subprocess
import sys

import pytest

OFFLINE = """
import socket, sys
import service.models.remote
assert "litellm" not in sys.modules

def refuse(*arguments, **settings):
    raise AssertionError("something wants the network")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
from service.models.remote import PriceTable
price = PriceTable().price("gpt-4-turbo")
assert "litellm" in sys.modules
print(price.prompt, price.completion)
"""


@pytest.mark.slow
def test_importing_loads_no_litellm_and_prices_need_no_network() -> None:
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10.0", "30.0"]
