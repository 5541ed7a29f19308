"""`vllm serve` in its build for CPUs: a server of its own process, up before it is used and gone after."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vllm_runs import DTYPE, use_cpu_build

START_S = 420.0
"""It starts in half a minute on two quiet cores."""
_END_S = 20.0


@contextmanager
def vllm_server(model: Path, log: Path) -> Iterator[str]:
    """Serve `model` under the name of its folder; give the URL (`.../v1`)."""
    use_cpu_build()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    address = ("--host", "127.0.0.1", "--port", str(port))
    named = ("--served-model-name", model.name)
    with log.open("w") as written:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("vllm"), "serve", str(model), *DTYPE, *address, *named],
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(process)


def _wait(process: "subprocess.Popen[bytes]", health: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"vllm serve is not up ({process.poll()}):\n{log.read_text(errors='replace')[-4000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
