"""Benchmarks from the Hub, against a small server that speaks its protocol on the loopback."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evaluator.benchmarks import BENCHMARKS

ROWS = [{"problem": f"What is {n}+{n}?", "answer": f"{2 * n:03}", "solution": "No."} for n in range(30)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SETS = {BENCHMARKS[name].hub_id: BENCHMARKS[name].revision for name in ("aime24", "aime25", "gpqa-diamond")}
SPLITS = {"HuggingFaceH4/aime_2024": "train", "math-ai/aime25": "test", "org/mine": "test"}
SETS["org/mine"] = "d" * 40
GATED = "Idavidrein/gpqa"

# The Hub's address is read when `datasets` is first imported, so each address has a process of its own.
SCRIPT = """
import json, sys
from evaluator.benchmarks import load_benchmark
from service.errors import TagrpoError

def load(name):
    try:
        loaded = load_benchmark(name)
    except TagrpoError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"golds": [p.answer for p in loaded.problems], "source": loaded.source, "content": loaded.content}

print(json.dumps([load(name) for name in json.loads(sys.argv[1])]))
"""


class Hub(BaseHTTPRequestHandler):
    """Data sets of one file at one commit each; the file of one of them is gated."""

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].removeprefix("/api").removeprefix("/datasets/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        commit = SETS.get(name)
        file = f"{SPLITS.get(name, 'train')}.jsonl"
        if commit is None:
            self.reply(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
        elif not rest or rest in (["revision", commit], ["revision", "main"]):
            info = {"id": name, "sha": commit, "siblings": [{"rfilename": file}], "tags": [], "gated": False}
            self.reply(200, json.dumps(info).encode())
        elif name == GATED:
            self.reply(403, b"{}", **{"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        elif rest == ["tree", commit]:
            entry = {"type": "file", "path": file, "size": len(DATA), "oid": "b" * 40}
            self.reply(200, json.dumps([entry]).encode())
        elif rest == ["resolve", commit, file]:
            self.reply(200, DATA, ETag='"' + "c" * 40 + '"', **{"X-Repo-Commit": commit})
        else:
            self.reply(404, b"{}", **{"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_GET

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def load(endpoint: str, home: Path, *names: str) -> list[dict[str, Any]]:
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(names)],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.slow
def test_a_benchmark_is_read_at_its_pinned_commit(endpoint: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('hub = "org/mine"\nkind = "integer"\nrows = 31\n')
    aime24, aime25, gpqa, missing, other = load(
        endpoint, tmp_path, "aime24", "aime25", "gpqa-diamond", "amc23", str(mine)
    )
    assert aime24["golds"] == [str(2 * n) for n in range(30)]
    # A pinned commit is the content, however its rows are spelled.
    assert aime24["content"] == aime25["content"] == "pinned revision"
    assert aime24["source"] == {
        "hub": "HuggingFaceH4/aime_2024",
        "configs": [],
        "split": "train",
        "commit": BENCHMARKS["aime24"].revision,
    }
    assert gpqa["error"] == "PrerequisiteError"
    assert "accept its terms at https://huggingface.co/datasets/Idavidrein/gpqa" in gpqa["message"]
    assert "HF_TOKEN" in gpqa["message"]
    assert missing["error"] == "InputError"
    assert other["error"] == "ChangedBenchmarkError"
    assert "mine has 31 problems, this source 30" in other["message"]


@pytest.mark.slow
def test_without_a_network_the_way_out_is_a_file(tmp_path: Path) -> None:
    olympiad, gpqa = load("http://127.0.0.1:9", tmp_path, "olympiadbench", "gpqa-diamond")
    assert olympiad["error"] == gpqa["error"] == "PrerequisiteError"
    assert "--from FILE" in olympiad["message"]
    assert "accept its terms" in gpqa["message"]
    assert "--from FILE" in gpqa["message"]
