"""The folder of a demo: its settings, its finished steps, and the process that uses it."""

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.demo.plan import DemoPlan
from service.database import utc_now
from service.errors import InputError
from service.writing import write_text

STATE = "demo.json"
_KIND = {"format": "tagrpo demo", "format_version": 1}
_LOCK = ".lock"


@dataclass
class DemoFolder:
    """A demo's folder, held by this process."""

    path: Path
    fixed: Mapping[str, Any]  # settings that may not change
    done: dict[str, float] = field(default_factory=dict)  # seconds of each finished step, by its key
    reported: Mapping[str, Any] | None = None  # the report's subject, as of `DemoPlan.compared`

    def finish(self, key: str, seconds: float) -> None:
        """Write down that a step is done; only then does a later run skip it."""
        self.done[key] = round(seconds, 1)
        self.write()

    def report(self, compared: Mapping[str, Any]) -> None:
        """Write down the subject of the report: with other recipes it is another one."""
        self.reported = compared
        self.write()

    def write(self) -> None:
        """Write the state, at one stroke."""
        content = {**_KIND, "written_at": utc_now(), "asked": dict(self.fixed), "done": self.done}
        content["reported"] = self.reported
        write_text(self.path / STATE, json.dumps(content, indent=1) + "\n", overwrite=True)


@contextmanager
def open_demo_folder(plan: DemoPlan) -> Iterator[DemoFolder]:
    """Hold the folder of a demo, new or begun; no other process can work in it meanwhile."""
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        lock = (plan.folder / _LOCK).open("w")
    except OSError as error:
        raise InputError(
            f"{plan.folder}: cannot be written ({error.strerror}). Choose another --folder."
        ) from error
    with lock:
        # A record lock: unlike one of flock it is not inherited by a process that is forked and outlives us.
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"{plan.folder}: another demo is running here. Wait, stop it, or choose another --folder."
            ) from error
        yield _read(plan)


def clear_part(made: Sequence[Path]) -> bool:
    """Return whether all of these are there; where a kill left only some, they are removed."""
    there = [path for path in made if path.exists()]
    if len(there) == len(made):
        return True
    for path in there:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return False


def _read(plan: DemoPlan) -> DemoFolder:
    path = plan.folder / STATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        held = sorted(each.name for each in plan.folder.iterdir() if each.name != _LOCK)
        if held:
            raise InputError(
                f"{plan.folder}: contains {held[0]}{' and more' if held[1:] else ''}, which does not come "
                "from a demo. Choose a new or empty --folder."
            ) from None
        new = DemoFolder(plan.folder, plan.fixed())
        new.write()  # before the first step: what a kill leaves of it belongs to this demo
        return new
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}). Choose another --folder.") from error
    if not isinstance(content, dict) or [content.get(name) for name in _KIND] != list(_KIND.values()):
        raise InputError(f"{path}: not a demo's state file of this version. Choose another --folder.")
    asked, done = content["asked"], content["done"]
    changed = [
        f"{name} was {asked.get(name)}, now {value}"
        for name, value in plan.fixed().items()
        if asked.get(name) != value
    ]
    if changed:
        raise InputError(
            f"{plan.folder}: this demo started with other settings ({'; '.join(changed)}). Use the same "
            "settings, or choose another --folder."
        )
    if any("--db" in key for key in done) and not plan.database.exists():
        raise InputError(
            f"{plan.database}: the database is missing, although the demo has finished steps. Remove "
            f"{plan.folder} to start again, or choose another --folder."
        )
    seconds = {str(key): float(taken) for key, taken in done.items()}
    return DemoFolder(plan.folder, asked, seconds, content.get("reported"))
