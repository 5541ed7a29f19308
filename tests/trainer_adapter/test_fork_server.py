"""Workers as forks: each is what a Python of its own would be, and nothing outlives what it belongs to."""

import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks, gone, started_forks

from trainer_adapter.verl.cpu import fork_server
from trainer_adapter.verl.cpu.fork_server import VARIABLE
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


@pytest.mark.slow
def test_forks_of_what_verl_needs_draw_apart(verl_forks: Forks, tmp_path: Path) -> None:
    """Ray names its objects by numbers that it draws: had two workers the same, one would get the other's."""
    script = tmp_path / "draw.py"
    script.write_text(
        "import json, sys\nloaded = 'peft' in sys.modules\nimport random, uuid, numpy\n"
        "from ray._raylet import UniqueID\n"
        "drawn = UniqueID.from_random().hex(), str(uuid.uuid4()), random.random(), numpy.random.random()\n"
        "print(json.dumps({'loaded': loaded, 'drawn': drawn}))\n"
    )
    said = [verl_forks.run(script=script)[1] for _ in range(3)]
    assert all(each["loaded"] for each in said)
    for own in zip(*(each["drawn"] for each in said), strict=True):
        assert len(set(own)) == 3


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


def test_the_command_holds_in_folders_with_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a folder/bin/python")
    assert shlex.split(fork_server.python_of_workers())[:3] == ["/a folder/bin/python", "-I", "-S"]


def test_a_fork_runs_what_is_registered_for_its_end(forks: Forks) -> None:
    forks.script.write_text(
        "import atexit, json\natexit.register(print, json.dumps({'ended': True}), flush=True)\n"
    )
    assert forks.run()[:2] == (0, {"ended": True})


def test_a_fork_that_fails_says_why(forks: Forks) -> None:
    code, _, err = forks.run("0", "fail")
    assert code == 1
    assert "ValueError: told to" in err


@pytest.mark.slow
@pytest.mark.parametrize("path", ["", "/nowhere/socket"])
def test_without_a_server_it_becomes_a_python_of_its_own(forks: Forks, path: str) -> None:
    code, said, _ = forks.run("5", **{VARIABLE: path})
    assert code == 5
    assert not said["forked"]


@pytest.mark.parametrize(
    "text",
    ["import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", ""],
)
def test_imports_that_are_unfit_for_forks_leave_no_server(tmp_path: Path, text: str) -> None:
    name = "threaded" if text else "ray"
    (tmp_path / f"{name}.py").write_text(text)
    modules = f'__import__("sys").path.insert(0, {str(tmp_path)!r}) or [{name!r}]'
    with started_forks(tmp_path, modules) as forks:
        forks.script.write_text(_SCRIPT)
        code, said, _ = forks.run("6")
        assert code == 6
        assert not said["forked"]
        assert forks.servers == []
        assert "workers cannot be forked" in (tmp_path / "owner.log").read_text()


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


def test_a_server_is_left_behind_only_where_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for value in ("", str(tmp_path / "another")):
        monkeypatch.setenv(VARIABLE, value)
        fork_server.start()
        assert os.environ[VARIABLE] == value
        assert list(tmp_path.iterdir()) == []
