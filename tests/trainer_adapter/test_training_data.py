"""Training files that are broken, empty or lack a column: refused on the command line before verl starts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import CommandLine, run_here
from fake_verl import put_in_place
from runs import Proposed, add_run
from tiny_model import save_tiny_tokenizer

from rephraser.sets import publish
from service.database import Database

SMALL = ("verl.data.train_batch_size=2", "verl.actor_rollout_ref.actor.ppo_mini_batch_size=2", "responses=2")
WORDS = ("train", "run", "ta_grpo", "--data", "out", "--model", "model", "--cpu", "--name", "x", *SMALL)


@pytest.fixture
def tagrpo() -> CommandLine:
    return run_here


@pytest.fixture
def place(tmp_path: Path, tagrpo: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an export in `out`, a tokenizer in `model`, and a stand-in for verl."""
    monkeypatch.chdir(tmp_path)
    put_in_place(monkeypatch, tmp_path / "fake")
    save_tiny_tokenizer(tmp_path / "model")
    asked = [(f"{a}+{a}=?", str(2 * a), [Proposed(f"Add {a} to {a}.")]) for a in range(3, 9)]
    with Database.open(tmp_path / "tagrpo.db") as database:
        add_run(database, "source", asked)
        publish(database, "math", run="source")
    tagrpo.ok("sets", "export", "math", "--format", "verl", "--out", "out", "validation_share=0.3")
    return tmp_path


CHANGED = "changed after the export (its checksum differs from the manifest)"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def other_golds(path: Path) -> None:
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["reward_model"]["ground_truth"] = "0"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)


SPOILED: tuple[tuple[str, Callable[[Path], object], str], ...] = (
    ("train", cut, CHANGED),
    ("validation", lambda path: path.write_text("question,answer\n"), CHANGED),
    ("train", Path.unlink, "the file is missing, although manifest.json lists it"),
    ("train", other_golds, CHANGED),
)


@pytest.mark.slow
def test_a_spoiled_export_is_refused(place: Path, tagrpo: CommandLine) -> None:
    whole = (place / "out").rename(place / "whole")
    for name, spoil, message in SPOILED:
        path = shutil.copytree(whole, place / "out") / f"{name}.parquet"
        spoil(path)
        done = tagrpo(*WORDS)
        assert done.code == 2
        assert f"{path}: {message}" in done.err
        assert "; export the set again." in done.err
        assert not (place / "runs" / "x" / "logs").exists()
        tagrpo.refused("train", "run", *WORDS[2:], "--dry-run")
        shutil.rmtree(place / "out")


def test_a_manifest_without_a_part_is_refused(place: Path, tagrpo: CommandLine) -> None:
    path = place / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    for spoiled, said in (
        ({**manifest, "layout": "square"}, "square"),
        ({"format": "else"}, "--format verl"),
    ):
        path.write_text(json.dumps(spoiled))
        done = tagrpo(*WORDS)
        assert (done.code, str(path) in done.err, said in done.err) == (2, True, True)
