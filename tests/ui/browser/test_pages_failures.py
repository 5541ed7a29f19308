"""A page that fails: the page says so without a trace, the log says where without the message."""

import subprocess

import pytest
from page_view import script_server

from service.database import Database

SECRET = "the text of a question that no log may hold"
SCRIPTS = {
    "bug": f"import streamlit as st\nst.title('x')\nraise RuntimeError(' '.join({SECRET.split()!r}))",
    "ours": "import streamlit as st\nfrom service.errors import InputError\nst.title('x')\n"
    "raise InputError('runs: \"a\" is no <b>run</b>; name one of `tagrpo runs list`.')",
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_failing_page(view_of, tmp_path, kind):
    (tmp_path / "page.py").write_text(SCRIPTS[kind], encoding="utf-8")
    Database.open(tmp_path / "t.db").close()
    server = subprocess.Popen(
        script_server(tmp_path / "page.py", tmp_path / "t.db"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().split()[-1]
    view = view_of(url).open("/")
    view.check(errors=1)
    shown = view.text()
    server.terminate()
    out, error = server.communicate(timeout=20)
    assert SECRET not in shown + out + error
    assert "Traceback" not in shown
    if kind == "bug":
        assert "Something went wrong on this page.\nRuntimeError." in shown.replace("\n\n", "\n")
        assert f'File "{tmp_path}/page.py", line 3' in error
    else:
        assert 'runs: "a" is no <b>run</b>; name one of `tagrpo runs list`.' in shown
        assert error == ""
    assert server.returncode == 0
