"""Texts that command terminals: nothing of them leaves a command, in text, in JSON or in an error."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from eval_runs import add_eval_run, make_problems
from rollout_shards import make_record
from runs import Proposed, add_run, open_empty
from world_runs import command

from rephraser.sets.publish import publish
from trainer_adapter.record import RolloutWriter

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x1b]52;c;cm0gLXJmIH4=\x1b\\ \x9b31m \x9d8;;http://x\x9c \r\x08\x7f "
    "\u202egnp\u2066\u200b\u200e\ufeff end"
)
COMMANDS_A_TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
QUESTION, CANDIDATE = f"How many? {HOSTILE}", f"What number? {HOSTILE}"


def make_database(folder: Path) -> Path:
    path = folder / "t.db"
    with RolloutWriter(folder / "recorded", "ta", spec={"recipe": f"mine {HOSTILE}"}, versions={}) as writer:
        writer.write(1, [make_record(1, prompt=HOSTILE, response=HOSTILE, extracted=HOSTILE, reason=HOSTILE)])
        writer.write_metrics(1, {f"tagrpo/{HOSTILE}": 0.5})
    with open_empty(path) as db:
        proposed = [Proposed(CANDIDATE, strategy=f"s {HOSTILE}", model=f"m {HOSTILE}")]
        add_run(db, "run", [(QUESTION, f"4 {HOSTILE}", proposed)], level=HOSTILE, subject=HOSTILE)
        publish(db, "set", run="run")
        about = {"benchmark": f"b {HOSTILE}", "problems": make_problems(1, HOSTILE)}
        add_eval_run(db, "eval", [(2, 1, 0)], **about, texts=lambda *_: HOSTILE)
    return path


@pytest.fixture
def db(tmp_path, cli):
    path = make_database(tmp_path)
    row = {"question": f"What is $2+2$? {HOSTILE}", "answer": "4", "level": HOSTILE}
    Path("rows.jsonl").write_text(json.dumps(row))
    cli.ok("questions", "import", "rows.jsonl", "--name", "q", "--strip-control", "--db", path)
    cli.ok("train", "rollouts", "recorded", "--add", "--db", path)
    return path


@pytest.mark.slow
def test_no_command_lets_a_text_command_the_terminal(cli, db):
    listed = cli.json("rephrase", "list", "--db", db)["candidates"][0]
    assert listed["text"] == CANDIDATE
    rollout = cli.json("train", "rollouts", "--db", db)["rollouts"][0]["id"]
    candidate, question = listed["candidate"], listed["question_id"]
    for line in (
        *("questions list", "questions list q", "questions list --suspects", f"questions show {question}"),
        *("rephrase list", f"rephrase show {candidate} --raw", "rephrase audit run", "runs list"),
        *("runs show run", "sets list", "sets show set --limit 5", "sets show set --diff set"),
        *("runs list --kind eval", "runs show eval", "eval show eval 0 --full", "eval report eval"),
        *("eval report eval --format csv", "runs list --kind train", "train metrics --metric *"),
        *("train rollouts", f"train rollouts {rollout}", "diagnose eval --only zero-gradient"),
    ):
        words = line.split()
        for form in ((), ("--json",)):
            if form and "--format" in words:
                continue
            done = cli(*words, *form, "--db", db)
            assert "bug" not in done.err, done.err
            assert COMMANDS_A_TERMINAL.findall(done.out + done.err) == [], words
            if form and done.code in (0, 3):
                json.loads(done.out)


def test_errors_spell_them_out_too(cli):
    for words in (["sets", "show", HOSTILE], ["questions", "list", "--limit", HOSTILE], [HOSTILE]):
        done = cli(*words)
        assert done.code == 2
        assert "contains control characters" in done.err
        assert COMMANDS_A_TERMINAL.findall(done.out + done.err) == []
    Path("odd.jsonl").write_text(json.dumps({"question": QUESTION, "answer": "4"}))
    refused = cli("questions", "import", "odd.jsonl", "--name", "x")
    assert (refused.code, COMMANDS_A_TERMINAL.findall(refused.err)) == (2, [])


@pytest.mark.slow
@pytest.mark.sqlite  # its program has an environment of its own
def test_a_terminal_gets_colours_of_ours_alone(db):
    """On a terminal rich writes escapes of its own; those of a text stay spelled out."""
    call = command("rephrase", "list", "--db", str(db))
    environment = {"FORCE_COLOR": "1", "COLUMNS": "300", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert "\x1b[1m" in done.stdout
    left = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert COMMANDS_A_TERMINAL.findall(left) == []
    assert "␛[2J" in left
