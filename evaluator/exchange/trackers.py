"""Reports logged where trainings are logged: Weights & Biases, MLflow, TensorBoard.

Each row of a report becomes a run of the tracker, with its scores at the step of the checkpoint and the
report as text. The packages are the extra `tracking`, imported where one is used.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from evaluator.reports.records import RUNS
from service.errors import InputError, PrerequisiteError

System = Literal["wandb", "mlflow", "tensorboard"]
_TARGETS: Mapping[str, str] = {
    "wandb": "wandb:PROJECT or wandb:ENTITY/PROJECT",
    "mlflow": "mlflow:URI",
    "tensorboard": "tensorboard:FOLDER",
}
EXPERIMENT = "tagrpo evaluations"
"""The experiment in MLflow."""

_STEP = re.compile(r"(?:^|[/_-])step[_-]?(\d+)(?=[/_.-]|$)")
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")
_SHARES = ("truncated", "unknown")


@dataclass(frozen=True)
class Tracker:
    """Where to log: a system, and a project, address or folder of it."""

    system: System
    target: str

    @classmethod
    def parse(cls, text: str) -> "Tracker":
        """Read `wandb:PROJECT`, `mlflow:URI` or `tensorboard:FOLDER`.

        Raises:
            InputError: it is none of these.
            PrerequisiteError: the system's package is not installed.
        """
        system, _, target = text.partition(":")
        if system not in _TARGETS or not target.strip():
            raise InputError(f"--log-to {text}: give {', '.join(_TARGETS.values())}.")
        if find_spec(system) is None:
            raise PrerequisiteError(
                f"--log-to {text}: {system} is not installed. Run `pip install 'tagrpo[tracking]'`."
            )
        if system == "tensorboard" and Path(target).is_file():
            raise InputError(f"--log-to {text}: is a file. Give a folder.")
        return cls(system, target)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Logged:
    """What is logged of a row of a report: scores by name, settings, and the step of its checkpoint."""

    label: str
    step: int
    scores: Mapping[str, float]
    settings: Mapping[str, Any]


def checkpoint_step(model: str) -> int:
    """Return the training step that a checkpoint's path names; 0 where it names none.

    >>> checkpoint_step("runs/ta/checkpoints/global_step_200/actor/huggingface")
    200
    """
    steps = _STEP.findall(model)
    return int(steps[-1]) if steps else 0


def logged_rows(records: Sequence[Mapping[str, Any]]) -> list[Logged]:
    """Return what is logged of a report's records, a run of the tracker for each label.

    Scores are `BENCHMARK/pass@8`, the ends of its interval `.../low` and `.../high`, the value with unknown
    grades counted right `.../value_high`, and by benchmark the shares `truncated` and `unknown`.
    """
    labels = dict.fromkeys(row["label"] for row in records if row["source"] == RUNS)
    logged = []
    for label in labels:
        rows = [row for row in records if row["source"] == RUNS and row["label"] == label]
        scores: dict[str, float] = {}
        for row in rows:
            name = f"{row['benchmark']}/{row['metric'].removesuffix('k')}{row['k']}"
            ends = {"": "value", "/value_high": "value_high", "/low": "low", "/high": "high"}
            named = {f"{name}{end}": row[column] for end, column in ends.items()}
            named |= {f"{row['benchmark']}/{share}": row[share] for share in _SHARES}
            scores |= {key: float(value) for key, value in named.items() if value is not None}
        models = list(dict.fromkeys(row["model"] for row in rows))
        steps = {checkpoint_step(model) for model in models}
        settings = {
            "runs": ", ".join(dict.fromkeys(row["run"] for row in rows)),
            "model": ", ".join(models),
            "interval": rows[0]["interval"],
            "grader": rows[0]["grader"],
            "grades": rows[0]["grades"],
        }
        logged.append(Logged(label, max(steps), scores, settings))
    return logged


def log_report(tracker: Tracker, records: Sequence[Mapping[str, Any]], text: str) -> list[Logged]:
    """Log a report's rows, with its text (Markdown), and return them.

    Raises:
        PrerequisiteError: the system refuses; the message is its own.
    """
    rows = logged_rows(records)
    log = {"wandb": _to_wandb, "mlflow": _to_mlflow, "tensorboard": _to_tensorboard}[tracker.system]
    with _refusals(tracker):
        for row in rows:
            log(tracker.target, row, text)
    return rows


@contextmanager
def _refusals(tracker: Tracker) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each system has errors of its own, and none is ours
        why = " ".join(str(error).split()) or type(error).__name__
        raise PrerequisiteError(f"{tracker.system} rejected the report: {why}") from error


def _to_wandb(project: str, row: Logged, text: str) -> None:
    import wandb

    entity, _, name = project.rpartition("/")
    settings = wandb.Settings(silent=True, console="off")
    run = wandb.init(
        project=name,
        entity=entity or None,
        name=row.label,
        job_type="evaluation",
        config={**row.settings, "step": row.step},
        settings=settings,
        reinit="create_new",
    )
    failed = True
    try:
        run.log({**row.scores, "checkpoint_step": row.step}, step=row.step)
        artifact = wandb.Artifact(f"report-{re.sub(r'[^0-9A-Za-z._-]+', '-', row.label)}"[:120], "report")
        with artifact.new_file("report.md", encoding="utf-8") as file:
            file.write(text)
        run.log_artifact(artifact)
        failed = False
    finally:
        run.finish(exit_code=int(failed))


def _to_mlflow(address: str, row: Logged, text: str) -> None:
    import mlflow

    mlflow.set_tracking_uri(address)
    experiment = mlflow.set_experiment(EXPERIMENT)
    with mlflow.start_run(experiment_id=experiment.experiment_id, run_name=row.label):
        mlflow.log_params({**row.settings, "step": row.step})
        mlflow.log_metrics({_mlflow_name(name): value for name, value in row.scores.items()}, step=row.step)
        mlflow.log_text(text, "report.md")


def _mlflow_name(name: str) -> str:
    """Return a name that MLflow takes, spelt as verl spells its own there."""
    return _NOT_IN_NAMES.sub("_", name.replace("@", "_at_"))


def _to_tensorboard(folder: str, row: Logged, text: str) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    writer = EventFileWriter(str(Path(folder) / _folder_name(row.label)))
    values = [Summary.Value(tag=name, simple_value=value) for name, value in row.scores.items()]
    settings = "\n".join(f"- {name}: {value}" for name, value in row.settings.items())
    for tag, words in (("report", text), ("settings", settings)):
        metadata = create_summary_metadata(display_name="", description="")
        values.append(Summary.Value(tag=tag, tensor=make_tensor_proto(words), metadata=metadata))
    writer.add_event(Event(wall_time=time.time(), step=row.step, summary=Summary(value=values)))
    writer.close()


def _folder_name(label: str) -> str:
    """Return a label as the name of a folder, which TensorBoard shows as the run's."""
    return re.sub(r"[^\w.+=-]+", "-", label).strip(".-") or "report"
