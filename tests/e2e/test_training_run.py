"""`tagrpo train run` with verl itself, on the CPU: from a set to a checkpoint, hostile responses, kills.

Two runs serve all tests. One goes through. The other is the same run but for its name and a reward function
that can be made to wait: verl is killed in the middle of its fourth step, tagrpo in the middle of its sixth.
"""

import contextlib
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hostile_model import ANSWER, BYTES, GOLD, HALF, NESTED, TOWER, decoded, save_hostile_model
from training_runs import (
    RESPONSES,
    metrics,
    publish_sums,
    recorded,
    run,
    run_beside,
    start,
    started_by,
    wait_until,
    words,
)
from waiting_reward import ANSWERED, CALLS

from service.database import Database
from service.runs.store import find_run
from trainer_adapter.record.rollout import RolloutRecord
from trainer_adapter.record.runs import list_train_runs
from trainer_adapter.runs.launching import find_processes
from trainer_adapter.runs.run_folder import RunFolder

LIMIT_S = 500
STEPS = 6
REWARD = Path(__file__).parents[1] / "support" / "waiting_reward.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    save_hostile_model(folder / "tiny")
    publish_sums(folder, int(GOLD))
    return folder


def in_full(done: Any, folder: Path) -> str:
    logs = sorted((folder / "logs").glob("*.log"))
    return f"{done.stderr[-3000:]}\n{logs[-1].read_text(errors='replace')[-6000:] if logs else ''}"


def alive(process: psutil.Process) -> bool:
    """Return whether a process runs; an ended one that nobody has waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marks_of(folder: Path) -> tuple[str, Path]:
    """Return by what the processes of the start that is under way are known."""
    about = json.loads((folder / ".process.json").read_text())
    return about["mark"], Path(about["ray_folder"])


@pytest.fixture(scope="module")
def finished(place):
    """The folder of the run that goes through."""
    folder = place / "runs" / "first"
    done = run(place, *words("first", "tiny", STEPS), limit_s=LIMIT_S)
    assert done.returncode == 0, in_full(done, folder)
    ended: dict[str, Any] = json.loads(done.stdout)
    assert (ended["finished"], ended["step"], ended["checkpoint"]) == (True, STEPS, STEPS)
    return folder


@pytest.fixture(scope="module")
def killed(place):
    """What was seen of the run that is killed, goes on, is killed again, and comes to its end."""
    seen = SimpleNamespace(folder=place / "runs" / "second", errors=[], rollouts=[], marks=[])
    given = words("second", "tiny", STEPS, f"verl.reward.custom_reward_function.path={REWARD}")
    half_a_step = 3 * RESPONSES  # the first call after it belongs to the fourth step that a start trains

    def begin(name: str, *more: str) -> Any:
        calls = place / name
        process = start(place, *given, *more, **{CALLS: str(calls), ANSWERED: str(half_a_step)})
        wait_until(process, lambda: calls.exists() and calls.stat().st_size > half_a_step, LIMIT_S)
        seen.marks.append(marks_of(seen.folder))
        return process, started_by(process)

    def look() -> None:
        done = run_beside(place, "runs", "list", "--kind", "train", "--json")
        assert done.code == 0, done.err
        [listed] = [each for each in json.loads(done.out)["runs"] if each["run"] == "second"]
        seen.rollouts.append(listed["rollouts"])

    process, tree = begin("calls-1")
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    out, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, errors[-3000:]
    seen.after_verl = json.loads(out)
    seen.errors.append(errors)
    seen.still_there = find_processes(*seen.marks[0])
    # what a kill in the middle of writing leaves of the fourth step
    left = seen.folder / "rollouts" / ".step-00000004.parquet.1.partial"
    left.mkdir()
    (left / "step-00000004.parquet").write_bytes(b"PAR1")
    look()

    process, tree = begin("calls-2")
    process.kill()
    process.communicate()
    seen.outlived = [one for one in tree if alive(one)]
    done = run(place, *given, limit_s=LIMIT_S)
    assert done.returncode == 0, in_full(done, seen.folder)
    seen.errors.append(done.stderr)
    look()
    return seen


def test_a_set_becomes_a_checkpoint(place, finished):
    saved = finished / "checkpoints" / f"global_step_{STEPS}" / "actor" / "model_world_size_1_rank_0.pt"
    assert saved.is_file()
    by_step = metrics(finished)
    assert set(by_step) == set(range(1, STEPS + 1))
    assert any(name.startswith("val-core/") for name in by_step[STEPS])
    config = json.loads((finished / "config.json").read_text())
    with Database.open(place / "tagrpo.db") as database, database.read() as session:
        kept = find_run(session, "first")
        [trained] = [each for each in list_train_runs(session) if each.run.name == "first"]
    assert (kept.kind, kept.spec, kept.finished_at is None) == ("train", config["spec"], False)
    assert (trained.numbers.steps, trained.numbers.rollouts) == (STEPS, STEPS * RESPONSES)

    # The record is that of the same run: adding its folder finds it instead of making another.
    added = run_beside(place, "train", "rollouts", "runs/first/rollouts", "--add", "--json")
    assert added.code == 0, added.err
    with Database.open(place / "tagrpo.db") as database, database.read() as session:
        assert find_run(session, "first").id == kept.id
    assert json.loads(added.out)["steps"] == STEPS


def test_metrics_of_a_step_are_recorded_before_its_checkpoint(finished):
    """A kill between the two would lose them: the step is never trained again."""
    lines = (finished / "rollouts" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    early = [row for row in rows if "timing_s/step" not in row["metrics"]]
    assert [row["step"] for row in early] == [2, 4, 6]
    assert all(row["metrics"]["tagrpo/batch/responses"] == RESPONSES for row in early)
    assert [row["step"] for row in rows if row not in early] == list(range(1, STEPS + 1))


def test_no_process_of_a_run_is_left(finished, killed):
    for folder in (finished, killed.folder):
        assert not (folder / ".process.json").exists()
        processes = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
        assert not [words for words in processes if any(str(folder) in word for word in words)]


GRADES = {
    # where it stands alone, and nothing stands before it
    "": ("wrong", "no answer found"),
    ANSWER: ("correct", "exact"),
    HALF: ("wrong", "no answer found"),
    TOWER: ("unknown", "timeout"),
    NESTED: ("wrong", "no answer found"),
    decoded(BYTES): ("wrong", "unparsable"),
}


def test_hostile_responses_are_graded_recorded_and_trained_on(finished):
    rollouts = list(recorded(finished).values())
    assert len(rollouts) == STEPS * RESPONSES
    alone: dict[str, list[RolloutRecord]] = {text: [] for text in GRADES}
    for each in rollouts:
        if not each.truncated and each.response in alone:
            alone[each.response].append(each)
    for text, found in alone.items():
        assert found, text[:40]
        assert {(each.grade, each.reason) for each in found} == {GRADES[text]}, text[:40]
        assert {each.reward for each in found} == {1.0 if text == ANSWER else 0.0}
        assert {each.tokens for each in found} == {1 if text == "" else 2}
    assert len(NESTED) > 1_000_000
    # Every response is two of these texts at most: nothing of them is lost on its way into the record.
    texts = set(GRADES)
    assert {each.response for each in rollouts} <= {one + other for one in texts for other in texts}
    cut = [each for each in rollouts if each.truncated]
    assert cut
    assert all(each.tokens == 2 for each in cut)
    assert any(each.truncated and len(each.response) > 1_000_000 for each in rollouts)


def test_verl_killed_in_a_step_is_reported_and_each_start_is_kept(killed):
    ended = killed.after_verl
    assert (ended["finished"], ended["returncode"], ended["stopped_by"]) == (False, -9, None)
    assert (ended["step"], ended["checkpoint"]) == (3, 2)
    assert "verl was killed by SIGKILL" in killed.errors[0]
    assert "resume from the checkpoint of step 2 with `tagrpo resume second --hide-log`" in killed.errors[0]
    assert killed.still_there == []
    assert not any(ray_folder.exists() for _, ray_folder in killed.marks)
    attempts = RunFolder(killed.folder).attempts()
    assert [(each.number, each.returncode) for each in attempts] == [(1, -9), (2, None), (3, 0)]
    assert [(each.step, each.checkpoint) for each in attempts] == [(3, 2), (5, 4), (STEPS, STEPS)]
    logs = sorted((killed.folder / "metrics").glob("*.jsonl"))
    assert [json.loads(path.read_text().splitlines()[0])["step"] for path in logs] == [1, 3, 5]


def test_what_outlived_tagrpo_is_ended_by_the_next_start(killed):
    assert len(killed.outlived) > 5  # verl and Ray go on when tagrpo alone is killed
    assert not [one for one in killed.outlived if alive(one)]
    assert "stopped leftover processes of a killed run" in killed.errors[1]


def test_ctrl_c_while_ray_starts_ends_all_of_it(place):
    folder = place / "runs" / "third"
    process = start(place, *words("third", "tiny", STEPS))
    log = folder / "logs" / "1.log"
    begun = "Started a local Ray instance"
    wait_until(process, lambda: log.exists() and begun in log.read_text(errors="replace"), LIMIT_S)
    mark, ray_folder = marks_of(folder)
    assert ray_folder.exists()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=LIMIT_S)
    ended = json.loads(out)
    assert (process.returncode, ended["finished"], ended["stopped_by"]) == (130, False, "SIGINT")
    assert (ended["step"], ended["checkpoint"], ended["killed"]) == (None, None, False)
    assert "stopped by SIGINT, verl ended. Resume from step 1, since nothing was saved yet," in errors
    assert find_processes(mark, ray_folder) == []
    assert not ray_folder.exists()


def test_a_killed_run_ends_as_one_that_was_not(place, finished, killed):
    first, second = recorded(finished), recorded(killed.folder)
    assert first.keys() == second.keys()
    for at, one in first.items():
        other = second[at]
        for name in ("response", "tokens", "variant", "group", "reward", "grade", "truncated"):
            assert getattr(one, name) == getattr(other, name), (at[0], name)
        for name in ("advantage", "old_log_prob", "ref_log_prob", "sampling_log_prob"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-5, abs=1e-5)
    through, again = metrics(finished), metrics(killed.folder)
    assert through.keys() == again.keys()
    for step, values in through.items():
        for name in ("actor/pg_loss", "actor/kl_loss", "actor/grad_norm"):
            assert values[name] == pytest.approx(again[step][name], rel=1e-5, abs=1e-7), (step, name)
    assert through[STEPS]["actor/kl_loss"] > 0
    # Rollouts of a killed step are counted once.
    assert killed.rollouts == [3 * RESPONSES, STEPS * RESPONSES]
    assert not list((killed.folder / "rollouts").glob(".*.partial"))
    with Database.open(place / "tagrpo.db") as database, database.read() as session:
        [kept] = [each for each in list_train_runs(session) if each.run.name == "second"]
    assert kept.run.finished_at is not None
    assert (kept.numbers.steps, kept.numbers.rollouts) == (STEPS, STEPS * RESPONSES)
