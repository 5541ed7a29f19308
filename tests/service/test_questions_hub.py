"""Hub data sets, against a small server that speaks the Hub's protocol on the loopback."""

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

from service.questions.hub import is_id

COMMIT = "a1" * 20
ROWS = [{"problem": f"What is {n}+{n}?", "solution": f"It is \\boxed{{{2 * n}}}."} for n in range(5)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
API = "/api/datasets/org/tiny"
FILES = f"/datasets/org/tiny/resolve/{COMMIT}/"

# The Hub's address is read when `datasets` is first imported, so each address has a process of its own.
SCRIPT = """
import json, sys
from service.errors import TagrpoError
from service.questions import Columns, RowLimits, read_source

def read(source, options):
    try:
        rows = read_source(source, columns=Columns(), limits=RowLimits(), **options)
    except TagrpoError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"golds": [member.question.answer for member in rows.members], "origin": rows.origin}

print(json.dumps([read(*call) for call in json.loads(sys.argv[1])]))
"""


class Hub(BaseHTTPRequestHandler):
    """One data set, `org/tiny`, at one commit."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.seen.append(path)  # type: ignore[attr-defined]
        if path in (API, f"{API}/revision/{COMMIT}", f"{API}/revision/main"):
            info = {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": "train.jsonl"}], "tags": []}
            self.reply(200, json.dumps(info).encode())
        elif path == f"{API}/tree/{COMMIT}":
            entry = {"type": "file", "path": "train.jsonl", "size": len(DATA), "oid": "b" * 40}
            self.reply(200, json.dumps([entry]).encode())
        elif path == FILES + "train.jsonl":
            self.reply(200, DATA, ETag='"' + "c" * 40 + '"')
        elif path.startswith(f"{API}/revision/"):
            self.reply(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        elif path.startswith(("/datasets/org/tiny/resolve/", f"{API}/tree/")):
            self.reply(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
        else:
            self.reply(404, b"{}", **{"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def read(endpoint: str, home: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Read each (source, options) with the Hub at `endpoint` and the cache under `home`."""
    env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    env.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(calls)],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


CLOSED = "http://127.0.0.1:9"


@pytest.mark.slow
def test_a_data_set_is_read_at_the_commit_that_is_recorded(hub: ThreadingHTTPServer, tmp_path: Path) -> None:
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    found, nothing, revision, split, config = read(
        endpoint,
        tmp_path,
        ("org/tiny", {}),
        ("org/nothing", {}),
        ("org/tiny", {"revision": "v9"}),
        ("org/tiny", {"split": "validation"}),
        ("org/tiny", {"configs": ["large"]}),
    )
    assert found["golds"] == ["0", "2", "4", "6", "8"]
    assert (found["origin"]["commit"], found["origin"]["split"]) == (COMMIT, "train")
    assert FILES + "train.jsonl" in hub.seen  # type: ignore[attr-defined]
    for result, message in (
        (nothing, "no such data set on the Hub"),
        (revision, 'the Hub has no revision "v9"'),
        (split, "see --config and --split"),
        (config, "see --config and --split"),
    ):
        assert result["error"] == "InputError"
        assert message in result["message"]

    # The network goes away; what was read stays readable, and is not taken for another revision.
    cached, prefix, other = read(
        CLOSED,
        tmp_path,
        ("hf:org/tiny", {}),
        ("org/tiny", {"revision": COMMIT[:10]}),
        ("org/tiny", {"revision": "v2"}),
    )
    assert cached == found
    assert prefix["golds"] == found["golds"]
    assert other["error"] == "PrerequisiteError"
    assert 'may not be the revision "v2"' in other["message"]


@pytest.mark.slow
def test_without_network_and_cache_the_message_says_so(tmp_path: Path) -> None:
    (away,) = read(CLOSED, tmp_path, ("org/tiny", {}))
    assert away["error"] == "PrerequisiteError"
    assert "there is no such file, and the Hub cannot be reached" in away["message"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("org/name", True),
        ("open-r1/OpenR1-Math-220k", True),
        ("hf:gsm8k", True),
        ("data/math.jsonl", False),
        ("./data/math", False),
        ("/data/math", False),
        ("math", False),
        ("a/b/c", False),
    ],
)
def test_what_reads_like_an_id(source: str, expected: bool) -> None:
    assert is_id(source) is expected
