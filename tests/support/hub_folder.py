"""A server that speaks as much of the Hub's protocol as reading a data set's files takes."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c" * 40


@contextmanager
def serve_hub(name: str, folder: Path) -> Iterator[str]:
    """Serve the files of `folder` as the data set `name` (OWNER/NAME), at one commit; give the address."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0].removeprefix("/api").removeprefix("/datasets/")
            rest = path.removeprefix(f"{name}/")
            if not path.startswith(name):
                self.reply(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
            elif path == name or rest in ("revision/main", "revision/v1", f"revision/{COMMIT}"):
                siblings = [{"rfilename": file} for file in files]
                self.reply(200, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())
            elif rest.startswith("revision/"):
                self.reply(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
            elif rest.startswith(f"tree/{COMMIT}"):
                entries = [
                    {"type": "file", "path": file, "size": path.stat().st_size, "oid": "0" * 40}
                    for file, path in files.items()
                ]
                self.reply(200, json.dumps(entries).encode())
            elif (file := rest.removeprefix(f"resolve/{COMMIT}/")) in files:
                data = files[file].read_bytes()
                etag = f'"{hashlib.sha1(data).hexdigest()}"'
                self.reply(200, data, ETag=etag, **{"X-Repo-Commit": COMMIT})
            else:
                self.reply(404, b"{}", **{"X-Error-Code": "EntryNotFound"})

        do_HEAD = do_GET

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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
