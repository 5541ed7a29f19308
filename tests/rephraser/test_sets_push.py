"""Pushing to the Hub: the files arrive in one commit, the token stays secret, failures say what to do."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from runs import Asked, Proposed, add_run

from rephraser import sets
from rephraser.sets import SetHeader
from service.database import Database
from service.errors import PrerequisiteError

ASKED: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?")])]
TOKEN = "hf_" + "x" * 34


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub's protocol as one commit to a data-set repository needs."""

    requests: ClassVar[list[tuple[str, Any]]]
    refuse: ClassVar[bool]

    def do_GET(self) -> None:
        if self.refuse or self.path.startswith("/api/agent"):  # asked by the client itself
            self._answer({"error": "not found"}, status=404)
            return
        names = ("data/old-part.parquet", "notes.md")
        self._answer([{"type": "file", "path": name, "size": 1, "oid": "0" * 40} for name in names])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.headers["Content-Type"] == "application/x-ndjson":
            sent = [json.loads(line) for line in body.splitlines()]
        else:
            sent = json.loads(body)
        self.requests.append((self.path, sent))
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        if self.refuse:
            self._answer({"error": f"token {TOKEN} has no write access"}, status=403)
        elif self.path.endswith("/preupload/main"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in sent["files"]
            ]
            self._answer({"files": files})
        else:
            url = f"http://{self.headers['Host']}/datasets/me/math"
            self._answer({"url": url, "commitUrl": f"{url}/commit/1", "commitOid": "1" * 40, "errors": []})

    def _answer(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    class ThisHub(Hub):
        requests: ClassVar[list[tuple[str, Any]]] = []
        refuse: ClassVar[bool] = False

    server = ThreadingHTTPServer(("127.0.0.1", 0), ThisHub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield ThisHub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _run(db: Database) -> None:
    add_run(db, "run", ASKED)


@pytest.fixture
def header(db: Database) -> SetHeader:
    return sets.publish(db, "math", run="run").header


def is_private(created: dict[str, Any]) -> bool:
    """Read either spelling; versions of huggingface_hub differ."""
    return bool(created["visibility"] == "private" if "visibility" in created else created["private"])


def test_the_export_arrives_in_one_commit_and_old_data_files_go(
    db: Database, header: SetHeader, tmp_path: Path, hub: type[Hub]
) -> None:
    report = sets.export_hf(db, "math", tmp_path / "out", push="me/math")

    paths = [path for path, _ in hub.requests]
    assert paths.count("/api/datasets/me/math/commit/main") == 1
    created = dict(hub.requests)["/api/repos/create"]
    assert (created["type"], created["name"], is_private(created)) == ("dataset", "math", True)
    head, *operations = dict(hub.requests)["/api/datasets/me/math/commit/main"]
    assert head["value"]["summary"] == f"math@1, content hash {header.content_hash}"
    files = {item["value"]["path"]: item["value"] for item in operations if item["key"] == "file"}
    assert set(files) == {"README.md", "tagrpo.json", "data/train-00000-of-00001.parquet"}
    for name, sent in files.items():
        assert base64.b64decode(sent["content"]) == (tmp_path / "out" / name).read_bytes()
    deleted = [item["value"]["path"] for item in operations if item["key"] == "deletedFile"]
    assert deleted == ["data/old-part.parquet"]
    assert report.pushed_to is not None


def test_a_refusal_is_explained_without_the_token(
    db: Database, header: SetHeader, tmp_path: Path, hub: type[Hub]
) -> None:
    hub.refuse = True

    with pytest.raises(PrerequisiteError, match="me/math: the Hub refused") as raised:
        sets.export_hf(db, "math", tmp_path / "out", push="me/math", private=False)

    assert "403" in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert is_private(dict(hub.requests)["/api/repos/create"]) is False


def test_pushing_without_a_network_keeps_the_export_and_the_token_secret(
    db: Database, header: SetHeader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    # A closed port of this machine: refused at once, with or without a network.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")

    with pytest.raises(PrerequisiteError, match="me/math: the Hub cannot be reached") as raised:
        sets.export_hf(db, "math", tmp_path / "out", push="me/math")

    assert TOKEN not in str(raised.value)
    assert str(tmp_path / "out") in str(raised.value)
    assert (
        sets.import_set(db, sets.read_set(tmp_path / "out"), "copy").header.content_hash
        == header.content_hash
    )
    assert TOKEN not in "".join(
        file.read_text(encoding="utf-8", errors="replace")
        for file in (tmp_path / "out").rglob("*")
        if file.is_file()
    )
