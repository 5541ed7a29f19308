"""`tagrpo demo` as the first thing a user runs: anywhere, twice, without a network."""

import hashlib
import json
import os
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from command_line import CommandLine, words
from world_runs import command, tagrpo

FILES = {
    "questions.jsonl",
    "hf/README.md",
    "hf/tagrpo.json",
    "hf/data/train-00000-of-00001.parquet",
    "verl/train.parquet",
    "verl/manifest.json",
}


def offline() -> dict[str, str]:
    """Return an environment in which every connection to the outside fails at once."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {**os.environ, "HF_HUB_OFFLINE": "1", **dict.fromkeys(names, proxy)}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("demo", *arguments), capture_output=True, text=True, cwd=folder, env=offline(), timeout=120
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def first(home: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo in an empty folder, without a network."""
    return run(home)


def contents(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file() and "tagrpo.db" not in path.name)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def versions(folder: Path) -> list[dict[str, object]]:
    listed = tagrpo("sets", "list", "--db", str(folder / "tagrpo.db"), "--json")
    return list(json.loads(listed.stdout)["sets"])


def test_it_needs_no_network_and_leaves_its_files(
    first: subprocess.CompletedProcess[str], home: Path
) -> None:
    assert first.returncode == 0, first.stderr
    assert "Traceback" not in first.stderr
    assert set(contents(home / "tagrpo-demo")) == FILES
    assert [path.name for path in home.iterdir()] == ["tagrpo-demo"]


def test_it_says_plainly_that_answers_were_not_compared(first: subprocess.CompletedProcess[str]) -> None:
    assert "Answers were not compared" in first.stdout
    assert "accepted neighbors" not in first.stdout


def test_a_second_run_changes_nothing(first: subprocess.CompletedProcess[str], home: Path) -> None:
    folder = home / "tagrpo-demo"
    before, sets = contents(folder), versions(folder)
    again = run(home)
    assert again.returncode == 0, again.stderr
    assert contents(folder) == before
    assert versions(folder) == sets
    assert len(sets) == 1


def test_every_printed_command_can_be_repeated(
    first: subprocess.CompletedProcess[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = [line.removeprefix("$ tagrpo ") for line in first.stdout.splitlines() if line.startswith("$ ")]
    assert len(printed) == 6
    monkeypatch.chdir(home)
    cli = CommandLine(monkeypatch, capsys)
    for line in printed:
        done = cli(*shlex.split(line))
        assert done.code == 0, (line, done.err)


def test_the_exports_load(first: subprocess.CompletedProcess[str], home: Path, tmp_path: Path) -> None:
    import datasets
    from pyarrow import parquet

    folder = home / "tagrpo-demo"
    loaded = datasets.load_dataset(str(folder / "hf"), split="train", cache_dir=str(tmp_path))
    assert loaded.num_rows == 42
    neighbors = [neighbor for row in loaded for neighbor in row["neighbors"]]
    assert len(neighbors) >= 42
    assert {neighbor["verdict"] for neighbor in neighbors} == {"unverified"}
    table = parquet.read_table(folder / "verl" / "train.parquet")
    assert table.num_rows == 42
    assert {"data_source", "prompt", "reward_model", "extra_info"} <= set(table.column_names)


def test_another_folder_with_blanks_and_quotes(tmp_path: Path) -> None:
    name = "a b'c \"ü"
    done = run(tmp_path, "--folder", name)
    assert done.returncode == 0, done.stderr
    assert set(contents(tmp_path / name)) == FILES
    assert f"--db {shlex.quote(name + '/tagrpo.db')}" in done.stdout


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = CommandLine(monkeypatch, capsys)
    occupied = tmp_path / "file"
    occupied.write_text("")
    for folder in (occupied, occupied / "below"):
        done = cli("demo", "--folder", folder)
        assert (done.code, done.out) == (2, "")
        assert "cannot be written" in done.err
        assert "name another --folder" in words(done.err)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    done = cli("demo", "--folder", tmp_path / "demo")
    assert (done.code, "(Permission denied)" in done.err) == (2, True)


def test_a_run_of_the_same_name_with_other_settings_stops_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = CommandLine(monkeypatch, capsys)
    rows = '{"question": "If $x+1=2$, what is $x$?", "answer": "1"}'
    (tmp_path / "own.jsonl").write_text(rows)
    db = tmp_path / "tagrpo.db"
    assert cli("questions", "import", tmp_path / "own.jsonl", "--name", "demo", "--db", db).code == 0
    done = cli("demo", "--folder", tmp_path)
    assert done.code == 2
    assert "demo" in done.err
