"""A page that fails: the page says so without a trace, the log says where without the message."""

import subprocess

from page_view import script_server

from service.database import Database

SECRET = "the text of a question that no log may hold"
SCRIPT = f"""
import streamlit as st
from service.errors import InputError

st.title("x")
if "bug" in st.query_params:
    raise RuntimeError(" ".join({SECRET.split()!r}))
raise InputError('runs: "a" is no <b>run</b>; name one of `tagrpo runs list`.')
"""


def test_a_failing_page(view_of, tmp_path):
    (tmp_path / "page.py").write_text(SCRIPT, encoding="utf-8")
    Database.open(tmp_path / "t.db").close()
    command, pipe = script_server(tmp_path / "page.py", tmp_path / "t.db"), subprocess.PIPE
    server = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().split()[-1]
    shown = {}
    for path in ("/", "/?bug=1"):
        view = view_of(url).open(path)
        view.check(errors=1)
        shown[path] = view.text()
    server.terminate()
    out, error = server.communicate(timeout=20)
    assert server.returncode == 0
    said = "".join(shown.values())
    assert SECRET not in said + out + error
    assert "Traceback" not in said
    assert 'runs: "a" is no <b>run</b>; name one of `tagrpo runs list`.' in shown["/"]
    assert "Something went wrong on this page.\nRuntimeError." in shown["/?bug=1"].replace("\n\n", "\n")
    assert f'File "{tmp_path}/page.py", line 7' in error
    assert "InputError" not in error
