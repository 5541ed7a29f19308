"""Ending the processes that a training started, and only those: Ray's live in sessions of their own."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil

MARK = "TAGRPO_TRAINING"
"""Stands in the environment of a training and so in that of everything it starts."""

_ROUNDS = 20


def make_ray_folder() -> Path:
    """Return a new folder for Ray's files; short, since the paths of its sockets must fit into 107 bytes.

    It lies in RAY_TMPDIR where that is set, else in /tmp.
    """
    parent = os.environ.get("RAY_TMPDIR") or ("/tmp" if os.access("/tmp", os.W_OK) else None)
    return Path(tempfile.mkdtemp(prefix="ray-", dir=parent))


def find_processes(mark: str, ray_folder: Path | None) -> list[psutil.Process]:
    """Return the living processes that bear the mark or have a file in Ray's folder open.

    The folder is needed too, because some of Ray's processes write their title over their environment.
    """
    return [process for process in psutil.process_iter() if _belongs(process, mark, ray_folder)]


def end_processes(mark: str, ray_folder: Path | None, *, patience_s: float = 5.0) -> int:
    """End what is left of a training and remove Ray's folder; return how many processes had to be killed.

    Args:
        mark: of the training.
        ray_folder: of its Ray; None where it used a cluster that ran already.
        patience_s: how long they may take to end by themselves.

    Raises:
        RuntimeError: some do not die, which only the kernel can keep them from.
    """
    found = find_processes(mark, ray_folder)
    deadline = time.monotonic() + patience_s
    while found and time.monotonic() < deadline:
        psutil.wait_procs(found, timeout=min(0.5, patience_s))
        found = find_processes(mark, ray_folder)
    killed = 0
    for _ in range(_ROUNDS):
        if not found:
            break
        for process in found:
            try:
                process.kill()
                killed += 1
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=5)
        found = find_processes(mark, ray_folder)
    if found:
        raise RuntimeError(f"processes of the training are left: {[process.pid for process in found]}")
    if ray_folder is not None:
        shutil.rmtree(ray_folder, ignore_errors=True)
    return killed


def _belongs(process: psutil.Process, mark: str, ray_folder: Path | None) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARK) == mark:
            return True
        if ray_folder is None:
            return False
        return any(file.path.startswith(f"{ray_folder}/") for file in process.open_files())
    except (psutil.Error, OSError):
        return False
