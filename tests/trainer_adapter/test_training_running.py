"""Starting, failing, stopping and going on, with a stand-in for verl; exports that are broken."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_here
from fake_verl import put_in_place
from tiny_model import save_tiny_tokenizer
from training_configs import training_config
from training_runs import publish_sums

from rephraser.sets.publish import publish
from service.database import Database
from service.errors import InputError, NotFoundError, PrerequisiteError
from trainer_adapter.config import TrainConfig
from trainer_adapter.runs.running import Trained, dry_run, train

SMALL = ("verl.data.train_batch_size=2", "verl.actor_rollout_ref.actor.ppo_mini_batch_size=2", "responses=2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a database that has the set sums@1, and verl's entry point replaced for children."""
    put_in_place(monkeypatch, tmp_path / "fake")
    monkeypatch.chdir(tmp_path)
    publish_sums(tmp_path, 9)
    return tmp_path


def opened() -> Database:
    return Database.open(Path("tagrpo.db"))


def wanted(model: Path, *texts: str, recipe: str = "ta_grpo", **changes: Any) -> TrainConfig:
    given: dict[str, Any] = {"set": "sums", "name": "x", "cpu": True} | changes
    given = {key: value for key, value in given.items() if value is not None}
    return training_config(recipe, [*SMALL, *texts], model=str(model), **given)


def trained(asked: TrainConfig, *, echo: Callable[[str], None] = lambda line: None, **more: Any) -> Trained:
    return train(asked, opened, announce=lambda prepared: None, echo=echo, **more)


def test_a_folder_that_is_no_run_s_is_refused_and_left_as_it_was(place, model):
    held = place / "held"
    held.mkdir()
    (held / "thesis.tex").write_text("years of work")
    for folder, said in (
        (held, r"contains thesis\.tex but no training run"),
        (held / "thesis.tex", r"is a file\. Set a folder"),
        (held / "thesis.tex" / "below", r"is a file\. Set a folder"),
    ):
        for start in (trained, lambda asked: dry_run(asked, opened)):
            with pytest.raises(InputError, match=said):
                start(wanted(model, folder=folder))
    assert [each.name for each in held.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
def test_a_stopped_run_goes_on(place, model, monkeypatch):
    monkeypatch.setenv("FAKE_VERL", "stubborn")

    def stop(line: str) -> None:
        if line == "hanging":
            os.kill(os.getpid(), signal.SIGTERM)

    stopped = trained(wanted(model), echo=stop, grace_s=0.5)
    attempt = stopped.attempt
    assert (attempt.stopped_by, attempt.killed, attempt.finished) == ("SIGTERM", True, False)
    assert (attempt.step, attempt.checkpoint, stopped.errors) == (1, 1, [])
    monkeypatch.delenv("FAKE_VERL")
    assert trained(wanted(model)).attempt.step == 2


@pytest.mark.slow
def test_going_on_with_other_settings_is_refused(place, model):
    trained(wanted(model))
    with pytest.raises(InputError) as refused:
        trained(wanted(model, "run.seed=7", "loss.kl_coef=0"))
    message = str(refused.value)
    assert "run x started with other settings" in message
    assert "\n  plug_in.seed (42 stored, 7 given)" in message
    assert "\n  recipe.loss.kl_coef (0.001 stored, 0.0 given)" in message
    with opened() as database:
        publish(database, "sums", run="source", n=1)
    with pytest.raises(InputError, match="has exported sums@1 with another set"):
        trained(wanted(model))
    # what only changes what is kept may change
    assert trained(wanted(model, "trainer.save_freq=1", set="sums@1")).attempt.number == 2


@pytest.mark.slow
def test_workers_of_a_cluster_find_what_the_run_needs(place, model, monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "mine")
    monkeypatch.setenv("VLLM_USE_V2", "1")
    monkeypatch.setenv("HF_TOKEN", "not to be kept")
    own = "+ray_kwargs.ray_init.runtime_env.env_vars.VLLM_OWN=a"
    monkeypatch.setenv("VLLM_OWN", "b")
    prepared = dry_run(wanted(model, own, cpu=None, ray_address="auto"), opened)
    prefix = "+ray_kwargs.ray_init.runtime_env.env_vars."
    told = [word.removeprefix(prefix) for word in prepared.command if word.startswith(prefix)]
    variables = dict(text.split("=", 1) for text in told)
    assert len(variables) == len(told)
    assert variables["VERL_FILE_LOGGER_PATH"] == f"{place}/runs/x/metrics/1.jsonl"
    assert variables["VERL_USE_EXTERNAL_MODULES"] == "'mine,trainer_adapter.verl.plugin.registration'"
    assert f"{place}/fake" in variables["PYTHONPATH"]
    assert (variables["VLLM_USE_V2"], variables["VLLM_OWN"]) == ("'1'", "a")
    assert "HF_TOKEN" not in variables
    assert "not to be kept" not in prepared.shell


def test_a_missing_set_is_reported_before_the_tokenizer_is_loaded(place):
    with pytest.raises(NotFoundError, match="absent"):
        trained(wanted(place / "no-model", set="absent"))


@pytest.mark.slow
def test_a_finished_run_is_not_started_again(place, model):
    steps = "trainer.total_training_steps=2"
    first = trained(wanted(model, steps))
    again = trained(wanted(model, steps))
    assert again.attempt.finished
    assert again.attempt == first.attempt
    assert len(first.folder.attempts()) == 1
    # one whose last step was not saved has more to do
    (first.folder.checkpoints / "latest_checkpointed_iteration.txt").write_text("1")
    assert trained(wanted(model, steps)).attempt.number == 2


@pytest.mark.slow
def test_a_machine_without_gpus_is_told_so(place, model):
    with pytest.raises(PrerequisiteError, match=r"vllm.*--cpu|has no GPU"):
        trained(wanted(model, cpu=None, gpus=16))
    assert not (place / "runs" / "x" / "config.json").exists()


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


@pytest.fixture
def words(place, model):
    """Return the command that trains on an export in `out`."""
    run_here.ok("sets", "export", "sums", "--format", "verl", "--out", "out", "validation_share=0.3")
    return ("train", "run", "ta_grpo", "--data", "out", "--model", model, "--cpu", "--name", "x", *SMALL)


@pytest.mark.slow
def test_a_spoiled_export_is_refused(place, words):
    whole = (place / "out").rename(place / "whole")
    for name, spoil, message in SPOILED:
        path = shutil.copytree(whole, place / "out") / f"{name}.parquet"
        spoil(path)
        done = run_here.ok(*words, code=2)
        assert f"{path}: {message}" in done.err
        assert "; export the set again." in done.err
        assert not (place / "runs" / "x" / "logs").exists()
        run_here.refused(*words, "--dry-run")
        shutil.rmtree(place / "out")


def test_a_manifest_without_a_part_is_refused(place, words):
    path = place / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    for spoiled, said in (
        ({**manifest, "layout": "square"}, "square"),
        ({"format": "else"}, "--format verl"),
    ):
        path.write_text(json.dumps(spoiled))
        done = run_here.ok(*words, code=2)
        assert (str(path) in done.err, said in done.err) == (True, True)
