"""`tagrpo demo` around its steps: what is printed, what is left out, where it stops and goes on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sandbox.demo.steps
import ui.demo_report
from sandbox.demo.plan import DemoPlan
from sandbox.demo.steps import Step
from ui.cli import demo as command

QUESTION = json.dumps({"question": "What is $2+2$?", "answer": "4"})
REPORTS: list[list[str]] = []


@pytest.fixture
def cli(command_line, monkeypatch):
    """Run the demo of two cheap steps in place of the real ones; reports are only counted."""
    monkeypatch.setattr(command, "NEEDED", ("json",))
    monkeypatch.setattr(sandbox.demo.steps, "demo_steps", cheap_steps)
    REPORTS.clear()

    def write(plan: DemoPlan, steps: list[tuple[Step, float]]) -> None:
        REPORTS.append([step.title for step, _ in steps])
        plan.report.mkdir(exist_ok=True)
        (plan.report / ui.demo_report.REPORT_FILE).write_text("")

    monkeypatch.setattr(ui.demo_report, "write_report", write)
    return command_line


def cheap_steps(plan: DemoPlan) -> list[Step]:
    db = ("--db", str(plan.database))
    importing = ("questions", "import", f"{plan.folder}.jsonl", "--name", "own", *db)
    proposing = ("rephrase", "run", "own", "--name", "rules", "proposer=rules", *db)
    return [
        Step("First", "Import", "Questions.", importing),
        Step("Second", "Propose", "By rules.", proposing, attention="rules find little here"),
    ]


def put_questions(folder: Path) -> None:
    folder.with_suffix(".jsonl").write_text(QUESTION)


def test_each_step_is_printed_as_a_command_and_done_once(cli, tmp_path):
    put_questions(tmp_path / "here")
    first = cli.ok("demo", "--folder", "here")
    assert "$ tagrpo questions import here.jsonl --name own --db here/tagrpo.db" in first.out
    assert "=== First ===" in first.out
    assert "2/2  Propose" in first.out
    assert REPORTS == [["Import", "Propose"]]
    assert "Finished. Try next:\n  tagrpo ui --db here/tagrpo.db" in first.out

    again = cli.ok("demo", "--folder", "here")
    assert "All 2 steps of the demo in here are finished; nothing was changed." in again.out
    assert "$ tagrpo questions" not in again.out
    assert len(REPORTS) == 1


def test_it_stops_at_a_step_that_fails_and_goes_on_there(cli, tmp_path):
    stopped = cli("demo", "--folder", "here")
    assert stopped.code == 2
    assert "here.jsonl" in stopped.err
    assert "the demo stopped at step 1 of 2; run the same command again to resume" in stopped.err
    assert REPORTS == []
    put_questions(tmp_path / "here")
    cli.ok("demo", "--folder", "here")
    assert REPORTS == [["Import", "Propose"]]


def test_a_report_on_other_recipes_is_written_again(cli, tmp_path):
    put_questions(tmp_path / "here")
    for number, options in enumerate(((), ("--seeds", "2"), ("--recipes", "grpo"), ()), start=1):
        cli.ok("demo", "--folder", "here", *options)
        assert len(REPORTS) == number
    assert "nothing was changed" in cli("demo", "--folder", "here").out


def test_a_folder_of_the_user_is_left_alone(cli, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "truth.jsonl").write_text("mine")
    message = "mine: contains truth.jsonl, which does not come from a demo"
    assert message in cli.refused("demo", "--folder", "mine")
    assert (folder / "truth.jsonl").read_text() == "mine"


def test_an_exit_code_that_is_expected_does_not_stop_it(cli, tmp_path, monkeypatch):
    # A gold that fails against itself is held back: exit code 3.
    (tmp_path / "here.jsonl").write_text(f'{QUESTION}\n{{"question": "Why?", "answer": ""}}')
    stopped = cli("demo", "--folder", "here")
    assert stopped.code in (2, 3)

    def tolerant(plan: DemoPlan) -> list[Step]:
        first, second = cheap_steps(plan)
        one = (*first.arguments, "--skip-bad-rows")
        return [Step("First", "Import", "Questions.", one, attention="one row is bad"), second]

    monkeypatch.setattr(sandbox.demo.steps, "demo_steps", tolerant)
    done = cli.ok("demo", "--folder", "here")
    assert "(Exit code 3 is expected here: one row is bad.)" in done.out


def test_recipes_and_packages_are_checked_before_anything_is_written(cli, monkeypatch, tmp_path):
    assert "there is no recipe 'nope'" in cli.refused("demo", "--recipes", "ta_grpo, nope")
    monkeypatch.setattr(command, "NEEDED", ("json", "no_such_verl", "no_such_torch"))
    message = cli.refused("demo")
    assert "not installed: no_such_verl, no_such_torch." in message
    assert "install the extras `train`, `local` and `ui`" in message
    assert list(tmp_path.iterdir()) == []


def test_a_training_has_one_thread_per_process(cli, monkeypatch):
    threads: list[str] = []

    class Recorded:
        def main(self, arguments: list[str], **_: Any) -> int:
            threads.append(os.environ["OMP_NUM_THREADS"])
            return 0

    monkeypatch.setattr("ui.cli.app.commands", lambda: Recorded())
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for words in (("train", "run", "x"), ("train", "plan", "x")):
        command._carry_out(Step("Training", "Train", "It trains.", words), "step 1 of 1")
    assert threads == ["1", "2"]
    assert os.environ["OMP_NUM_THREADS"] == "2"
