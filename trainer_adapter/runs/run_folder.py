"""The folder of a training run: settings, attempts, command, and the process that uses it."""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from service.errors import InputError, TagrpoError
from service.writing import write_text
from trainer_adapter.record.files import read_metrics
from trainer_adapter.runs.launching import TrainEnd, end_processes, find_processes, last_step
from trainer_adapter.runs.resuming import tracked_step
from trainer_adapter.verl.alarms import alarms_of

CONFIG = "config.json"
COMMAND = "command.sh"
_LOCK, _ATTEMPTS, _PROCESS = ".lock", "attempts.jsonl", ".process.json"
_OWN = {COMMAND, _LOCK, _ATTEMPTS, _PROCESS, "data", "checkpoints", "rollouts", "logs", "metrics", "hydra"}
"""What a start leaves that was killed before the run was written down."""


@dataclass(frozen=True, kw_only=True)
class TrainAttempt(TrainEnd):
    """One start of a run."""

    number: int  # from 1
    started_at: str  # UTC
    step: int | None  # the last whose metrics it logged
    checkpoint: int | None  # the last step that was saved when it ended

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return self.returncode == 0 and self.stopped_by is None

    @property
    def failed(self) -> bool:
        """Whether it ended by itself before the end of training."""
        return self.returncode != 0 and self.stopped_by is None


@dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def data(self) -> Path:
        """The export, where the run made it."""
        return self.path / "data"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def rollouts(self) -> Path:
        """The rollout record, for `tagrpo train rollouts`."""
        return self.path / "rollouts"

    def log(self, attempt: int) -> Path:
        """What verl printed."""
        return self.path / "logs" / f"{attempt}.log"

    def metrics(self, attempt: int) -> Path:
        """The metrics of verl's file logger, which begins its file anew at every start."""
        return self.path / "metrics" / f"{attempt}.jsonl"

    def checked(self) -> "RunFolder":
        """Return this folder, unless it is a file, or has things in it that are not a run's."""
        for place in (self.path, *self.path.parents):
            if place.is_file():
                raise InputError(f"{place}: is a file. Set a folder with folder=FOLDER.")
        if self.exists() or not self.path.exists():
            return self
        foreign = sorted(entry.name for entry in self.path.iterdir() if entry.name not in _OWN)
        if foreign:
            raise InputError(
                f"{self.path}: contains {foreign[0]} but no training run. Set a new or empty folder with "
                "folder=FOLDER."
            )
        return self

    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / CONFIG).is_file()

    def checkpoint(self) -> int | None:
        """The last step that was saved; None where none was."""
        return tracked_step(self.checkpoints)

    def alarms(self) -> tuple[str, ...]:
        """What the recorded metrics say to look at, a line each."""
        return tuple(map(str, alarms_of(read_metrics(self.rollouts)[0].items())))

    def attempts(self) -> list[TrainAttempt]:
        """The starts so far; a line that a kill cut short is left out."""
        try:
            lines = (self.path / _ATTEMPTS).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        attempts = []
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                attempts.append(TrainAttempt(**json.loads(line)))
        return attempts

    def next_attempt(self) -> int:
        """The number of the next start; logs of starts that were killed before their end count too."""
        logs = [int(path.stem) for path in (self.path / "logs").glob("*.log") if path.stem.isdigit()]
        return max([*logs, *(attempt.number for attempt in self.attempts()), 0]) + 1

    def end_attempt(self, number: int, started_at: str, ended: TrainEnd) -> TrainAttempt:
        """Write down how an attempt ended and how far it came, and return it."""
        attempt = TrainAttempt(
            **vars(ended),
            number=number,
            started_at=started_at,
            step=last_step(self.log(number)),
            checkpoint=self.checkpoint(),
        )
        with (self.path / _ATTEMPTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(attempt)) + "\n")
        return attempt

    def read_spec(self) -> dict[str, Any]:
        """Return the specification with which the run was first started."""
        path = self.path / CONFIG
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))["spec"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: cannot be read ({error}). Start a run with another --name.") from error

    def write_config(self, config: Mapping[str, Any]) -> None:
        content = {"format": "tagrpo training run", "format_version": 1, **config}
        write_text(self.path / CONFIG, json.dumps(content, indent=2) + "\n", overwrite=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder: two processes never train the same run."""
        made = [folder for folder in self.path.parents if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"{self.path}: another process is training this run. Wait for it to finish, or stop it."
                ) from error
            try:
                yield
            except TagrpoError:
                self._forget_refused(made)
                raise

    def _forget_refused(self, made: Sequence[Path]) -> None:
        """Remove what a start left that was refused before the run began; nothing of a run that exists."""
        if self.exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)
        (self.path / _LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is in it
            for folder in (self.path, *made):
                folder.rmdir()

    def note_process(self, number: int, started_at: str, mark: str, ray_folder: Path | None) -> None:
        """Keep by what the processes of an attempt are known, should this process be killed."""
        about = {"number": number, "started_at": started_at, "mark": mark}
        about["ray_folder"] = None if ray_folder is None else str(ray_folder)
        (self.path / _PROCESS).write_text(json.dumps(about), encoding="utf-8")

    def forget_process(self) -> None:
        (self.path / _PROCESS).unlink(missing_ok=True)

    def end_leftovers(self) -> int:
        """End what an attempt left running whose `tagrpo` was killed; return how many processes that were.

        The attempt is added to the others.
        """
        path = self.path / _PROCESS
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            mark, folder = str(about["mark"]), about["ray_folder"]
            number, started_at = int(about["number"]), str(about["started_at"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        ray_folder = None if folder is None else Path(folder)
        processes = find_processes(mark, ray_folder)
        end_processes(mark, ray_folder, patience_s=0.0)
        if number not in {attempt.number for attempt in self.attempts()}:
            try:
                written = self.log(number).stat().st_mtime
                seconds = max(0.0, written - datetime.fromisoformat(started_at).timestamp())
            except (OSError, ValueError):
                seconds = 0.0
            self.end_attempt(number, started_at, TrainEnd(round(seconds, 1), None))
        self.forget_process()
        return len(processes)
