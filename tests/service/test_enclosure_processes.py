"""The processes that run programs: in a fork, beside many open files, and when nobody waits for them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.enclosure.namespaces import Limits
from service.enclosure.running import Enclosures, Program, ProgramResult

LIMITS = Limits(seconds=1, wall_seconds=2.0, memory_mb=256)


@pytest.fixture
def enclosures() -> Iterator[Enclosures]:
    with Enclosures() as kept:
        yield kept


def run(enclosures: Enclosures, program: str, tests: str = "f()") -> ProgramResult:
    return enclosures.run(Program((program,)), tests, LIMITS)


def test_a_fork_has_launchers_of_its_own(enclosures: Enclosures) -> None:
    assert run(enclosures, "def f(): return 1", "assert f() == 1").value == "passed"
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            value = run(enclosures, "def f(): return 2", "assert f() == 2").value
            enclosures.close()
            os.write(writes, value.encode())
        finally:
            os._exit(0)
    assert run(enclosures, "def f(): return 3", "assert f() == 3").value == "passed"
    os.close(writes)
    assert os.read(reads, 100) == b"passed"
    os.waitpid(child, 0)
    os.close(reads)


@pytest.mark.slow
def test_tests_that_nobody_waits_for_end_too() -> None:
    """The grader is killed while its tests run for ever."""
    script = """
from service.enclosure import running
from service.enclosure.namespaces import Limits

shorter = "import sys; sys.modules[main.__module__]._LEFT_ALONE_S = 2; main()"
running._START = running._START.replace("main()", shorter)
tests = "f()" + chr(10) + "while True: pass"
running.Enclosures().run(running.Program(("def f(): pass",)), tests, Limits(1, 0.5))
"""
    root = str(Path(__file__).resolve().parents[2])
    grader = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": root})
    until = time.monotonic() + 30
    inside: list[psutil.Process] = []
    while len(inside) < 4:  # two that launch, the tests, the program
        assert time.monotonic() < until
        assert grader.poll() is None
        inside = psutil.Process(grader.pid).children(recursive=True)
    grader.kill()
    grader.wait()
    assert psutil.wait_procs(inside, timeout=20)[1] == []
