"""Reports in TensorBoard, Weights & Biases (offline) and MLflow, read back with the systems' own readers."""

from pathlib import Path
from typing import Any

import pytest
from eval_runs import add_eval_run

from evaluator.exchange.trackers import Tracker, checkpoint_step, log_report
from evaluator.reports.methods import load_methods
from evaluator.reports.records import records
from evaluator.reports.report import build_report
from service.database import Database
from service.errors import InputError, PrerequisiteError

TEXT = "# A report\n\n| method | pass@1 |\n"
MODEL = "runs/ta/checkpoints/global_step_200/actor/huggingface"


@pytest.fixture
def rows(db: Database) -> list[dict[str, Any]]:
    add_eval_run(db, "base.aime24", [(2, 1, 0), (2, 0, 1)], benchmark="aime24")
    add_eval_run(db, "ta.aime24", [(2, 2, 0), (2, 0, 0)], benchmark="aime24", model=MODEL, truncated=1)
    with db.read() as session:
        methods = load_methods(session, ["base", "ta grpo=ta"])
    return records(build_report(methods, ks=[1, 2], paper="none"))


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (MODEL, 200),
        ("checkpoints/step_40", 40),
        ("step-7.safetensors", 7),
        ("Qwen/Qwen3-4B", 0),
        ("overstep_3", 0),
    ],
)
def test_the_step_is_read_from_the_checkpoint(model: str, step: int) -> None:
    assert checkpoint_step(model) == step


def test_tensorboard_has_scores_with_intervals_shares_and_the_report(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged = log_report(Tracker.parse(f"tensorboard:{tmp_path / 'logs'}"), rows, TEXT)
    assert [(row.label, row.step) for row in logged] == [("base", 0), ("ta grpo", 200)]
    events = EventAccumulator(str(tmp_path / "logs" / "ta-grpo"))
    events.Reload()
    score = {tag: events.Scalars(tag)[0] for tag in events.Tags()["scalars"]}
    assert {event.step for event in score.values()} == {200}
    assert score["aime24/pass@1"].value == 0.5
    assert score["aime24/truncated"].value == 0.5
    assert 0 <= score["aime24/pass@2/low"].value < 0.5 < score["aime24/pass@2/high"].value <= 1
    (report,) = events.Tensors("report")
    assert report.tensor_proto.string_val[0].decode() == TEXT
    base = EventAccumulator(str(tmp_path / "logs" / "base"))
    base.Reload()
    assert base.Scalars("aime24/unknown")[0].value == 0.25
    assert base.Scalars("aime24/pass@1/value_high")[0].value == 0.5
    assert "runs: base.aime24" in base.Tensors("settings")[0].tensor_proto.string_val[0].decode()


@pytest.mark.slow
def test_wandb_has_them_offline(
    tmp_path: Path, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    for name in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    import wandb

    log_report(Tracker.parse("wandb:sums"), rows, TEXT)
    wandb.teardown()  # its service has written all then, as at the end of a command
    runs = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(runs) == 2
    stored = b"".join(run.read_bytes() for run in runs)
    for text in (b"aime24/pass@2/low", b"aime24/truncated", b"ta grpo", b"report-ta-grpo", MODEL.encode()):
        assert text in stored


@pytest.mark.mlflow
def test_mlflow_has_them(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    import mlflow

    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    artifacts = tmp_path / "artifacts"
    mlflow.set_tracking_uri(address)
    mlflow.create_experiment("tagrpo evaluations", artifact_location=artifacts.as_uri())
    log_report(Tracker.parse(f"mlflow:{address}"), rows, TEXT)
    stored = {
        run.info.run_name: run
        for run in mlflow.search_runs(experiment_names=["tagrpo evaluations"], output_format="list")
    }
    ours = stored["ta grpo"].data
    assert (ours.metrics["aime24/pass_at_1"], ours.params["step"]) == (0.5, "200")
    assert [path.read_text() for path in artifacts.rglob("report.md")] == [TEXT, TEXT]


def test_a_place_that_cannot_be_logged_to_is_refused(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    (tmp_path / "file").write_text("")
    for text in ("wandb", "wandb:", "comet:x", f"tensorboard:{tmp_path / 'file'}"):
        with pytest.raises(InputError, match="--log-to"):
            Tracker.parse(text)
    with pytest.raises(PrerequisiteError, match="tensorboard rejected the report"):
        log_report(Tracker("tensorboard", str(tmp_path / "file" / "below")), rows, TEXT)
