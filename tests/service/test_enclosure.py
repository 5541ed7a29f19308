"""Programs that attack what runs them: nothing outside is read, written or reached, and no result forged."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from service.enclosure import channel, inside, running
from service.enclosure.running import Enclosure, Limits, ProgramResult
from service.program_gold import ProgramGold

pytestmark = pytest.mark.bubblewrap
ROOT = str(Path(__file__).resolve().parents[2])
LIMITS = Limits(seconds=1, wall_seconds=2.0, memory_mb=256)
FORGED = """
import json, os
def f():
    told = json.dumps({"value": "passed"}).encode()
    for number in range(64):
        try:
            os.write(number, told + b"\\n")
        except OSError:
            pass
    return 1
"""
SEARCHED = """
import gc
def f():
    values = [value for each in gc.get_objects() if isinstance(each, dict) for value in list(each.values())]
    return 2 if any(isinstance(value, str) and "abs(f() - " + "2)" in value for value in values) else 1
"""
NAMED = """
import os
os.write(3, b'{"names": ["__builtins__", "abs", "f"]}\\n' + 50 * b'{"value": true}\\n')
def f(): return 1
"""


KEPT = Enclosure()


@pytest.fixture(autouse=True, scope="module")
def _close():
    yield
    KEPT.close()


def run(
    program: str, tests: str = "f()", limits: Limits = LIMITS, enclosure: Enclosure = KEPT
) -> ProgramResult:
    return enclosure.run((program,), ProgramGold(tests), limits)


def value_of(program: str, enclosure: Enclosure = KEPT) -> str:
    """What `f()` of a program returns, told by tests that fail with it."""
    result = run(program, "raise ValueError(repr(f()))", enclosure=enclosure)
    assert result.value == "failed", result
    return result.text.removeprefix("ValueError: ")


def test_a_program_passes_or_says_where_it_failed():
    tests = "assert f(1) == 2\nassert f(2) == 3"
    assert run("def f(x):\n    return x + 1", tests) == ProgramResult("passed")
    assert run("def f(x):\n    return 2 * x", tests) == ProgramResult("failed", 2)
    assert run("def f(x):\n    return g(x)", tests).text == "NameError: name 'g' is not defined"
    assert run("def f(x):\n    return", tests) == ProgramResult("failed", 1)
    assert run("def f(x:", tests).value == "raised"


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("def f():\n    yield from range(10**5)", "assert sum(f()) == sum(range(10**5))"),
        (
            "def f():\n    yield from (1, 2, 3)\n    while True: pass",
            "g = f()\nassert [x for x, _ in zip(g, 'ab')] == [1, 2]",
        ),
        (
            "memo = {}\ndef f():\n    global memo\n    memo = {1: 2}",
            "f()\nassert memo[1] == 2 and list(memo) == [1]",
        ),
        ("def f(remote): return remote", "assert f(remote=3) == 3"),
        ("def f(): return bytes(2_000_000), bytearray(2)", "assert f() == (bytes(2_000_000), bytearray(2))"),
        (
            "from fractions import Fraction\ndef f(x): return x / 2, Fraction(3)",
            "from fractions import Fraction\nassert f(Fraction(-1, 3)) == (Fraction(-1, 6), 3)",
        ),
    ],
)
def test_a_right_program_passes(program, tests):
    assert run(program, tests, Limits(5, 5.0)) == ProgramResult("passed")


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("import sys\ndef f(): return 2\nsys.exit(0)", "raised"),
        ("import sys\ndef f(): sys.exit(0)", "raised"),
        ("def f(): raise SyntaxError", "raised"),  # of the program, so the tests are good
        ("import os\nos._exit(0)", "ended"),
        ("import os\ndef f(): os._exit(0)", "ended"),
        ("import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGKILL) or os.abort()", "ended"),
        ("class Any:\n    def __eq__(self, other): return True\ndef f(): return Any()", "failed"),
        ("class Any(int):\n    def __eq__(self, other): return True\ndef f(): return Any(1)", "failed"),
        ("class Any(int):\n    def __rsub__(self, other): return 0\ndef f(): return Any(1)", "failed"),
        ("import builtins\nbuiltins.abs = lambda x: 0\ndef f(): return 1", "failed"),
        ("def abs(x): return 0\ndef f(): return 1", "failed"),
        ("import unittest\nAssertionError = ValueError\ndef f(): print('passed'); return 1", "failed"),
        (FORGED, "failed"),
        ("import os\ndef f(): os.write(3, b'{}\\n'); return 2", "ended"),
        ("import socket\ndef f(): socket.socket(fileno=3).shutdown(socket.SHUT_RD) or f", "ended"),
        ("import os\ndef f(): os.write(3, b'1' * 2**23); os.read(3, 1)", "too large"),
        (SEARCHED, "failed"),
        (NAMED, "failed"),
    ],
)
def test_no_result_is_forged(program, value):
    assert run(program, "assert abs(f() - 2) < 0.1 and f() == 2").value == value


@pytest.mark.parametrize("sent", [{"bytes": 10**18}, {"Fraction": "1e999999999"}])
def test_no_value_takes_all_memory_or_time(sent):
    with pytest.raises((TypeError, ValueError)):
        channel.decode(sent, str)


def test_tests_do_not_answer_for_those_that_follow():
    forged = FORGED.replace("def f():", "if os.fork() == 0:").replace("    return 1", "")
    run("def f(): return 1", f"f()\n{forged}")
    assert run("def f(): return 1", "assert f() == 2").value in ("failed", "not run")
    assert run("def f(): return 1", "assert f() == 2") == ProgramResult("failed", 1)


HOARD = "def f():\n    x = []\n    while True: x.append(bytearray(10**7))"
MANY = """
import os, time
def f():
    for _ in range(6):
        if os.fork() == 0:
            held = b"x" * (100 * 2**20)
            time.sleep(60)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("def f():\n    while True: pass", "too slow"),
        ("import time\ndef f(): time.sleep(60)", "too slow"),
        ("while True: print('x' * 10**6)", "too slow"),
        (HOARD, "too large"),
        ("def f(): return 'x' * 2 * 10**7", "too large"),
        (MANY, "too large"),
    ],
)
def test_time_and_memory_end(program, value):
    assert run(program).value == value


SLEEPING = "import time\ndef f(seconds): time.sleep(seconds)"
CRASHING = """
import ctypes, time
def f():
    while time.process_time() < 0.6: pass
    ctypes.string_at(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "tests", "value"),
    [
        (SLEEPING, "import time\nf(0)\ntime.sleep(5.2)\nf(0)", "too slow"),
        (SLEEPING, "import signal\nsignal.alarm(60)\nf(60)", "too slow"),
        (CRASHING, "f()", "ended"),
    ],
)
def test_only_what_exceeds_a_limit_is_too_slow(program, tests, value):
    assert run(program, tests, Limits(1, 5.0)).value == value


def test_a_program_that_is_too_long_is_not_run():
    assert run("#" * channel.MAX_BYTES) == ProgramResult("too large", text="the program is too long")


@pytest.mark.slow
def test_a_fork_bomb_and_a_daemon_are_gone_with_the_result():
    bomb = """
import os, time
def f():
    made = 0
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
                while True: time.sleep(60)
            made += 1
        except OSError:
            return made
"""
    idle = 2  # bubblewrap and the server
    assert 0 < int(value_of(bomb)) <= inside.PROCESSES
    until = time.monotonic() + 2
    while sleepers() > idle and time.monotonic() < until:
        time.sleep(0.01)
    assert sleepers() <= idle
    forks = "import os\ndef f():\n    while True:\n        try: os.fork()\n        except OSError: pass"
    assert run(forks).value == "too slow"


def sleepers() -> int:
    """How many processes run in enclosures of this process."""
    count = 0
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            count += "service.enclosure.inside" in " ".join(each.cmdline())
    return count


def test_nothing_outside_is_seen(tmp_path, monkeypatch):
    database = tmp_path / "tagrpo.db"
    database.write_text("secret")
    database.chmod(0o644)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for path in (str(database), __file__, "/etc/passwd", "/proc/1/environ", "/proc/self/mem"):
        assert run(f"def f(): return open({path!r}).read()").text.startswith("FileNotFoundError")
    link = f"import os\ndef f():\n    os.symlink('../../../..{database}', 'a')\n    return open('a').read()"
    assert run(link).text.startswith("FileNotFoundError")
    with contextlib.closing(Enclosure()) as fresh:  # started with the key in the environment
        assert "secret" not in value_of("import os\ndef f(): return dict(os.environ)", fresh)
    seen = value_of("import os\ndef f(): return os.listdir('/tmp') + os.listdir('/dev')")
    assert sorted(eval(seen)) == ["null", "urandom"]
    assert value_of("import os\ndef f(): return os.getpid(), os.getppid()") == "(1, 0)"
    shown = (
        "from importlib.util import find_spec\ndef f(): return [bool(find_spec(n)) for n in ('csv', 'numpy')]"
    )
    assert value_of(shown) == "[True, False]"


def test_no_network_is_reached(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "192.0.2.1"):
            result = run(f"import socket\ndef f(): socket.create_connection(({host!r}, {port}), 1)")
            assert result.text.startswith("PermissionError")
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()
    unix = "import socket\ndef f(): socket.socket(socket.AF_UNIX).connect('\\0' + 'abstract-of-tagrpo')"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0abstract-of-tagrpo")
        listening.listen()
        assert run(unix).text.startswith("ConnectionRefusedError")


def test_nothing_is_written_beyond_a_few_megabytes():
    fill = """
import os
def f():
    kept = 0
    for number in range(100):
        try:
            with open(f"/tmp/{number}", "wb") as file: kept += file.write(bytes(2**20))
        except OSError:
            return kept
"""
    assert int(value_of(fill)) <= inside.FILE_MB * 2**20
    assert value_of("import os\ndef f(): return os.listdir('/tmp')") == "[]"  # the next one's is empty
    many = "def f():\n    for number in range(10**5): open(f'/tmp/{number}', 'w').close()"
    assert run(many).text.startswith("OSError: [Errno 28]")
    huge = "import os\ndef f():\n    with open('/tmp/a', 'wb') as file: os.truncate('/tmp/a', 2**40)"
    assert run(huge).value in ("raised", "ended")
    for place in ("os.__file__", "'/dev/sda'", "os.path.dirname(os.__file__) + '/new.py'"):
        assert run(f"import os\ndef f(): open({place}, 'r+').write('x')").value == "raised"


def test_no_privilege_and_no_other_program():
    calls = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def f():
    tried = [libc.unshare(0x10000000), libc.unshare(0x20000), libc.mount(b"x", b"/tmp", b"tmpfs", 0, None)]
    tried += [libc.chroot(b"/tmp"), libc.ptrace(0, 0, 0, 0), libc.shmget(0, 10**6, 0o1600), libc.setuid(0)]
    tried += [libc.memfd_create(b"a", 0), libc.syscall(435, 0, 0), libc.umount2(b"/tmp", 2)]
    return set(tried)
"""
    assert value_of(calls) == "{-1}"
    start = f"import subprocess\ndef f(): subprocess.run([{sys.executable!r}, '-c', ''])"
    assert run(start).text.startswith("PermissionError")
    assert value_of("import os\ndef f(): return os.system('true')") != "0"
    kill = "import os\ndef f():\n    os.kill(-1, 9)"
    assert run(kill).text.startswith("ProcessLookupError")


def test_tests_that_do_not_end_are_ended(monkeypatch):
    monkeypatch.setattr(running, "GRACE_S", 0.2)
    result = run("def f(): pass", "f()\nwhile True: pass", Limits(1, 0.5))
    assert result == ProgramResult("bad tests", None, "the tests did not finish")
    assert run("def f(): pass").value == "passed"


@pytest.mark.parametrize(
    ("bwrap", "words"),
    [
        (None, "which is not installed. Install bubblewrap and libseccomp2"),
        ("echo bwrap: No permissions to create a new namespace >&2", "a new namespace). In a container pass"),
        ("echo libseccomp.so.2: cannot open shared object file >&2", "file). Install bubblewrap and libsecc"),
    ],
)
def test_a_machine_that_cannot_isolate_programs_runs_none(tmp_path, bwrap, words):
    if bwrap is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (tmp_path / "bwrap").chmod(0o755)
    script = "from service.enclosure.running import refusal; print(*refusal())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path), "PYTHONPATH": ROOT},
        check=True,
    )
    assert words in done.stdout


@pytest.mark.slow
def test_an_enclosure_ends_with_the_process_that_uses_it():
    """The grader is killed while its tests run for ever."""
    script = """
from service.enclosure.running import Enclosure
from service.program_gold import ProgramGold

tests = "f()" + chr(10) + "while True: pass"
Enclosure().run(("def f(): pass",), ProgramGold(tests))
"""
    grader = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": ROOT})
    until = time.monotonic() + 30
    inside: list[psutil.Process] = []
    while len(inside) < 4:  # bubblewrap, the server, the tests, the program
        assert time.monotonic() < until
        assert grader.poll() is None
        inside = psutil.Process(grader.pid).children(recursive=True)
    grader.kill()
    grader.wait()
    assert psutil.wait_procs(inside, timeout=20)[1] == []
