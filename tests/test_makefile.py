"""The Makefile with programs that do nothing but print that they ran: what it runs and says."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
SPEAKING = """#!/bin/sh
echo "RAN $(basename "$0") $*"
"""
PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv")
    mkdir -p "$3/bin"
    for program in ruff mypy lint-imports mkdocs pytest tagrpo; do cp speaking "$3/bin/$program"; done
    cp python3 "$3/bin/python" ;;
"-m pip")
    echo "RAN $*"
    while [ $# -gt 1 ]; do if [ "$1" = --target ]; then mkdir -p "$2"; fi; shift; done ;;
esac
"""


@pytest.fixture
def folder(tmp_path):
    for path in (
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
        *ROOT.glob("constraints*.txt"),
        *ROOT.glob("requirements*.txt"),
    ):
        shutil.copy(path, tmp_path)
    for name, text in (
        ("speaking", SPEAKING),
        ("initdb", SPEAKING),
        ("bwrap", SPEAKING),
        ("python3", PYTHON),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def lines_of(folder: Path, *arguments: str) -> list[str]:
    """Return what `make` says and runs, in order."""
    # Make exports what is set on its command line (FULL=1) to the tests that it runs.
    settings = re.findall(r"^(\w+) \?=", (folder / "Makefile").read_text(), re.M)
    kept = {name: value for name, value in os.environ.items() if name not in (*settings, *OF_MAKE)}
    done = subprocess.run(
        ["make", "--silent", *arguments],
        cwd=folder,
        env={
            **kept,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "TAGRPO_CHROMIUM": "speaking",
            "VLLM_PYTHON": "python3",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(("target", "extras"), [("demo", "train,local,ui"), ("test", "dev,train,ui")])
@pytest.mark.parametrize(("index", "size"), [("", "6 GB"), ("https://torch.example/cpu", "2 GB")])
def test_what_is_installed_is_said_first_with_its_size_and_time(folder, target, extras, index, size):
    lines = lines_of(folder, target, f"TORCH_INDEX={index}")
    assert any(line.startswith("RAN -m pip") and f".[{extras}" in line for line in lines)
    said = next(line for line in lines if line.startswith(("RAN -m pip", "make: installing")))
    assert re.fullmatch(rf"make: installing tagrpo.* into \.venv: {size} on disk, about 5 minutes .*", said)
    assert not [line for line in lines_of(folder, target, f"TORCH_INDEX={index}") if "pip" in line]


FULL = ("--ignore tests/e2e", "tests/e2e tests/ui/browser", "test_trl.py", "-m inspect or", "--db postgresql")
"""What each run of pytest in a full test has of its own."""


def test_the_full_run_and_ci_have_every_stage_and_say_how_long_each_takes(folder):
    quick = [line for line in lines_of(folder, "test") if line.startswith("RAN pytest")]
    assert len(quick) == 1
    assert " -m " not in quick[0]
    ci = re.findall(r"^make (.*?)(?: &)?$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    for commands, stages in ((["test FULL=1"], FULL), (ci, (*FULL, "-m vllm"))):
        lines = [line for words in commands for line in lines_of(folder, *words.split())]
        runs = [line for line in lines if line.startswith("RAN pytest")]
        assert all(" -m " in line for line in runs)
        assert [sum(stage in line for line in runs) for stage in stages] == [1] * len(stages)
        assert len([line for line in lines if re.match(r"make: .*\b\d+ minutes?\b", line)]) == len(stages)
        for check in ("RAN mypy", "RAN ruff check", "RAN lint-imports", "RAN mkdocs build"):
            assert sum(line.startswith(check) for line in lines) == 1


def test_every_file_with_the_real_vllm_is_run_the_trainings_first(folder):
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    mark = re.compile(r"^pytestmark = .*mark\.vllm", re.M)
    marked = [str(path.relative_to(ROOT)) for path in paths if mark.search(path.read_text(encoding="utf-8"))]
    assert len(marked) >= 3
    for name in marked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    lines = lines_of(folder, "test", "VLLM=1")
    (command,) = (line for line in lines if line.startswith("RAN pytest"))
    files = command.partition(" -m vllm ")[2].split()
    assert sorted(files) == marked
    trainings = [name.startswith("tests/trainer_adapter/") for name in files]
    assert trainings == sorted(trainings, reverse=True)
