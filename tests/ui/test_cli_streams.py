"""Records on a terminal; streams that misbehave, Ctrl-C, two commands at once, odd paths: nothing is lost."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command_line import run_here
from json_rows import write_rows
from world_runs import command

from evaluator.reports.document import Commands, Document, Heading, Picture, Points, Table, Text
from ui.cli import output
from ui.cli.output import Terminal, say

ODD = [
    {"question": "Où est [bold]la[/bold] café 你好 [/] if $x+1=2$? 🙂", "answer": "1"},
    {"question": "What is $2+2$ [/foo] in שלום?", "answer": "4"},
]


def odd_questions(folder: Path) -> Path:
    return write_rows(folder / "odd.jsonl", *ODD)


@pytest.fixture(scope="module")
def two_questions(tmp_path_factory):
    """Return a database with the odd questions, which is only read."""
    folder = tmp_path_factory.mktemp("odd")
    db = str(folder / "odd.db")
    run_here.ok("questions", "import", odd_questions(folder), "--name", "odd", "--db", db)
    return db


ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.slow
def test_a_terminal_that_is_not_utf8_gets_escapes_and_json_stays_json(two_questions):
    call = command("questions", "list", "odd", "--db", two_questions)
    text, found = (
        subprocess.run([*call, *form], capture_output=True, env={**os.environ, **ASCII}, timeout=60)
        for form in ([], ["--json"])
    )
    assert (text.returncode, found.returncode) == (0, 0), text.stderr + found.stderr
    assert b"O\\xf9 est [bold]la[/bold]" in text.stdout
    rows = json.loads(found.stdout.decode("ascii"))["questions"]
    assert [row["question"] for row in rows] == [row["question"] for row in ODD]


def test_arguments_that_are_not_utf8_are_refused(tmp_path):
    call = [*map(os.fsencode, command("questions", "list")), b"caf\xe9", b"--db", b"t.db"]
    done = subprocess.run(call, capture_output=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert b"is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_closed_streams_and_a_full_disk_behind_stdout_end_without_a_traceback(two_questions):
    call = command("questions", "list", "odd", "--db", two_questions)
    closed = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *call]
    done = subprocess.run(closed, capture_output=True, text=True, timeout=60)  # a table, not JSON
    assert (done.returncode, done.stderr) == (0, "")
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as stdout:
        done = subprocess.run([*call, "--json"], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path):
    filler = "a long story that fills the pipe " * 30
    rows = ({"question": f"Given {filler}, what is ${i}+1$?", "answer": str(i + 1)} for i in range(300))
    source = write_rows(tmp_path / "many.jsonl", *rows)
    db = str(tmp_path / "t.db")
    run_here.ok("questions", "import", source, "--name", "many", "--db", db)
    process = subprocess.Popen(
        command("questions", "list", "many", "--limit", "300", "--json", "--db", db),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Unbuffered, Python itself loses what a pipe did not take, without an error.
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "{\n"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (1, "")


@pytest.mark.slow
def test_two_imports_at_once_make_one_set(tmp_path):
    source, db = odd_questions(tmp_path), str(tmp_path / "t.db")
    call = command("questions", "import", str(source), "--name", "odd", "--db", db, "--json")
    both = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(json.loads(end)["created"] for end in ends) == [False, True]
    listed = run_here.json("questions", "list", "--db", db)
    assert [(row["set"], row["questions"]) for row in listed["sets"]] == [("odd", 2)]


def test_paths_with_blanks_quotes_and_signs_of_urls_work(cli, tmp_path):
    folder = tmp_path / "a b'c\" ü #%?"
    folder.mkdir()
    source, db = odd_questions(folder), folder / "t?#%41.db"
    cli.ok("questions", "import", source, "--name", "odd", "--db", db)
    assert db.is_file()
    assert "odd" in cli("questions", "list", "--db", db).out


def test_a_log_gets_a_line_now_and_then_and_the_last_one(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(output, "write_line", lines.append)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    with output.terminal.progress("run") as bar:
        monkeypatch.setattr(output, "PLAIN_PROGRESS_EVERY_S", 0.0)
        bar("asking", 3, 9)
        monkeypatch.setattr(output, "PLAIN_PROGRESS_EVERY_S", 600.0)
        bar("asking", 4, 9)
        bar("asking", 5, 9)
    assert lines == ["run: 3/9  asking", "run: 5/9  asking"]


RECORD = {
    "set": "math@1",
    "created": True,
    "questions": 1234,
    "rate": 0.123456,
    "unknown": None,
    "missing": 0,
    "notes": [],
    "tags": ["a", "b"],
    "counts": {"accepted": 3, "rejected": 0},
    "text": "two\nlines :x:",
    "rows": [{"k": 1, "value": 0.5, "ends": [0.25, 0.75]}, {"k": 32, "value": None, "more": "x"}],
    "nested": {"kind": "llm", "sampling": {"temperature": 1.0, "stop": {"words": ["a"]}}},
    "deep": [{"name": "one", "inner": [{"a": "x\ny"}]}],
    "spec": {"by_model": {"my_model": {"k": 1}}},
}


def test_text_has_the_values_of_json_in_lines_tables_and_sections(capsys):
    Terminal().show(RECORD, "the note", hidden=("tags",))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "set        math@1",
        "created    yes",
        "questions  1,234",
        "rate       0.1235",
        "counts     accepted=3, rejected=0",
        *("", "text", "two", "lines :x:"),
        *(
            "",
            "rows",
            " k  value  ends          more",
            " 1    0.5  0.25 to 0.75  -",
            "32      -  -             x",
        ),
        *("", "nested", "kind  llm", "", "nested > sampling", "temperature  1", ""),
        *("nested > sampling > stop", "words  a"),
        *("", "deep", "name  one", "", "deep > inner > a", "x", "y"),
        *("", "config > by model", "my_model  k=1"),
        "the note",
    ]


def test_a_document_is_printed_without_markup(capsys):
    blocks = [
        Text("It is **so** & `x<y`."),
        Heading("One_1"),
        Table(("name", "k|1"), (("a", "1"), ("b", "20"))),
        Points(("first", "`a_b`")),
        Picture("shares", "What it shows", {}),
        Commands(("tagrpo demo --folder 'a b'",)),
    ]
    say(Document(blocks, notes=("a note",), title="A <title>"))
    assert capsys.readouterr().out == (
        "A <title>\nIt is so & `x<y`.\n\nOne_1\nname  k|1\na       1\nb      20\n"
        "- first\n- `a_b`\n[shares: What it shows]\n  tagrpo demo --folder 'a b'\n\n- a note\n"
    )
