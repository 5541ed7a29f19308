"""A server that speaks as much of the Hub's protocol as reading data sets takes; reading them."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c" * 40
CLOSED = "http://127.0.0.1:9"
"""An address where nobody answers."""

_CALLS = """
import json, sys
from service.errors import TagrpoError

def answer(arguments):
    try:
        return read(*arguments)
    except TagrpoError as error:
        return {"error": type(error).__name__, "message": str(error)}

print(json.dumps([answer(arguments) for arguments in json.loads(sys.argv[1])]))
"""


@dataclass(frozen=True)
class HubSet:
    """A data set at one commit, which `main` and `v1` name; of a gated one no file can be had."""

    files: Mapping[str, bytes]
    commit: str = COMMIT
    gated: bool = False

    @classmethod
    def of(cls, folder: Path) -> "HubSet":
        """Return the files of a folder."""
        files = (path for path in folder.rglob("*") if path.is_file())
        return cls({str(path.relative_to(folder)): path.read_bytes() for path in files})


@dataclass(frozen=True)
class Hub:
    """A running server; `asked` are the paths that were asked for."""

    address: str
    asked: list[str]


@contextmanager
def serve_hub(sets: Mapping[str, HubSet]) -> Iterator[Hub]:
    """Serve data sets by their names (OWNER/NAME)."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.split("?")[0])
            owner, name, *rest = (*asked[-1].removeprefix("/api").removeprefix("/datasets/").split("/"), "")
            known, at = sets.get(f"{owner}/{name}"), "/".join(rest).rstrip("/")
            if known is None:
                self.refuse("RepoNotFound")
            elif at in ("", "revision/main", "revision/v1", f"revision/{known.commit}"):
                siblings = [{"rfilename": file} for file in known.files]
                info = {"id": f"{owner}/{name}", "sha": known.commit, "siblings": siblings, "tags": []}
                self.reply(200, json.dumps(info).encode())
            elif known.gated:
                self.refuse("GatedRepo", 403)
            elif at.startswith("revision/"):
                self.refuse("RevisionNotFound")
            elif at.startswith(f"tree/{known.commit}"):
                entries = [
                    {"type": "file", "path": file, "size": len(data), "oid": "0" * 40}
                    for file, data in known.files.items()
                ]
                self.reply(200, json.dumps(entries).encode())
            elif (file := at.removeprefix(f"resolve/{known.commit}/")) in known.files:
                data = known.files[file]
                etag = f'"{hashlib.sha1(data).hexdigest()}"'
                self.reply(200, data, ETag=etag, **{"X-Repo-Commit": known.commit})
            else:
                self.refuse("EntryNotFound")

        do_HEAD = do_GET

        def refuse(self, code: str, status: int = 404) -> None:
            self.reply(status, b"{}", **{"X-Error-Code": code})

        def reply(self, status: int, data: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Hub(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_own_process(script: str, address: str, cache: Path, *calls: list[Any]) -> list[Any]:
    """Return what the script's `read(...)` gives for the arguments of each call, with the Hub at `address`.

    The address is read when huggingface_hub is first imported, so that each has a process of its own. An
    error is given as its name and message.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", script + _CALLS, json.dumps(calls)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env={**kept, "HF_ENDPOINT": address, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
