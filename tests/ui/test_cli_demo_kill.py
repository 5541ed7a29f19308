"""The real demo killed outright between and inside its first steps, which need no model: it goes on there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from world_runs import command

ROOT = Path(__file__).resolve().parents[2]


def killed_at(folder: Path, said: str) -> list[str]:
    """Run the demo until it prints a line with `said`, kill it, and return what it printed until then."""
    arguments = [sys.executable, "-u", *command("demo", "--quick", "--folder", str(folder))[1:]]
    lines: list[str] = []
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if said in line:
                break
        process.kill()
    assert said in lines[-1], "".join(lines)
    return lines


@pytest.mark.slow
def test_a_killed_demo_goes_on_with_the_step_it_was_in(tmp_path: Path) -> None:
    folder = tmp_path / "demo"

    def done() -> list[str]:
        state = json.loads((folder / "demo.json").read_text())
        return [
            " ".join(key.removeprefix("python -m ").removeprefix("tagrpo ").split()[:2])
            for key in state["done"]
        ]

    killed_at(folder, "$ python -m sandbox questions")
    first = done()  # the kill may come a step later than the line
    assert first[:1] == ["sandbox policy"]
    second = killed_at(folder, "$ python -m sandbox candidates")
    assert done()[:4] == ["sandbox policy", "sandbox policy", "sandbox questions", "questions import"]
    assert not [line for line in second if line.startswith("$ python -m sandbox policy")]
    assert f"{len(first)} of 32 steps in {folder} are finished" in "".join(second)

    # As a kill between the two files leaves it.
    (folder / "candidates.jsonl").unlink(missing_ok=True)
    (folder / "truth.jsonl").write_text("half\n")
    third = killed_at(folder, "$ tagrpo rephrase run")
    assert not [line for line in third if line.startswith("$ tagrpo questions import")]
    assert len((folder / "candidates.jsonl").read_text().splitlines()) == 6 * 64
    assert len((folder / "truth.jsonl").read_text().splitlines()) == 6 * 64
