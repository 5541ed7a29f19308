"""Scripts of docs/slurm, with stand-ins for srun and scontrol: signals of a job, its requeue, its servers.

They were run by a real Slurm too: docs/clusters.md.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from world_runs import SAMPLES, rows, stats, world_server, write_sums

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "docs" / "slurm").glob("*.sbatch"))
PROBLEMS, N = 12, 8

# srun's own options end where the first word without a dash stands. No signal is meant for steps of Ray.
SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
[[ $1 == ray ]] || echo $$ > "$STEP"
exec "$@"
"""
RAY = """#!/bin/bash
echo "$@" >> "$RAY_CALLS"
case $1 in
    start) exec /bin/sleep 60 ;;
    status) grep -q "^start --head" "$RAY_CALLS" ;;
esac
"""
TRAINS = """#!/bin/bash
echo "$@" >> "$ASKED"
case $1 in
    runs) [[ -e "$RUN" ]] || exit 2 ;;
    train) touch "$RUN"; trap 'exit 143' TERM; while true; do /bin/sleep 0.05; done ;;
esac
"""
TAGRPO = f"""#!/bin/bash
exec {sys.executable} -c 'from ui.cli.app import main; main()' "$@"
"""


def provide(job: Path, programs: dict[str, str]) -> None:
    """Put programs on the path of a job."""
    for name, text in programs.items():
        (job / "bin" / name).write_text(text)
        (job / "bin" / name).chmod(0o755)


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Return the folder of a job whose commands of Slurm are stand-ins; scontrol writes down its orders."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    orders = f'#!/bin/bash\necho "$@" >> {tmp_path}/scontrol\n'
    wait = "#!/bin/bash\nexec /bin/sleep 0.1\n"
    provide(tmp_path, {"srun": SRUN, "scontrol": orders, "sleep": wait, "tagrpo": TAGRPO})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("STEP", str(tmp_path / "step"))
    monkeypatch.setenv("SERVERS", str(tmp_path / "servers"))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    for name in ("TAGRPO_DB", "SLURM_RESTART_COUNT", "GRACE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "servers").mkdir()
    return tmp_path


def submit(script: str, *arguments: object) -> "subprocess.Popen[str]":
    path = ROOT / "docs" / "slurm" / script
    call, pipe = ["bash", str(path), *map(str, arguments)], subprocess.PIPE
    return subprocess.Popen(call, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def end(script: str, *arguments: object, limit_s: float = 30) -> tuple[int, str]:
    """Run a script to its end; return its exit code and what it printed."""
    process = submit(script, *arguments)
    out, _ = process.communicate(timeout=limit_s)
    return process.returncode, out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_is_sound_and_says_what_it_lacks(script, job):
    subprocess.run(["bash", "-n", script], check=True)
    head = script.read_text(encoding="utf-8").split("\nset ")[0].splitlines()
    assert head[0] == "#!/bin/bash"
    assert all(line.startswith("#") for line in head if line)
    assert any(line.startswith("#SBATCH --requeue") for line in head)
    code, out = end(script.name)
    assert (code != 0, "name the" in out) == (True, True)


@pytest.mark.slow
def test_a_job_that_is_out_of_time_goes_back_into_the_queue_and_goes_on(job):
    write_sums(job / "sums.jsonl", PROBLEMS)
    same = ("--version", "0.11.0", "--latency", "0.2")
    with world_server(*same) as first, world_server(*same) as second:
        for name, url in (("1", first), ("2", second)):
            (job / "servers" / name).write_text(f"{url}\n")
        command = ("eval", "run", "sums.jsonl", "--model", "hosted_vllm/test-model", "--n", N)
        arguments = (*command, "samples_per_request=1", "max_concurrency=2")

        def paid() -> int:
            return int(stats(first)["paid"] + stats(second)["paid"])

        # The time is up: SIGTERM to the step alone.
        process = submit("run.sbatch", *arguments)
        while paid() < 8 and process.poll() is None:
            time.sleep(0.02)
        os.kill(int((job / "step").read_text()), signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 143, out
        assert (job / "scontrol").read_text() == "requeue 17\n"
        stored = len(rows("tagrpo.db", SAMPLES))
        assert stored == paid()  # all that was in flight came and is kept
        # The same command once more ends it.
        code, out = end("run.sbatch", *arguments, limit_s=200)
        assert code == 0, out
        assert paid() == PROBLEMS * N
        assert min(stats(first)["paid"], stats(second)["paid"]) > 0
    places = [(place, ordinal) for place in range(PROBLEMS) for ordinal in range(N)]
    assert [row[:2] for row in rows("tagrpo.db", SAMPLES)] == places


def test_a_job_that_is_sent_back_too_often_stays_away(job, monkeypatch):
    (job / "servers" / "1").write_text("http://localhost:1/v1\n")
    (job / "bin" / "tagrpo").write_text("#!/bin/bash\nexit 143\n")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "50")
    assert end("run.sbatch", "runs", "list")[0] == 143
    assert not (job / "scontrol").exists()


def test_a_server_is_listed_while_it_answers(job):
    port = 20000 + 17
    script = ROOT / "tests" / "support" / "openai_server.py"
    serve = f'#!/bin/bash\nexec {sys.executable} {script} "$@"\n'
    provide(job, {"serve": serve, "hostname": "#!/bin/bash\necho 127.0.0.1\n"})
    process = submit("servers.sbatch", "serve")
    entry = job / "servers" / "17"
    try:
        while not entry.exists() and process.poll() is None:
            time.sleep(0.05)
        assert entry.read_text() == f"http://127.0.0.1:{port}/v1\n"
        assert stats(f"http://127.0.0.1:{port}/v1")["requests"] == 0
    finally:
        os.kill(int((job / "step").read_text()), signal.SIGTERM)
        process.communicate(timeout=30)
    assert not entry.exists()


def test_each_task_of_an_array_runs_its_line(job, monkeypatch):
    (job / "commands").write_text("runs list\nsets list --json\n")
    (job / "bin" / "tagrpo").write_text(f'#!/bin/bash\necho "$@" > {job}/asked\n')
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    code, out = end("array.sbatch", "commands")
    assert (code, "must name a PostgreSQL database" in out) == (2, True)
    monkeypatch.setenv("TAGRPO_DB", "postgresql+psycopg://ann@db.lab/tagrpo")
    assert end("array.sbatch", "commands")[0] == 0
    assert (job / "asked").read_text() == "sets list --json grace_s=150\n"
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    code, out = end("array.sbatch", "commands")
    assert (code, "commands has no line 3" in out) == (2, True)


@pytest.mark.slow
def test_a_training_on_a_cluster_is_requeued_and_goes_on(job, monkeypatch):
    nodes = f'#!/bin/bash\n[[ $1 == show ]] && printf "n1\\nn2\\n" || echo "$@" >> {job}/scontrol\n'
    programs = {
        "ray": RAY,
        "tagrpo": TRAINS,
        "hostname": "#!/bin/bash\necho 10.0.0.1 fe80::1\n",
        "squeue": '#!/bin/bash\n[[ ! -e "$STEP" ]] || echo 17.3 driver; echo 17.2 ray\n',
        "scancel": '#!/bin/bash\n[[ $* == "--signal=TERM 17.3" ]] && kill -TERM "$(cat "$STEP")"\n',
        "scontrol": nodes,
    }
    provide(job, programs)
    settings = {"HOME": job, "RUN": "second", "ASKED": job / "asked", "RAY_CALLS": job / "ray"}
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    asked = "train run ta_grpo --name second"
    process = submit("ray.sbatch", *asked.split())
    try:
        while not ((job / "second").exists() and "start --address" in (job / "ray").read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)  # `--signal=B:` sends it to the script alone
        assert process.wait(30) == 143
        assert (job / "scontrol").read_text() == "requeue 17\n"
        address = f"10.0.0.1:{20000 + 17}"
        asked_for = (job / "asked").read_text().splitlines()
        assert asked_for == ["runs show second", f"{asked} ray_address={address}"]
        started = [line for line in (job / "ray").read_text().splitlines() if line.startswith("start")]
        assert [line.split()[1] for line in started] == ["--head", "--address"]
        assert submit("ray.sbatch", *asked.split()).wait(30) == 0
        assert (job / "asked").read_text().splitlines()[-1] == f"resume second ray_address={address}"
        assert (job / "scontrol").read_text() == "requeue 17\n"
    finally:
        for one in psutil.process_iter(["environ"]):  # Slurm ends the steps of Ray with their job
            if (one.info["environ"] or {}).get("RAY_CALLS") == str(job / "ray"):
                one.kill()
