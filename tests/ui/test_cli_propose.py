"""`tagrpo neighbors propose` and `resume` as a careless user calls them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import world
from command_line import CommandLine, words
from openai_server import server_process
from sqlalchemy import text
from world_runs import command, stats, world_server

from evaluator.database import Database

OWN = "Say the same problem in a way of your own."


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with world_server("--model", "test-model") as url:
        yield url


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


@pytest.fixture
def cli(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Run `tagrpo` in a folder with a database of six questions of the small world, the set `world`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAGRPO_DB", str(db))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    run = CommandLine(monkeypatch, capsys)
    write_rows("questions.jsonl", world.questions(6))
    assert run("questions", "import", "questions.jsonl", "--name", "world").code == 0
    return run


def write_rows(name: str, rows: list[Any]) -> str:
    Path(name).write_text("\n".join(json.dumps(row) for row in rows))
    return name


def propose(*more: str, name: str = "r") -> list[str]:
    return ["neighbors", "propose", "world", "--name", name, *more]


def llm(url: str, *more: str, name: str = "r", model: str = "openai/test-model") -> list[str]:
    return propose("--model", model, "--api-base", url, *more, name=name)


def from_file(source: str, *more: str, name: str = "r") -> list[str]:
    return propose("--proposer", "file", "--candidates", source, *more, name=name)


def runs(cli: CommandLine) -> list[str]:
    return [run["run"] for run in json.loads(cli("runs", "list", "--json").out)["runs"]]


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return [tuple(row) for row in session.execute(text(query))]


def refused(cli: CommandLine, arguments: list[str], message: str) -> None:
    """Assert that a command ends with 2 and this message, and that no run has taken the name."""
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in words(done.err)
    assert runs(cli) == []


# Options that do not fit


def test_an_llm_needs_a_model_and_rules_take_none(cli: CommandLine) -> None:
    refused(cli, propose(), "an llm proposer needs --model")
    refused(
        cli, propose("--proposer", "rules", "--strategy", "rename"), "belong to --proposer llm, not rules"
    )
    refused(cli, propose("--proposer", "rules", "--model", "gpt-4-turbo"), "belong to --proposer llm")
    refused(cli, propose("--proposer", "rules", "--candidates", "f.jsonl"), "belongs to --proposer file")
    refused(cli, propose("--proposer", "file"), "belongs to --proposer file, which needs it")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--n", "0"], "n is 0; give 1 to 64"),
        (["--n", "65"], "n is 65; give 1 to 64"),
        (["--rounds", "0"], "rounds is 0; give 1 to 20"),
        (["--content-attempts", "21"], "content-attempts is 21; give 1 to 20"),
        (["--limit", "0"], "--limit"),
        (["--rule", "coin"], "'overlap', 'bayes'"),
    ],
)
def test_numbers_out_of_range_are_refused(cli: CommandLine, more: list[str], message: str) -> None:
    refused(cli, propose("--proposer", "rules", *more), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "own.txt: the instruction is empty"),
        (b"version: 2\n---\n  \n", "own.txt: the instruction is empty"),
        (b"Say it \xff anew.", "own.txt: not UTF-8 at byte 7"),
        (b"Say it\nanew\x00.", "own.txt:2: holds the control character '\\x00'"),
    ],
)
def test_strategy_files_that_cannot_be_used(cli: CommandLine, content: bytes, message: str) -> None:
    Path("own.txt").write_bytes(content)
    refused(cli, llm("http://127.0.0.1:9/v1", "--strategy", "own.txt"), message)


def test_strategies_that_do_not_go_together(cli: CommandLine) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    refused(cli, llm(nowhere, "--strategy", "nope"), "neither a shipped strategy (perspectives, paraphrase")
    refused(cli, llm(nowhere, "--strategy", "rename", "--strategy", "rename"), "a strategy is named twice")
    refused(
        cli, llm(nowhere, "--n", "1", "--strategy", "rename", "--strategy", "format"), "2 strategies for 1"
    )


@pytest.mark.parametrize(
    "price", ["test-model", "openai/test-model=1", "m=1,x", "m=1,2,3", "m=-1,2", "m=nan,1"]
)
def test_prices_that_cannot_be_read(cli: CommandLine, server: str, price: str) -> None:
    refused(cli, llm(server, "--price", price), f"--price {price}")


def test_a_price_file_that_is_missing(cli: CommandLine, server: str) -> None:
    refused(cli, llm(server, "--prices", "absent.toml"), "absent.toml")


def test_a_tokenizer_that_is_none(cli: CommandLine) -> None:
    Path("own.json").write_text("{}")
    refused(cli, propose("--proposer", "rules", "--tokenizer", "own.json"), "own.json: not a tokenizer.json")
    refused(cli, propose("--proposer", "rules", "--tokenizer", "absent.json"), "absent.json: no such file")


# Models that cannot be asked


def test_a_model_that_cannot_be_asked_takes_no_name(cli: CommandLine, server: str) -> None:
    before = stats(server)["requests"]
    refused(cli, llm("http://127.0.0.1:9/v1"), "http://127.0.0.1:9/v1/models cannot be reached")
    refused(cli, llm(server, model="openai/other"), "does not list the model 'other', only: test-model")
    refused(cli, llm(server, model="frobnicate"), "'frobnicate' has no provider that litellm knows")
    refused(cli, llm(server, "--max-usd", "1"), "--price openai/test-model=IN,OUT")
    refused(
        cli,
        llm(server, "--solver", "hosted_vllm/absent", "--solver-api-base", server),
        "does not list the model 'absent'",
    )
    refused(
        cli,
        llm(server, "--solver", "hosted_vllm/test-model", *["--solver-api-base", server] * 2),
        "2 addresses for 1 solvers",
    )
    assert stats(server)["requests"] == before


def test_a_provider_without_a_key(cli: CommandLine) -> None:
    done = cli(*propose("--model", "openai/gpt-4-turbo"))
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err


# Runs with a model


def test_a_proposer_that_always_refuses_ends_its_run_and_says_so(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "refusing.py").write_text(
        "def answer(messages, n, seed):\n    return [\"I'm sorry, but I can't help with that.\"] * n\n"
    )
    with server_process("--model", "test-model", "--answer", f"{tmp_path}/refusing.py:answer") as url:
        done = cli(*llm(url, "--content-attempts", "2", "--rounds", "2", "--limit", "3"))
        assert stats(url)["paid"] == 3 * 2 * 2  # questions, attempts, rounds
        assert done.code == 0, done.err
        assert "3 questions with fewer than 3 neighbors:" in done.out
        assert words(done.out).count("0 no candidate") == 3
        assert "refused 12" in words(done.out)
        again = json.loads(cli("neighbors", "resume", "r", "--api-base", url, "--json").out)
        assert stats(url)["paid"] == 12  # it has ended: nothing is asked again
    assert [line["reason"] for line in again["unfinished"]] == ["no candidate"] * 3
    assert again["unreadable"] == {"refused": 12}
    assert (again["open_requests"], again["stopped"]) == (0, None)


def test_strategies_share_the_slots_and_solvers_the_answers(cli: CommandLine, server: str, db: Path) -> None:
    Path("own.txt").write_text(f"version: 3\nsummary: mine\n---\n{OWN}")
    solvers = [
        "--solver",
        "openai/test-model",
        "--solver",
        "hosted_vllm/test-model",
        "--solver-api-base",
        server,
    ]
    settings = ["--strategy", "own.txt", "--strategy", "rename", "--limit", "2", *solvers]
    done = cli(*llm(server, *settings, "--json"))
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert (summary["questions"], summary["complete"], summary["compared_answers"]) == (2, 2, True)

    kept = rows(
        db,
        "SELECT p.question_id, p.strategy, count(*) FROM proposals p JOIN verdicts v "
        "ON v.candidate_id = p.candidate_id AND v.final AND v.status = 'accepted' GROUP BY 1, 2",
    )
    assert sorted(count for _, strategy, count in kept if strategy == "own") == [2, 2]
    assert sorted(count for _, strategy, count in kept if strategy == "rename") == [1, 1]

    drawn = rows(
        db,
        "SELECT solver_id, subject_id, count(*) FROM answers WHERE subject_id LIKE 'q%' GROUP BY 1, 2",
    )
    assert [count for _, _, count in drawn] == [16, 16, 16, 16]  # 32 for a question, half of each solver
    accepted = rows(db, "SELECT evidence FROM verdicts WHERE final AND status = 'accepted'")
    assert len(accepted) == 6

    spec = json.loads(cli("runs", "show", "r", "--json").out)["spec"]
    own = spec["strategies"][0]
    assert (own["name"], own["version"], own["summary"], own["text"]) == ("own", "3", "mine", OWN)
    assert [solver["model"] for solver in spec["solvers"]] == ["openai/test-model", "hosted_vllm/test-model"]

    # Other settings under the same name are listed one by one; hashes and ids, which follow, are not.
    Path("own.txt").write_text("Another instruction.")
    other = cli(*llm(server, *settings, "--n", "4", "--seed", "1"))
    assert (other.code, other.out) == (2, "")
    message = words(other.err)
    for part in ("n (3 there, 4 now)", "seed (0 there, 1 now)", "strategies.1.version ('3' there, '1' now)"):
        assert part in message
    assert f"strategies.1.text ('{OWN}' there, 'Another instruction.' now)" in message
    assert "hash" not in message


def test_renamed_variables_are_accepted_where_the_strategy_renames(
    cli: CommandLine, tmp_path: Path, db: Path
) -> None:
    (tmp_path / "renaming.py").write_text(
        "import re\n"
        "def answer(messages, n, seed):\n"
        "    asked = re.search(r'<problem>\\n(.*?)\\n</problem>', messages[-1]['content'], re.S).group(1)\n"
        "    return ['<rephrasing>' + asked.replace('x', 't') + '</rephrasing>'] * n\n"
    )
    row = {"question": "Let $x$ be a number with $3x+x^2=10$ and $x>0$. Find $x$.", "answer": "2"}
    assert cli("questions", "import", write_rows("x.jsonl", [row]), "--name", "x").code == 0
    with server_process("--model", "test-model", "--answer", f"{tmp_path}/renaming.py:answer") as url:
        common = ["--model", "openai/test-model", "--api-base", url, "--n", "1", "--rounds", "1"]
        common += ["--output", "tags", "--content-attempts", "1"]
        for strategy in ("rename", "paraphrase"):
            done = cli("neighbors", "propose", "x", "--name", strategy, "--strategy", strategy, *common)
            assert done.code == 0, done.err
    verdicts = dict(
        rows(db, "SELECT r.name, v.status FROM verdicts v JOIN runs r ON r.id = v.run_id WHERE v.final")
    )
    assert verdicts == {"rename": "unverified", "paraphrase": "rejected"}


def test_ctrl_c_in_the_middle_of_a_run_keeps_what_was_answered(cli: CommandLine, db: Path) -> None:
    with world_server("--model", "test-model", "--latency", "0.1") as url:
        arguments = [*llm(url, "--max-concurrency", "1"), "--db", str(db)]
        process = subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while stats(url)["requests"] < 3 and process.poll() is None:
            pass
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        assert "interrupted; run the same command again" in errors
        assert "Traceback" not in errors
        answered = rows(db, "SELECT count(*) FROM cell_bodies")[0][0]
        assert answered >= 1
        done = cli(*arguments)
        seen = stats(url)
    assert done.code == 0, done.err
    assert "continuing run r" in done.err
    assert seen["paid"] <= seen["paid_distinct"] + 1  # the one in flight


# Candidates from a file


def originals() -> list[str]:
    return [row["question"] for row in world.questions(6)]


def owning(question: str) -> str:
    return question.replace(" has ", " owns ", 1)


def test_a_file_by_text_with_rows_that_belong_to_no_question(cli: CommandLine, db: Path) -> None:
    source = write_rows(
        "c.jsonl",
        [
            *({"question": question, "rephrased": owning(question)} for question in originals()[:3]),
            {"question": "What is somebody else's question?", "rephrased": "Whose is it?"},
        ],
    )
    done = cli(*from_file(source, "--n", "1"))
    assert done.code == 0
    assert "1 of 4 rows belong to no question of this run" in done.err
    assert "3 of 6 questions have all 1 neighbors" in done.out
    stored = rows(db, "SELECT text FROM candidates ORDER BY text")
    assert stored == [(owning(question),) for question in sorted(originals()[:3])]

    # The file belongs to the run: resuming takes the same candidates, and no others.
    assert cli("neighbors", "resume", "r", "--candidates", source).code == 0
    without = cli("neighbors", "resume", "r")
    assert (without.code, "name it with --candidates FILE" in without.err) == (2, True)
    write_rows(source, [{"question": originals()[0], "rephrased": "Something else."}])
    changed = cli("neighbors", "resume", "r", "--candidates", source)
    assert (changed.code, "not those that the run was made with" in changed.err) == (2, True)
    again = cli(*from_file(source, "--n", "1"))
    assert (again.code, "source (" in again.err) == (2, True)


def test_a_file_by_id_with_lists_and_named_columns(cli: CommandLine, db: Path) -> None:
    ids = [question for (question,) in rows(db, "SELECT id FROM questions ORDER BY id")]
    texts = dict(rows(db, "SELECT id, text FROM questions"))
    lists = [
        {"key": key, "mine": [owning(texts[key]), texts[key].replace(" has ", " holds ", 1)]} for key in ids
    ]
    source = write_rows("c.jsonl", lists)
    columns = ["--question-column", "key", "--candidate-column", "mine"]
    refused(cli, from_file(source), "name another with --question-column")
    refused(cli, from_file(source, *columns[:2]), "name it with --candidate-column, of: key, mine")
    refused(cli, from_file(source, "--question-column", "foo"), "no column 'foo' (--question-column)")
    done = cli(*from_file(source, *columns, "--n", "2", "--limit", "4"))
    assert done.code == 0
    assert "4 of 4 questions have all 2 neighbors" in done.out
    assert "2 of 6 rows belong to no question" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "c.jsonl: the file is empty"),
        ('{"question": "a", "candidate": "b"}\n{"question": "a"', "c.jsonl:2: not valid JSON"),
        ('{"question_id": "q_1", "candidate": "b"}', "none of its 1 rows belongs to a question of this set"),
    ],
)
def test_files_that_cannot_be_used(cli: CommandLine, content: str, message: str) -> None:
    Path("c.jsonl").write_text(content)
    refused(cli, from_file("c.jsonl"), message)
    refused(cli, from_file("absent.jsonl"), "absent.jsonl: no such file")


def test_empty_candidates_are_named_by_row(cli: CommandLine) -> None:
    write_rows("c.jsonl", [{"question": question, "candidate": " "} for question in originals()])
    refused(cli, from_file("c.jsonl"), 'c.jsonl:1: "candidate" holds no text')


def test_candidates_for_a_run_of_rules_are_refused_on_resume(cli: CommandLine) -> None:
    assert cli(*propose("--proposer", "rules")).code == 0
    source = write_rows("c.jsonl", [{"question": originals()[0], "candidate": "x"}])
    done = cli("neighbors", "resume", "r", "--candidates", source)
    assert (done.code, "--candidates belongs to runs that propose from a file" in done.err) == (2, True)


def test_hostile_candidates_are_rejected_and_printed_as_they_are(cli: CommandLine) -> None:
    first, second, third = originals()[:3]
    write_rows(
        "c.jsonl",
        [
            {"question": first, "candidate": first + " and so on" * 100_000},
            {"question": second, "candidate": "NUL \x00 " + second},
            {"question": third, "candidate": "[bold]Now[/] [/foo] " + owning(third)},
        ],
    )
    assert cli(*from_file("c.jsonl")).code == 0
    listed = cli("neighbors", "list", "--json").out
    found = {item["text"][:5]: item["status"] for item in json.loads(listed)["candidates"]}
    assert found == {first[:5]: "rejected", "NUL \x00": "rejected", "[bold": "unverified"}
    assert "[bold]Now[/] [/foo]" in cli("neighbors", "list").out


# The token limit, the first questions


def test_a_named_tokenizer_enforces_the_token_limit(cli: CommandLine) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save("words.json")
    question = originals()[0]
    short, long = owning(question), question.replace("apples.", "apples, as it so happens today.")
    count = len(short.split())
    write_rows("c.jsonl", [{"question": question, "candidates": [short, long]}])
    done = cli(*from_file("c.jsonl", "--tokenizer", "words.json", "--token-limit", str(count)))
    assert done.code == 0, done.err
    listed = json.loads(cli("neighbors", "list", "--finding", "too_long", "--json").out)["candidates"]
    assert [(item["text"], item["status"]) for item in listed] == [(long, "rejected")]


def test_the_first_questions_are_a_run_of_their_own(cli: CommandLine) -> None:
    limited = cli(*propose("--proposer", "rules", "--limit", "2", "--json"))
    assert json.loads(limited.out)["questions"] == 2
    whole = cli(*propose("--proposer", "rules"))
    assert (whole.code, "its questions (2 there, 6 now)" in whole.err) == (2, True)


def test_a_set_without_usable_questions_says_where_to_look(cli: CommandLine) -> None:
    held = write_rows("held.jsonl", [{"question": "What is blue?", "answer": ""}])
    done = cli("questions", "import", held, "--name", "held")
    assert done.code == 1
    asked = cli("neighbors", "propose", "held", "--name", "r", "--proposer", "rules")
    assert (asked.code, "tagrpo questions list held --held" in asked.err) == (2, True)
