"""Streamlit's files from memory, and the script that loads parts of pages ahead."""

import asyncio
from pathlib import Path

import pytest

from ui.pages.server.preloading import AHEAD, AHEAD_PATH, CACHED, Assets, parts_ahead

PAGE = b"<html><head></head><body><div></div></body></html>"


@pytest.fixture
def folder(tmp_path):
    """A folder such as Streamlit's, with two of the parts."""
    for name, content in {
        "index.html": PAGE,
        "static/js/Metric.-f9-1zS0.js": b"export default 1",
        "static/js/Button.CORx.js": b"export default 2",
        "static/js/ButtonOther.CORx.js": b"",
        "static/media/font.woff2": b"\x00\x01",
        "static/media/sound.wav": b"wav",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def ask(folder, path, method="GET", parts=(PAGE[:20], PAGE[20:]), **headers):
    """Return status, headers and body of an answer, and the requests that went on."""
    went_on, sent = [], []

    async def behind(scope, _receive, send):
        went_on.append(dict(scope["headers"]))
        kind = [(b"content-type", b"text/html; charset=utf-8"), (b"etag", b"x"), (b"x-kept", b"yes")]
        kind.append((b"content-length", str(sum(map(len, parts))).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        for place, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": place < len(parts)})

    async def send(message):
        sent.append(message)

    said = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": said}
    asyncio.run(Assets(behind, folder=folder)(scope, None, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    assert not sent[-1].get("more_body")
    return sent[0]["status"], dict(sent[0]["headers"]), body, went_on


def test_a_script_is_answered_from_memory_and_kept_by_the_browser(folder):
    path = "/static/js/Metric.-f9-1zS0.js"
    status, headers, body, went_on = ask(folder, path)
    assert (status, body, went_on) == (200, b"export default 1", [])
    assert headers[b"content-type"] == b"text/javascript; charset=utf-8"
    assert headers[b"content-length"] == b"16"
    assert headers[b"cache-control"] == CACHED
    assert ask(folder, "/static/media/font.woff2")[1][b"content-type"] == b"font/woff2"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/static/media/sound.wav", {}),  # not one of the kinds
        ("/static/js/Button.CORx.js", {"range": "bytes=0-3"}),
        ("/static/js/Button.CORx.js", {"method": "HEAD"}),
        ("/static/js/../../index.html", {}),
        ("/static/js/none.js", {}),
        ("/_stcore/health", {}),
    ],
)
def test_all_else_goes_on_as_it_is(folder, path, asked):
    _, headers, body, went_on = ask(folder, path, accept_encoding="gzip", **asked)
    assert body == PAGE
    assert headers[b"etag"] == b"x"
    assert went_on[0][b"accept-encoding"] == b"gzip"


def test_a_page_gets_the_script_once_with_its_length_and_uncompressed(folder):
    _, headers, body, went_on = ask(
        folder, "/rollouts", accept="text/html,application/xml", accept_encoding="gzip"
    )
    tag = f'<script type="module" src="{AHEAD_PATH}"></script></body>'.encode()
    assert body == PAGE.replace(b"</body>", tag)
    assert body.count(b"<script") == 1
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"x-kept"] == b"yes"
    assert b"etag" not in headers
    assert b"accept-encoding" not in went_on[0]


def test_the_script_names_the_parts_that_are_there(folder):
    _, headers, body, went_on = ask(folder, AHEAD_PATH)
    assert headers[b"content-type"].startswith(b"text/javascript")
    assert not went_on
    first = body.decode().splitlines()[0]
    assert first == 'const parts = ["/static/js/Metric.-f9-1zS0.js", "/static/js/Button.CORx.js"];'


def test_every_part_is_one_of_the_installed_streamlit():
    from streamlit.file_util import get_static_dir

    root = Path(get_static_dir())
    found = parts_ahead(f"/{path.relative_to(root).as_posix()}" for path in root.rglob("*.js"))
    assert [Path(path).name.split(".")[0] for path in found] == list(AHEAD)
