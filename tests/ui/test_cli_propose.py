"""`tagrpo rephrase run`, with a model or a file, `resume` and `rejudge` as a careless user calls them."""

import json
from pathlib import Path

import pytest
import world
from command_line import CommandLine, squeezed, words
from json_rows import write_rows
from openai_server import server_process
from world_runs import rows, stats, world_server, write_sums

NOWHERE = "http://127.0.0.1:9/v1"
OWN = "Say the same problem in a way of your own."

pytestmark = pytest.mark.usefixtures("world_set")


def propose(*more: str, name: str = "r") -> list[str]:
    return ["rephrase", "run", "world", "--name", name, *more]


def llm(url: str, *more: str, model: str = "openai/test-model") -> list[str]:
    return propose("--model", model, "--base-url", url, *more)


def from_file(source: Path | str, *more: str, name: str = "r") -> list[str]:
    return propose("proposer=file", f"proposer.candidates={source}", *more, name=name)


def refused(cli: CommandLine, arguments: list[str], message: str) -> None:
    """Assert that a command is refused with this message, and that no run has taken the name."""
    assert message in cli.refused(*arguments)
    assert cli.json("runs", "list")["runs"] == []


# Options that do not fit


def test_settings_that_cannot_be(cli):
    for more, message in {
        "": "proposer.model is missing",
        "proposer=rules proposer.strategies=rename": "is used only with proposer=llm",
        "proposer=rules --model gpt-4-turbo": "--model: proposer.model is used only with proposer=llm",
        "proposer=rules proposer.candidates=f.jsonl": "is used only with proposer=file",
        "proposer=file": "proposer.candidates is missing",
        "proposer=rules --n 65": "--n: n is 65; give an integer, 1 to 64",
        "proposer=rules verdict.accept=40": "accept_overlap 40 can never be reached",
        "proposer=rules verdict.looks=[16,12]": "increasing",
        "proposer=rules premises=openai/test-model": "Add one",
        "proposer=rules --solver openai/test-model --solver openai/test-model": "a solver appears twice",
        "proposer=file proposer.candidates=absent.jsonl": "absent.jsonl: no such file",
    }.items():
        refused(cli, propose(*more.split()), message)
    for more, message in {
        "proposer.strategies=nope": "neither a built-in strategy (perspectives, paraphrase",
        "proposer.strategies=[rename,rename]": "a strategy appears twice",
        "--n 1 proposer.strategies=[rename,format]": "2 strategies for 1",
        "proposer.price=[1,2,3]": "proposer.price is '[1,2,3]'; give a list of 2",
        "proposer.price=[nan,1]": "proposer.price: give two finite",
    }.items():
        refused(cli, llm(NOWHERE, *more.split()), message)


def test_files_that_cannot_be_used(cli):
    for content, message in (
        (b"", "own.txt: the instruction is empty"),
        (b"version: 2\n---\n  \n", "own.txt: the instruction is empty"),
        (b"Say it \xff anew.", "own.txt: byte 7 is not valid UTF-8. Save the file as UTF-8"),
        (b"Say it\nanew.\0", r"own.txt:2: contains the control character '\x00'. Remove it"),
    ):
        Path("own.txt").write_bytes(content)
        refused(cli, llm(NOWHERE, "proposer.strategies=own.txt"), message)
    other = '{"question_id": "q_1", "candidate": "b"}'
    for candidates, message in (
        ("", "c.jsonl: the file is empty"),
        (f'{other}\n{{"question": "a"', "c.jsonl:2: not valid JSON"),
        (other, "none of its 1 rows belongs to a question of this set"),
    ):
        Path("c.jsonl").write_text(candidates)
        refused(cli, from_file("c.jsonl"), message)


# Models that cannot be asked


@pytest.mark.slow
def test_a_model_that_cannot_be_asked_takes_no_name(cli, server):
    before = stats(server)["requests"]
    refused(cli, llm(NOWHERE), "http://127.0.0.1:9/v1/models cannot be used (connection")
    refused(cli, llm(server, model="openai/other"), "'other'")
    refused(cli, llm(server, model="frobnicate"), "litellm knows no provider for the model 'frobnicate'")
    refused(cli, llm(server, "--max-usd", "1"), "does not know the price of openai/test-model")
    absent = ("--solver", "hosted_vllm/absent", f"solver.base_url={server}")
    refused(cli, llm(server, *absent), "does not serve the model 'absent'")
    twice = ("--solver", "hosted_vllm/test-model", f"solver.base_url=[{server},{server}]")
    refused(cli, llm(server, *twice), f"{server} appears twice")
    assert stats(server)["requests"] == before
    assert "OPENAI_API_KEY" in cli.refused(*propose("--model", "openai/gpt-4-turbo"))


def test_resuming_a_complete_run_changes_nothing(cli, monkeypatch):
    first = cli.ok(*propose("proposer=rules", "--limit", "3")).err
    assert "r: 3/3  questions\n" in first
    shown = cli.json("runs", "show", "r")
    monkeypatch.setattr("service.runs.store.utc_now", lambda: "2999-01-01T00:00:00Z")
    assert "run r was already complete" in cli.ok("resume", "r").err
    assert cli.json("runs", "show", "r") == shown


# Runs with a model


@pytest.mark.slow
def test_a_proposer_that_always_refuses_ends_its_run_and_says_so(cli, tmp_path):
    (tmp_path / "refusing.py").write_text(
        "def answer(messages, n, seed):\n    return [\"I'm sorry, but I can't help with that.\"] * n\n"
    )
    with server_process("--model", "test-model", "--answer", f"{tmp_path}/refusing.py:answer") as url:
        done = cli(*llm(url, "proposer.content_attempts=2", "rounds=2", "--limit", "3"))
        assert stats(url)["paid"] == 3 * 2 * 2  # questions, attempts, rounds
        assert done.code == 0, done.err
        assert "0 of 3 questions have all 3 neighbors" in done.out
        assert words(done.out).count("0 no candidate") == 3
        assert "refused=12" in words(done.out)
        again = cli.json("resume", "r")
        assert stats(url)["paid"] == 12  # it has ended: nothing is asked again
    assert [line["reason"] for line in again["unfinished"]] == ["no candidate"] * 3
    assert again["unreadable"] == {"refused": 12}
    assert (again["open_questions"], again["stopped"]) == (0, None)


@pytest.mark.slow
def test_strategies_share_the_slots_and_solvers_the_answers(cli, server, db):
    Path("own.txt").write_text(f"version: 3\nsummary: mine\n---\n{OWN}")
    solvers = ["--solver", "openai/test-model", "--solver", "hosted_vllm/test-model"]
    solvers.append(f"solver.base_url={server}")
    settings = ["proposer.strategies=[own.txt,rename]", "--limit", "2", *solvers]
    done = cli.ok(*llm(server, *settings, "--json"))
    summary = json.loads(done.out)
    assert (summary["questions"], summary["complete"], summary["compared_answers"]) == (2, 2, True)

    kept = rows(
        db,
        "SELECT p.strategy, count(*) FROM proposals p JOIN verdicts v ON v.candidate_id = p.candidate_id "
        "AND v.final AND v.status = 'accepted' GROUP BY p.question_id, p.strategy",
    )
    assert sorted(kept) == [("own", 2), ("own", 2), ("rename", 1), ("rename", 1)]

    query = "SELECT count(*) FROM asks WHERE kind = 'answer' AND about LIKE 'q%' GROUP BY scope, about"
    # 32 answers to a question, half of them of each solver, four to a request
    assert rows(db, query) == [(4,)] * 4
    assert rows(db, "SELECT count(*) FROM verdicts WHERE final AND status = 'accepted'") == [(6,)]

    spec = cli.json("runs", "show", "r")["spec"]
    own = spec["strategies"][0]
    assert (own["name"], own["version"], own["summary"], own["text"]) == ("own", "3", "mine", OWN)
    assert [solver["model"] for solver in spec["solvers"]] == ["openai/test-model", "hosted_vllm/test-model"]

    # Other settings under the same name are listed one by one; hashes and ids, which follow, are not.
    Path("own.txt").write_text("Another instruction.")
    other = cli(*llm(server, *settings, "--n", "4", "seed=1"))
    assert (other.code, other.out) == (2, "")
    message = words(other.err)
    assert "n (3 stored, 4 given)" in message
    assert "seed (0 stored, 1 given)" in message
    assert "strategies.1.version ('3' stored, '1' given)" in message
    assert f"strategies.1.text ('{OWN}' stored, 'Another instruction.' given)" in message
    assert "hash" not in message


@pytest.mark.slow
def test_a_dry_run_says_what_the_run_will_cost_and_sends_nothing(cli, db):
    priced = ("proposer.price=[10,30]", "--n", "3", "rounds=2")
    with world_server("--model", "test-model") as url:
        solved = (*priced, "--solver", "hosted_vllm/test-model", f"solver.base_url={url}", "--json")
        before = json.loads(cli(*llm(url, *solved, "--dry-run")).out)
        assert stats(url)["requests"] == 0
        assert cli.json("runs", "list")["runs"] == []
        propose_stage, answer_stage = before["stages"]
        assert (propose_stage["kind"], propose_stage["requests"]) == ("propose", [6, 12])
        low, high = propose_stage["usd"]
        assert 0 < low < high
        assert (answer_stage["usd"], before["usd"], before["trial"]) == (None, None, None)
        # 32 answers to each question and 12 to each of three candidates, four a request
        assert answer_stage["requests"][0] == 6 * (32 + 3 * 12) / 4

        trial = cli(*llm(url, *priced, "--limit", "4", "--json"))
        assert trial.code in (0, 3)
        paid = stats(url)["requests"]
        after = json.loads(cli(*llm(url, *priced, "--dry-run", "--json")).out)
        assert stats(url)["requests"] == paid
    assert (after["trial"], after["trial_questions"], after["questions"]) == ("r", 4, 6)
    asked = sum(line["requests"] for line in json.loads(trial.out)["ledger"])
    assert sum(after["stages"][0]["requests"]) / 2 == pytest.approx(asked * 6 / 4, rel=0.01)


@pytest.mark.slow
def test_a_trial_grows_and_its_questions_are_not_paid_again(cli, db):
    with world_server("--model", "test-model") as url:
        assert json.loads(cli(*llm(url, "--limit", "2", "--json")).out)["questions"] == 2
        paid = stats(url)["paid"]
        done = cli(*llm(url, "--json"))
        assert json.loads(done.out)["questions"] == 6
        seen = stats(url)
        shrunk = cli(*llm(url, "--limit", "2"))
    assert "run r grows from 2 to 6 questions" in done.err
    assert seen["paid"] == seen["paid_distinct"] > paid
    assert (shrunk.code, "(6 stored, 2 given); a larger --limit can extend" in words(shrunk.err)) == (2, True)


def test_a_set_without_usable_questions_says_where_to_look(cli):
    held = write_rows(Path("held.jsonl"), {"question": "What is blue?", "answer": r"\frac{1}{"})
    cli.warned("questions", "import", held, "--name", "held")
    run = ("rephrase", "run", "held", "--name", "r", "proposer=rules")
    assert "tagrpo questions list held --held" in cli.refused(*run)


@pytest.mark.slow
def test_a_run_of_which_too_little_is_accepted_stops_and_goes_on(cli, db):
    more = Path("more.jsonl")
    cli.ok("questions", "import", write_sums(more, 24), "--name", "more")
    with world_server("--model", "test-model") as url:
        solved = ("--solver", "openai/test-model", f"solver.base_url={url}", "proposer.max_concurrency=2")
        done = cli.warned(*(["rephrase", "run", "more", *llm(url, *solved)[3:]]), "stop_below=1", "--json")
        stopped = json.loads(done.out)
        assert "continue with `tagrpo resume r stop_below=LESS`" in words(done.err)
        rest = cli("resume", "r", "stop_below=0", "--json")
        assert stats(url)["paid"] == stats(url)["paid_distinct"]
    assert (stopped["stopped"], stopped["open_questions"] > 0) == ("enough", True)
    assert rest.code == 0, rest.err
    assert json.loads(rest.out)["open_questions"] == 0


# Candidates that someone already has


def originals() -> list[str]:
    return [row["question"] for row in world.questions(6)]


def owning(question: str) -> str:
    return question.replace(" has ", " owns ", 1)


def test_a_file_by_text_with_rows_that_belong_to_no_question(cli, db):
    source = write_rows(
        Path("c.jsonl"),
        *({"question": question, "rephrased": owning(question)} for question in originals()[:3]),
        {"question": "What is somebody else's question?", "rephrased": "Whose is it?"},
    )
    done = cli.ok(*from_file(source, "--n", "1"))
    assert "1 of 4 rows match no question of this run" in done.err
    assert "3 of 6 questions have all 1 neighbors" in done.out
    stored = rows(db, "SELECT text FROM candidates ORDER BY text")
    assert stored == [(owning(question),) for question in sorted(originals()[:3])]

    # The file belongs to the run: resuming takes the same candidates, and no others.
    cli.ok("resume", "r", f"proposer.candidates={source}")
    cli.ok("resume", "r")
    write_rows(source, {"question": originals()[0], "rephrased": "Something else."})
    assert "source (" in cli.refused("resume", "r", f"proposer.candidates={source}")
    assert "source (" in cli.refused(*from_file(source, "--n", "1"))


def test_a_file_by_id_with_lists_and_named_columns(cli, db):
    asked = rows(db, "SELECT id, text FROM questions ORDER BY id")
    lists = [{"key": key, "mine": [owning(text), text.replace(" has ", " holds ", 1)]} for key, text in asked]
    source = write_rows(Path("c.jsonl"), *lists)
    columns = ["proposer.question_column=key", "proposer.candidate_column=mine"]
    refused(cli, from_file(source), "Choose another column with proposer.question_column")
    refused(cli, from_file(source, columns[0]), "Set proposer.candidate_column; available: key, mine")
    refused(cli, from_file(source, "proposer.question_column=x"), "no column 'x' (proposer.question_column)")
    done = cli.ok(*from_file(source, *columns, "--n", "2", "--limit", "4"))
    assert "4 of 4 questions have all 2 neighbors" in done.out
    assert "2 of 6 rows match no question" in done.err


def test_the_strategy_names_the_candidates(cli):
    source = write_rows(Path("c.jsonl"), {"question": originals()[0], "candidate": owning(originals()[0])})
    refused(cli, from_file(source, "proposer.strategy=Very hard", name="other"), "proposer.strategy")
    cli.ok(*from_file(source, "proposer.strategy=harder", "--n", "1"))
    listed = cli.json("rephrase", "list")["candidates"]
    assert [item["strategy"] for item in listed] == ["harder"]


def test_hostile_candidates_are_rejected_and_printed_as_they_are(cli):
    first, second, third = originals()[:3]
    write_rows(
        Path("c.jsonl"),
        {"question": first, "candidate": first + " and so on" * 100_000},
        {"question": second, "candidate": "NUL \x00 " + second},
        {"question": third, "candidate": "[bold]Now[/] [/foo] " + owning(third)},
    )
    cli.ok(*from_file("c.jsonl"))
    # PostgreSQL keeps no NUL: there it becomes U+FFFD.
    listed = cli("rephrase", "list", "--json").out.replace("\ufffd", "\0")
    statuses = {item["text"][:5]: item["status"] for item in json.loads(listed, strict=False)["candidates"]}
    assert statuses == {first[:5]: "rejected", "NUL \x00": "rejected", "[bold": "unverified"}
    assert "[bold]Now[/] [/foo]" in cli("rephrase", "list").out


# Other thresholds, and premises


def solved(url: str, *more: str) -> list[str]:
    return llm(url, "--solver", "hosted_vllm/test-model", f"solver.base_url={url}", "--n", "2", *more)


@pytest.mark.slow
def test_stored_answers_are_judged_again_published_sets_stay(cli, server, db):
    cli.ok(*solved(server))
    cli.ok("sets", "publish", "s", "--run", "r")
    published = rows(db, "SELECT * FROM neighbor_set_members ORDER BY 1, 2, 3")
    verdicts = rows(db, "SELECT count(*) FROM verdicts")
    asked = stats(server)["requests"]

    dry = cli.json("rephrase", "rejudge", "r", "accept=14", "--dry-run")
    assert dry["rule"]["accept_overlap"] == 14
    assert (dry["dry_run"], dry["stored"]) == (True, 0)
    assert {change["before"] for change in dry["changes"]} == {"accepted"}
    assert rows(db, "SELECT count(*) FROM verdicts") == verdicts

    done = cli.ok("rephrase", "rejudge", "r", "accept=14")
    assert "dry run no" in squeezed(done.out)
    assert "more: --after" not in done.out
    assert rows(db, "SELECT count(*) FROM verdicts")[0][0] == verdicts[0][0] + dry["judged"]
    assert cli.json("rephrase", "rejudge", "r", "accept=14")["changes"] == []
    changed = dry["changes"][0]["candidate_id"]
    shown = cli("rephrase", "show", changed).out
    assert "status undecided" in squeezed(shown)
    assert "overlap" in shown

    back = cli.json("rephrase", "rejudge", "r")  # the run's own rule
    assert back["after"] == dry["before"]
    assert rows(db, "SELECT * FROM neighbor_set_members ORDER BY 1, 2, 3") == published
    cli.ok("sets", "show", "s@1", "--verify")
    assert stats(server)["requests"] == asked


def test_a_run_that_compared_no_answers_cannot_be_judged_again(cli):
    cli.ok(*propose("proposer=rules"))
    assert "no solver" in cli.refused("rephrase", "rejudge", "r")
    cli.refused("rephrase", "rejudge", "nope")


@pytest.mark.slow
def test_premises_go_through_ledger_and_resume(cli, server, db):
    asked = solved(server, "premises=openai/test-model", f"premises.base_url={server}")
    cli.ok(*asked)
    asks = rows(db, "SELECT state, place FROM asks WHERE kind = 'premises'")
    assert {state for state, _ in asks} == {"answered"}
    assert {attempt for _, attempt in asks} >= {0, 1}
    assert "premises" in cli("runs", "show", "r").out
    seen = stats(server)["requests"]
    cli.ok("resume", "r", *(f"{role}.base_url={server}" for role in ("proposer", "solver", "premises")))
    assert stats(server)["requests"] == seen
    accepted = rows(db, "SELECT min(candidate_id) FROM verdicts WHERE status = 'accepted'")
    shown = squeezed(cli("rephrase", "show", accepted[0][0]).out)
    assert {"model openai/test-model", "outcome kept"} <= {*shown}
