"""Children that misbehave: they fail, hang, ignore signals, leave processes behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from service.errors import InputError
from trainer_adapter.runs import launching
from trainer_adapter.runs.run_folder import RunFolder

WAITS = "import signal; print('ready', flush=True)\nwhile True: signal.pause()"


def ran(
    code: str, folder: Path, *, on_line: dict[str, list[int]] | None = None, **limits: float
) -> tuple[launching.TrainEnd, list[str]]:
    """Run Python `code` as the child; signals of `on_line` come to this process when the line appears."""
    seen: list[str] = []

    def echo(line: str) -> None:
        seen.append(line)
        for number in (on_line or {}).get(line, []):
            os.kill(os.getpid(), number)

    ended = launching.run_child(
        [sys.executable, "-c", code],
        dict(os.environ),
        folder / "log",
        folder=folder,
        mark=f"test-{folder.name}",
        ray_folder=None,
        echo=echo,
        **({"grace_s": 20.0, "patience_s": 0.2} | limits),
    )
    return ended, seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_child_that_listens(tmp_path, number):
    before = signal.getsignal(number)
    ended, _ = ran(WAITS, tmp_path, on_line={"ready": [number]})
    assert ended.returncode == -signal.SIGTERM
    assert (ended.stopped_by, ended.killed) == (number.name, False)
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    """`nohup` ignores SIGHUP, so that the terminal may close."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended, _ = ran(WAITS, tmp_path, on_line={"ready": [signal.SIGHUP, signal.SIGTERM]})
        assert (ended.stopped_by, ended.killed) == ("SIGTERM", False)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


LEAVES = """
import subprocess, sys
left = subprocess.Popen(
    [sys.executable, "-c", "import signal; print('up', flush=True)\\nwhile True: signal.pause()"],
    stdout=subprocess.PIPE, start_new_session=True,
)
left.stdout.readline()
print(left.pid, flush=True)
"""


def test_no_other_process_is_touched(tmp_path):
    call, marked = [sys.executable, "-c", WAITS], {**os.environ, launching.MARK: str(tmp_path)}
    with subprocess.Popen(call, stdout=subprocess.PIPE, env=marked, start_new_session=True) as other:
        assert other.stdout.readline() == b"ready\n"
        try:
            ran(LEAVES, tmp_path)
            assert other.poll() is None
            assert [process.pid for process in launching.find_processes(str(tmp_path), None)] == [other.pid]
        finally:
            other.kill()


def test_rays_processes_are_known_by_their_files(tmp_path):
    """Some of them write their title over their environment."""
    ray_folder = launching.make_ray_folder()
    assert len(str(ray_folder)) < 40
    code = f"file = open({str(ray_folder / 'log')!r}, 'w')\n{WAITS}"
    hidden = {name: value for name, value in os.environ.items() if name != launching.MARK}
    call, pipe = [sys.executable, "-c", code], subprocess.PIPE
    process = subprocess.Popen(call, stdout=pipe, env=hidden, start_new_session=True)
    try:
        assert process.stdout.readline() == b"ready\n"
        assert launching.end_processes("nobody", ray_folder, patience_s=0.0) == 1
        assert not psutil.pid_exists(process.pid)
        assert not ray_folder.exists()
    finally:
        process.kill()
        process.communicate()


def test_a_folder_is_trained_in_by_one_process_only(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        refused = pytest.raises(InputError, match="another process is training this run")
        with refused, folder.locked():
            pass
    with folder.locked():
        assert not folder.exists()


def test_attempts_are_numbered_and_a_line_cut_short_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    assert (folder.attempts(), folder.next_attempt(), folder.checkpoint()) == ([], 1, None)
    first = folder.end_attempt(1, "2026-01-01T00:00:00Z", launching.TrainEnd(5.0, 0))
    with (tmp_path / "attempts.jsonl").open("a") as file:
        file.write('{"number": 2, "star')
    assert folder.attempts() == [first]
    assert folder.next_attempt() == 2
    folder.log(3).parent.mkdir()
    folder.log(3).write_text("killed before its end")
    assert folder.next_attempt() == 4


LOG = """\
\x1b[36m(TaskRunnerV1 pid=10832)\x1b[0m step:1 - actor/pg_loss:0.1 - perf/throughput:12
\x1b[36m(TaskRunnerV1 pid=10832)\x1b[0m step:2 - actor/pg_loss:0.1
\x1b[36m(WorkerDict pid=3, ip=10.0.0.7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
Traceback (most recent call last):
  File "main_ppo.py", line 9, in main
ray.exceptions.RayTaskError(OutOfMemoryError): ray::TaskRunner.run()
ValueError: a value
ValueError: a value
"""


def test_the_log_says_how_far_it_came_and_why_it_failed(tmp_path):
    log = tmp_path / "log"
    assert (launching.last_step(log), launching.last_errors(log), launching.hints(log)) == (None, [], [])
    log.write_text(LOG)
    assert launching.last_step(log) == 2
    assert launching.last_errors(log) == [
        "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB",
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::TaskRunner.run()",
        "ValueError: a value",
    ]
    assert launching.hints(log)[0].startswith("the GPU ran out of memory: ")
    # As Ray says that it did not start, and what nanobind says at the end of a process.
    log.write_text("Exception: The current node timed out during startup.\nnanobind: leaked 514 functions!\n")
    assert launching.last_errors(log) == ["Exception: The current node timed out during startup."]
    log.write_text("\n".join(f"line {number}" for number in range(7)))
    assert launching.last_errors(log) == [f"line {number}" for number in range(2, 7)]
