"""The command line as a whole: help, exit codes, JSON."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import run_here, walk_commands, words
from rollout_shards import add_training, write_run

from service.database import Database
from service.errors import InputError, Interrupted
from ui.cli import output
from ui.cli.app import commands

HEAVY = ("litellm", "torch", "transformers", "verl", "datasets", "sympy", "math_verify", "pandas", "numpy")
HEAVY += ("scipy", "pyarrow", "sqlalchemy")


COMMANDS = dict(walk_commands(commands()))
QUESTIONS = Path(__file__).parents[1] / "support" / "first_look.jsonl"
"""42 questions of our own, with gold answers, levels and subjects."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return a folder with a database (the set `demo`, the run `rules`) and an export."""
    folder = tmp_path_factory.mktemp("demo")
    for command in (
        f"questions import {QUESTIONS} --name demo",
        "rephrase run demo --name rules proposer=rules --n 3",
        "sets publish demo --run rules --include unverified",
        f"sets export demo --format hf --out {folder / 'hf'}",
    ):
        run_here.ok(*command.split(), "--db", folder / "tagrpo.db")
    return folder


ENDS: dict[type[BaseException], tuple[int, str]] = {
    OverflowError: (2, "error: a number is too large."),
    ValueError: (1, "error: a bug in tagrpo"),
    FileNotFoundError: (2, "error: out.csv: gone."),
    InputError: (2, "error: out of order"),
    KeyboardInterrupt: (130, "error: interrupted"),
    Interrupted: (130, "error: out of order"),
}


@pytest.mark.parametrize("kind", ENDS)
def test_whatever_goes_wrong_is_one_line_and_its_exit_code(cli, monkeypatch, kind):
    def break_down(*arguments: object, **named: object) -> None:
        raise kind(2, "gone", "out.csv") if issubclass(kind, OSError) else kind("out of order")

    monkeypatch.setattr("ui.cli.settings.Db.reading", break_down)
    code, beginning = ENDS[kind]
    done = cli("sets", "list")
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done.err
    assert done.err.startswith(beginning)
    if kind is ValueError:
        assert "ValueError: out of order (" in done.err
        assert "Please report it with the command and its traceback (-v prints it)." in done.err
    verbose = cli("sets", "list", "-v")
    assert verbose.code == code
    assert ("Traceback" in verbose.err) is (kind is not KeyboardInterrupt)
    assert beginning in verbose.err


def test_the_exit_codes_stand_in_the_help_and_in_the_docs(cli):
    shown = words(cli("--help").out)
    table = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")
    for code, meaning in output.EXIT_CODES.items():
        assert f"{code:d} {meaning}" in shown
        assert f"\n| {code:d} | " in table


def test_a_quiet_command_leaves_its_result_alone(cli, tmp_path):
    arguments = ["questions", "import", one_question(tmp_path), "--name", "x"]
    loud = cli(*arguments, "--db", "a.db")
    assert "import: " in loud.err
    quiet = cli(*arguments, "--db", "b.db", "-q")
    assert (quiet.code, quiet.err, quiet.out) == (0, "", loud.out)
    assert cli("-q", *arguments, "--db", "c.db").err == ""
    assert "import: " in cli(*arguments, "--db", "d.db").err  # and the next one speaks again


def one_question(folder: Path) -> Path:
    path = folder / "odd.jsonl"
    path.write_text(json.dumps({"question": "What is $2+2$?", "answer": "4"}))
    return path


def one_candidate(folder: Path) -> Path:
    path = folder / "candidates.jsonl"
    asked = json.loads(QUESTIONS.read_text(encoding="utf-8").splitlines()[0])["question"]
    path.write_text(json.dumps({"question": asked, "candidate": f"Please say: {asked}"}))
    return path


# Help


@pytest.mark.slow
def test_every_help_has_an_example_that_names_its_command(cli):
    for path in sorted({(), *(path[:1] for path in COMMANDS), *COMMANDS}):
        done = cli(*path, "-h")
        assert (done.code, done.err) == (0, ""), path
        assert f"Example: tagrpo {' '.join(path)}".rstrip() in words(done.out)


def test_every_option_is_explained_and_no_command_shows_more_than_15():
    for path, found in COMMANDS.items():
        assert [each.name for each in found.params if not getattr(each, "help", None)] == [], path
        shown = [each for each in found.params if each.param_type_name == "option" and not each.hidden]
        assert len(shown) <= 15, path


@pytest.mark.slow
@pytest.mark.sqlite  # on a server its programs load SQLAlchemy at once
@pytest.mark.parametrize(
    ("commands", "code", "allowed"),
    [
        ("--help, rephrase run --help", 0, ()),
        ("questions list demo, sets list, runs list", 0, ("sqlalchemy",)),
        ("eval run q.jsonl --model hosted_vllm/m --base-url localhost:8000", 2, ()),
        ("train run grpo --model m --set s --cpu --gpus 2", 2, ()),
    ],
)
def test_help_lists_and_early_errors_import_no_heavy_module(demo, commands, code, allowed):
    """Importing them takes seconds; help answers in under half a second."""
    script = f"""
import sys
from ui.cli.app import main
for command in {commands.split(", ")!r}:
    sys.argv = ["tagrpo", *command.split()]
    try:
        main()
    except SystemExit as leaving:
        assert (leaving.code or 0) == {code}, command
print([name for name in {HEAVY!r} if name in sys.modules and name not in {allowed!r}], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=demo
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "[]")


# Exit codes


BAD = {
    "": "Usage: tagrpo",
    "frobnicate": "No such command 'frobnicate'",
    "questions imprt": "No such command 'imprt'. Did you mean 'import'?",
    "questions import": "Missing argument",
    "train metrics nope": "there is no training run 'nope'. This database has none.",
    "rephrase run demo": "name is missing. Pass --name.",
    "rephrase run demo --name r": "Pass --model, or set proposer=file, or set proposer=rules.",
    "questions list --limit 0": "--limit",
    "rephrase list --run rules --limit 999999999999999999999999999999": "a number is too large",
    "rephrase run demo --name r proposer=magic": "'llm', 'rules', 'file'",
    "questions import absent.jsonl --name x": "absent.jsonl: no such file",
    "questions import odd.jsonl --name 'a b'": "'a b' is not a valid name",
    "rephrase run demo --name a/b proposer=rules": "'a/b' is not a valid name",
    "questions list nope": '"nope"; available: demo',
    "rephrase run nope --name r proposer=rules": '"nope"; available: demo',
    "runs show nope": "Available: rules",
    "resume nope": "Available: rules",
    "sets show nope": "Available: demo",
    "sets show demo@7": "demo",
    "questions show q_zz": "q_zz",
    "rephrase show c_zz": "tagrpo rephrase list",
    "runs list --db absent.db": "absent.db: there is no database here",
    "questions import odd.jsonl --name x --db absent/t.db": "the folder absent does not exist",
    "runs list --db .": "is a folder",
    "runs list --db odd.jsonl": "not an SQLite database",
    "runs list --db other.db": "that is not from tagrpo",
}


def test_bad_usage_and_input_end_with_2_and_a_way_out(cli, demo, tmp_path, monkeypatch):
    monkeypatch.setenv("TAGRPO_DB", str(demo / "tagrpo.db"))
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE something (else_ TEXT)")
    one_question(tmp_path)
    cli.refuses(BAD)
    assert not (tmp_path / "absent.db").exists()


# JSON


# Their tests read the JSON of each of their commands.
READ_ELSEWHERE = {"diagnose", "doctor", "eval", "train"}
# The demo shows commands and reports nothing itself; servers go on. A second verdict needs a judged run
# (test_cli_propose.py).
WITHOUT = {("demo",), ("ui",), ("eval", "serve"), ("rephrase", "rejudge")}


def json_commands(demo: Path, folder: Path, candidate: str) -> dict[tuple[str, ...], list[object]]:
    """Return for each command with --json the arguments of a call that does its work."""
    db, measured = demo / "tagrpo.db", folder / "measured.db"
    with Database.open(measured) as database:
        add_training(database, write_run(folder / "recorded"))
    return {
        ("config",): ["rephrase"],
        ("questions", "import"): [one_question(folder), "--name", "odd", "--db", db],
        ("questions", "list"): ["demo", "--db", db],
        ("questions", "show"): ["q_1ff", "--db", db],
        ("questions", "mix"): [
            *("mixed", "--base", "demo", "--extra", "odd", "--chunks", "1", "--chunk", "1", "--db", db)
        ],
        ("questions", "remove"): ["mixed", "--yes", "--db", db],
        ("questions", "contamination"): ["demo", "--benchmark", one_question(folder), "--db", db],
        ("rephrase", "run"): ["demo", "--name", "rules", "proposer=rules", "--db", db],
        ("resume",): ["rules", "--db", db],
        ("rephrase", "list"): ["--db", db],
        ("rephrase", "show"): [candidate, "--raw", "--db", db],
        ("rephrase", "review"): [candidate, "--accept", "--reviewer", "tester", "--db", db],
        ("rephrase", "import"): [
            *(one_candidate(folder), "--questions", "demo", "--name", "theirs", "--db", db)
        ],
        ("rephrase", "edit"): [candidate, "--text", "Which is it?", "--reviewer", "tester", "--db", db],
        ("rephrase", "audit"): ["rules", "--sample", "4", "--db", db],
        ("runs", "list"): ["--db", db],
        ("runs", "show"): ["rules", "--db", db],
        ("sets", "publish"): ["demo", "--run", "rules", "--include", "unverified", "--db", db],
        ("sets", "list"): ["--db", db],
        ("sets", "show"): ["demo@1", "--db", db],
        ("sets", "tag"): ["demo@1", "best", "--db", db],
        ("sets", "export"): ["demo@1", "--format", "jsonl", "--out", folder / "out.jsonl", "--db", db],
        ("sets", "import"): [demo / "hf", "--name", "back", "--db", folder / "back.db"],
        ("runs", "rename"): ["rules", "by-rules", "--db", db],
        ("runs", "remove"): ["ta", "--yes", "--db", measured],
        ("db", "check"): ["--db", db],
        ("db", "backup"): [folder / "backup.db", "--db", db],
        ("db", "upgrade"): ["--vacuum", "--db", db],
        ("db", "copy"): [db, folder / "copied.db"],
    }


@pytest.mark.slow
@pytest.mark.sqlite  # db backup copies a file
def test_json_is_one_object_and_all_of_stdout(cli, demo, tmp_path):
    own = Path(shutil.copytree(demo, tmp_path / "demo"))
    listed = cli.json("rephrase", "list", "--db", own / "tagrpo.db")
    calls = json_commands(own, tmp_path, listed["candidates"][0]["candidate"])
    assert set(calls) == {path for path in COMMANDS if path[0] not in READ_ELSEWHERE} - WITHOUT
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(.+?)` \| (.+) \|$", page, re.MULTILINE)
    documented = {command: {*re.findall(r"`(\w+)`", keys)} for command, keys in table}
    assert documented.keys() | {" ".join(path) for path in WITHOUT} >= {" ".join(path) for path in COMMANDS}
    for path, arguments in calls.items():
        done = cli(*path, *arguments, "--json")
        assert done.code in (0, 3), (path, done.err)
        assert {*json.loads(done.out)} <= documented[" ".join(path)], path
        assert (done.code == 3) == ("warning:" in done.err), path


def test_every_command_that_reports_has_json():
    silent = {path for path, found in COMMANDS.items() if all(p.name != "as_json" for p in found.params)}
    assert silent == {("demo",), ("ui",), ("eval", "serve")}
