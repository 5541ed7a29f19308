"""Workers as forks: each is what a Python of its own would be, and nothing outlives what it belongs to."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks, gone, started_forks

from trainer_adapter.verl.cpu.fork_worker import HEADER_BYTES

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="forks need Linux")

_SCRIPT = """
import json, os, sys, numpy
print(json.dumps({
    "arguments": sys.argv[1:], "name": __name__, "folder": os.getcwd(), "niceness": os.getpriority(0, 0),
    "alone": os.getpgid(0) == os.getpid(),
    "environment": dict(os.environ), "forked": "colorsys" in sys.modules, "drawn": numpy.random.random(),
}), flush=True)
print("to stderr", file=sys.stderr)
if "wait" in sys.argv:
    open(sys.argv[2], "w").write(str(os.getpid()))
    import time; time.sleep(60)
if "fail" in sys.argv:
    raise ValueError("told to")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    with started_forks(tmp_path) as forks:
        forks.script.write_text(_SCRIPT)
        yield forks


def test_a_fork_is_what_a_python_of_its_own_would_be(forks: Forks, tmp_path: Path) -> None:
    code, said, err = forks.run("7", "two words", OF_THIS_WORKER="yes")
    assert code == 7
    assert said["forked"]
    assert said["arguments"] == ["7", "two words"]
    assert said["name"] == "__main__"
    assert said["folder"] == str(tmp_path)
    assert said["alone"]
    assert said["niceness"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert said["environment"]["OF_THIS_WORKER"] == "yes"
    assert err == "to stderr\n"
    _, another, _ = forks.run("0")
    assert another["forked"]
    assert "OF_THIS_WORKER" not in another["environment"]
    assert another["drawn"] != said["drawn"]


def test_a_fork_that_cannot_begin_leaves_the_server_as_it_was(forks: Forks) -> None:
    asked = {"arguments": [str(forks.script), "0"], "environment": {}, "folder": "/nowhere", "niceness": 0}
    body = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as connection, open(os.devnull, "r+") as null:
        connection.connect(str(forks.socket))
        socket.send_fds(connection, [len(body).to_bytes(HEADER_BYTES, "big")], [null.fileno()] * 3)
        connection.sendall(body)
        assert connection.recv(100) == b""  # which makes a stand-in the worker itself
    assert forks.socket.exists()
    assert forks.run("0")[1]["forked"]


def test_a_fork_ends_with_its_stand_in_and_the_other_way_round(forks: Forks, tmp_path: Path) -> None:
    for victim in ("stand-in", "fork"):
        noted = tmp_path / victim
        worker = forks.worker("0", str(noted), "wait")
        deadline = time.monotonic() + 20
        while not (noted.exists() and noted.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        fork = int(noted.read_text())
        assert fork != worker.pid
        os.kill(worker.pid if victim == "stand-in" else fork, signal.SIGKILL)
        assert gone(fork)
        assert worker.wait(20) == (-signal.SIGKILL if victim == "stand-in" else 1)


def test_the_server_ends_with_its_owner_and_takes_its_folder_along(forks: Forks) -> None:
    assert forks.run("0")[1]["forked"]
    assert len(forks.servers) == 1
    forks.end()
    assert not forks.socket.parent.exists()
