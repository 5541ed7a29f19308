"""`vllm serve` in its build for CPUs: a server of its own process, up before it is used and gone after."""

import os
import signal
import socket
import subprocess
import sys
import time
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
    address = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", model.name)
    call = [Path(sys.executable).with_name("vllm"), "serve", str(model), *DTYPE, *address]
    with log.open("w") as written:
        process = subprocess.Popen(call, stdout=written, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            said = log.read_text(errors="replace")[-4000:]
            assert process.poll() is None, f"vllm serve ended ({process.poll()}):\n{said}"
            assert time.monotonic() < deadline, f"vllm serve is not up:\n{said}"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
