"""`tagrpo ui`: where it listens, what it refuses, how it ends."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from command_line import run_here
from page_view import locked_ui, tagrpo_ui

from service.database import Database
from service.errors import InputError
from ui.listening import Address, read_secret
from ui.pages.server import serving
from ui.pages.server.serving import has_display, redirect_file
from ui.shipped_demo.unpacking import demo_database


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "t.db"
    Database.open(path).close()
    return path


def refused(database, *options):
    """Return what `tagrpo ui` says that ends with code 2 before it serves anything."""
    return run_here.refused("ui", "--db", database, "--no-browser", *options)


@pytest.mark.slow
def test_it_prints_its_address_answers_and_ends_on_ctrl_c(database):
    """With `--no-token` a password in the environment does not count."""
    environment, pipe = {**os.environ, "TAGRPO_UI_PASSWORD": "horse"}, subprocess.PIPE
    process = subprocess.Popen(tagrpo_ui(database), stdout=pipe, stderr=pipe, text=True, env=environment)
    line = process.stdout.readline()
    url = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    assert out == ""
    assert "t.db: the database is empty. Fill it with `tagrpo questions import" in error
    assert error.endswith("\nended\n")


def test_a_taken_port_is_refused_with_the_way_out(database):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(database, "--port", port, "--no-token")
    assert f"port {port} is in use" in message
    assert "--port 0" in message


def test_bad_usage_is_code_2_and_one_message(database):
    for options, said in {
        "--password --password-file x": "give only one of",
        "--password --no-token": "give only one of",
        "--host 203.0.113.7": "cannot listen on it",
        "--demo": "remove --db",
        "--port 99999": "less than or equal to 65535",
        "--password-file /nonexistent": "cannot be read",
    }.items():
        assert said in refused(database, "--port", "0", *options.split())


@pytest.mark.slow
def test_the_password_is_no_argument_and_in_no_output(database):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(locked_ui(database, "--password"), text=True, **pipes)
    process.stdin.write("correct horse\n")
    process.stdin.flush()
    url = process.stdout.readline().split("at ")[1].split()[0]
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "text/html"})) as answer:
        assert answer.url == f"{url}/login?next=%2F"
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=20)
    assert "correct" not in out + error
    assert process.returncode == 0


def test_where_the_password_comes_from(tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text("from the file\nsecond line\n")
    monkeypatch.setenv("TAGRPO_UI_PASSWORD", "from the environment")
    assert read_secret("TAGRPO_UI_PASSWORD", file) == "from the file"
    assert read_secret("TAGRPO_UI_PASSWORD", None) == "from the environment"
    assert read_secret("TAGRPO_UI_PASSWORD", None) is None  # taken out: no child inherits it
    file.write_text("\n")
    with pytest.raises(InputError, match="first line is empty"):
        read_secret("TAGRPO_UI_PASSWORD", file)


@pytest.mark.parametrize(
    ("host", "names", "private"),
    [
        ("127.0.0.1", (), True),
        ("localhost", (), True),
        ("::1", (), True),
        ("127.0.0.1", ("results.example.org",), False),  # a proxy stands before it
        ("0.0.0.0", (), False),
        ("10.0.0.5", (), False),
    ],
)
def test_what_the_server_is_bound_to_says_who_can_reach_it(host, names, private):
    assert Address(host, 8501, names).is_private is private


def test_the_newest_demo_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for age, folder in ((100, "tagrpo-demo"), (50, "tagrpo-demo-quick")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tagrpo.db").touch()
        os.utime(tmp_path / folder / "tagrpo.db", (1e9 - age, 1e9 - age))
        assert demo_database() == (Path(folder, "tagrpo.db"), "")
    os.utime(tmp_path / "tagrpo-demo" / "tagrpo.db", (2e9, 2e9))
    assert demo_database() == (Path("tagrpo-demo", "tagrpo.db"), "")


@pytest.mark.parametrize(
    ("platform", "display", "opens"), [("linux", None, False), ("linux", ":0", True), ("darwin", None, True)]
)
def test_no_browser_is_opened_where_none_could_be_seen(monkeypatch, platform, display, opens):
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setattr(sys, "platform", platform)
    assert has_display() is opens


def test_a_browser_is_called_with_no_token_that_others_could_read():
    with redirect_file("http://127.0.0.1:1/?token=abc") as url:
        page = Path(url.removeprefix("file://"))
        assert "abc" not in url
        assert "url=http://127.0.0.1:1/?token=abc" in page.read_text()
        assert page.parent.stat().st_mode & 0o077 == 0
    assert not page.parent.exists()


def test_a_missing_streamlit_says_what_to_install(database):
    block = "import sys; sys.modules['streamlit'] = None; sys.modules['streamlit.starlette'] = None; "
    command = tagrpo_ui(database)
    command[2] = block + command[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Install the extra `ui`" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_option_is_known_to_streamlit_and_nothing_is_left_open():
    from streamlit import config

    options = serving._options(Address(), {"localhost"})
    config.get_config_options()
    assert [name for name in options if name not in config._config_options_template] == []
    assert options["browser.gatherUsageStats"] is False
    assert options["server.enableCORS"] is True
    assert options["server.enableXsrfProtection"] is True
    assert options["server.address"] == "127.0.0.1"
    assert options["server.fileWatcherType"] == "none"
