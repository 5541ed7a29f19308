"""The built wheel: what is in it, and that it does its job where there is no source tree."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from first_look import QUESTIONS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("service", "evaluator", "rephraser", "trainer_adapter", "sandbox", "ui")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel; without hatchling here, `build` fetches it into an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    here = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", *here, "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment, which borrows the dependencies, and give its `bin`.

    The line of a .pth file is added to the path as it is: .pth files in the borrowed folder, such as the one
    of an editable install of this tree, are not followed.
    """
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", str(wheel)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    return folder / "bin"


def environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TAGRPO"))}
    return {**kept, "HOME": str(home), "HF_HUB_OFFLINE": "1"}


def run(
    installed: Path, folder: Path, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the installed command in `folder`."""
    return subprocess.run(
        [str(installed / "tagrpo"), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
        timeout=timeout,
    )


def test_it_holds_all_rooms_with_their_types(names: set[str]) -> None:
    for room in ROOMS:
        assert {f"{room}/__init__.py", f"{room}/py.typed"} <= names


def test_it_holds_every_file_of_the_rooms(names: set[str]) -> None:
    files = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == files


def test_it_holds_prompts_migrations_the_policy_the_demo_and_the_licence(names: set[str]) -> None:
    for strategy in ("perspectives", "paraphrase", "rename", "format"):
        assert f"rephraser/proposing/prompts/{strategy}.md" in names
    assert "service/database/migrations/versions/v1_0_first_schema.py" in names
    assert "service/database/migrations/script.py.mako" in names
    assert "sandbox/data/policy-a/model.safetensors" in names
    assert "ui/shipped_demo/demo.json.xz" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_it_holds_nothing_else(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ROOMS)


def test_it_does_its_job_in_an_empty_environment(installed: Path, tmp_path: Path) -> None:
    where = f"""
import json, sys
import {", ".join(ROOMS)}
print(json.dumps({{"path": sys.path, "rooms": [room.__file__ for room in ({", ".join(ROOMS)})]}}))
"""
    asked = subprocess.run(
        [str(installed / "python"), "-c", where],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=60,
    )
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    venv = str(installed.parent)
    assert [file for file in found["rooms"] if not file.startswith(venv)] == []
    assert str(ROOT) not in found["path"]

    said = ""
    for arguments in (
        ("questions", "import", str(QUESTIONS), "--name", "own"),
        ("neighbors", "propose", "own", "--name", "rules", "--proposer", "rules"),
        ("sets", "publish", "own", "--run", "rules", "--include", "unverified"),
        ("sets", "export", "own", "--format", "hf", "--out", "hf"),
        ("sets", "export", "own", "--format", "verl", "--out", "verl"),
    ):
        done = run(installed, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
        said += done.stdout + done.stderr
    assert "42 usable" in said
    for file in ("tagrpo.db", "hf/README.md", "hf/data/train-00000-of-00001.parquet", "verl/train.parquet"):
        assert (tmp_path / file).stat().st_size > 0
    assert str(ROOT) not in said.replace(str(QUESTIONS), "")


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    importlib.util.find_spec("verl") is None, reason="needs verl: pip install 'tagrpo[train,local,ui]'"
)
def test_the_demo_runs_there_from_questions_to_the_report(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "demo", "--quick", timeout=840)
    log = "".join(path.read_text()[-4000:] for path in tmp_path.rglob("logs/*.log"))
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{log}"
    assert "Traceback" not in done.stderr
    assert str(ROOT) not in done.stdout + done.stderr
    folder = tmp_path / "tagrpo-demo-quick"
    html, markdown = ((folder / "report" / name).read_text() for name in ("report.html", "report.md"))
    for text in (html, markdown):
        assert "one seed a recipe proves nothing" in text
        assert "ta_grpo-s1" in text
        assert "grpo_matched-s1" in text
    pictures = list((folder / "report" / "pictures").glob("*.svg"))
    assert len(pictures) == 6
    assert html.count("<svg") == 12
    with closing(sqlite3.connect(f"file:{folder / 'tagrpo.db'}?mode=ro", uri=True)) as database:
        kinds = dict(database.execute("SELECT kind, count(*) FROM runs GROUP BY kind"))
        [(rollouts,)] = database.execute("SELECT count(*) FROM rollouts")
        [(graded,)] = database.execute("SELECT count(*) FROM grades")
    assert kinds == {"propose": 1, "eval": 6, "train": 2}
    assert rollouts == 2 * 2 * 16 * 32
    assert graded > 3 * 60 * 32

    again = run(installed, tmp_path, "demo", "--quick")
    assert again.returncode == 0
    assert "steps of the demo in tagrpo-demo-quick are done; nothing was changed" in again.stdout


def test_its_prompts_load_there(installed: Path, tmp_path: Path) -> None:
    script = (
        "from rephraser.proposing.strategies import SHIPPED, load_strategy\n"
        "print(*(load_strategy(name).hash for name in SHIPPED))"
    )
    done = subprocess.run(
        [str(installed / "python"), "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    from rephraser.proposing.strategies import SHIPPED, load_strategy

    assert done.stdout.split() == [load_strategy(name).hash for name in SHIPPED]
