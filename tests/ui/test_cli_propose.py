"""`tagrpo rephrase run` and `resume` as a careless user calls them."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine, words
from json_rows import write_rows
from openai_server import server_process
from proposing import llm, propose, refused, runs
from world_runs import rows, stats, world_server, write_sums

NOWHERE = "http://127.0.0.1:9/v1"
OWN = "Say the same problem in a way of your own."

pytestmark = pytest.mark.usefixtures("world_set")


# Options that do not fit


def test_an_llm_needs_a_model_and_rules_take_none(cli: CommandLine) -> None:
    refused(cli, propose(), "proposer.model is missing")
    refused(
        cli,
        propose("proposer=rules", "proposer.strategies=rename"),
        "is used only with proposer=llm",
    )
    refused(
        cli,
        propose("proposer=rules", "--model", "gpt-4-turbo"),
        "--model is used only with proposer=llm",
    )
    refused(
        cli,
        propose("proposer=rules", "proposer.candidates=f.jsonl"),
        "is used only with proposer=file",
    )
    refused(cli, propose("proposer=file"), "proposer.candidates is missing")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--n", "65"], "--n is 65; give an integer, 1 to 64"),
        (["verdict.accept=40"], "accept_overlap 40 can never be reached"),
        (["verdict.looks=[16,12]"], "increasing"),
        (["premises=openai/test-model"], "Add one"),
    ],
)
def test_settings_of_a_run_that_cannot_be(cli: CommandLine, more: list[str], message: str) -> None:
    refused(cli, propose("proposer=rules", *more), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "own.txt: the instruction is empty"),
        (b"version: 2\n---\n  \n", "own.txt: the instruction is empty"),
        (b"Say it \xff anew.", "own.txt: byte 7 is not valid UTF-8"),
        (b"Say it\nanew\x00.", "own.txt:2: contains the control character '\\x00'"),
    ],
)
def test_strategy_files_that_cannot_be_used(cli: CommandLine, content: bytes, message: str) -> None:
    Path("own.txt").write_bytes(content)
    refused(cli, llm(NOWHERE, "proposer.strategies=own.txt"), message)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["proposer.strategies=nope"], "neither a built-in strategy (perspectives, paraphrase"),
        (["proposer.strategies=[rename,rename]"], "a strategy appears twice"),
        (["--n", "1", "proposer.strategies=[rename,format]"], "2 strategies for 1"),
        (["proposer.price=[1,2,3]"], "proposer.price=[1,2,3]: "),
        (["proposer.price=[nan,1]"], "proposer.price=[nan,1]: "),
    ],
)
def test_settings_of_a_proposer_that_cannot_be(cli: CommandLine, more: list[str], message: str) -> None:
    Path("own.json").write_text("{}")
    refused(cli, llm(NOWHERE, *more), message)


# Models that cannot be asked


@pytest.mark.slow
def test_a_model_that_cannot_be_asked_takes_no_name(cli: CommandLine, server: str) -> None:
    before = stats(server)["requests"]
    refused(cli, llm(NOWHERE), "http://127.0.0.1:9/v1/models cannot be reached")
    refused(cli, llm(server, model="openai/other"), "'other'")
    refused(cli, llm(server, model="frobnicate"), "litellm knows no provider for the model 'frobnicate'")
    refused(cli, llm(server, "--max-usd", "1"), "does not know the price of openai/test-model")
    refused(
        cli,
        llm(server, "--solver", "hosted_vllm/absent", f"solver.base_url={server}"),
        "does not serve the model 'absent'",
    )
    refused(
        cli,
        llm(server, "--solver", "hosted_vllm/test-model", f"solver.base_url=[{server},{server}]"),
        f"{server} appears twice",
    )
    assert stats(server)["requests"] == before
    done = cli(*propose("--model", "openai/gpt-4-turbo"))
    assert (done.code, "OPENAI_API_KEY" in done.err) == (2, True)


# Runs with a model


@pytest.mark.slow
def test_a_proposer_that_always_refuses_ends_its_run_and_says_so(cli: CommandLine, tmp_path: Path) -> None:
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
        again = json.loads(cli("resume", "r", "--json").out)
        assert stats(url)["paid"] == 12  # it has ended: nothing is asked again
    assert [line["reason"] for line in again["unfinished"]] == ["no candidate"] * 3
    assert again["unreadable"] == {"refused": 12}
    assert (again["open_questions"], again["stopped"]) == (0, None)


@pytest.mark.slow
def test_strategies_share_the_slots_and_solvers_the_answers(cli: CommandLine, server: str, db: Path) -> None:
    Path("own.txt").write_text(f"version: 3\nsummary: mine\n---\n{OWN}")
    solvers = [
        "--solver",
        "openai/test-model",
        "--solver",
        "hosted_vllm/test-model",
        f"solver.base_url={server}",
    ]
    settings = ["proposer.strategies=[own.txt,rename]", "--limit", "2", *solvers]
    done = cli.ok(*llm(server, *settings, "--json"))
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
        "SELECT scope, about, count(*) FROM asks WHERE kind = 'answer' AND about LIKE 'q%' GROUP BY 1, 2",
    )
    # 32 answers to a question, half of them of each solver, four to a request
    assert [count for _, _, count in drawn] == [4, 4, 4, 4]
    accepted = rows(db, "SELECT evidence FROM verdicts WHERE final AND status = 'accepted'")
    assert len(accepted) == 6

    spec = json.loads(cli("runs", "show", "r", "--json").out)["spec"]
    own = spec["strategies"][0]
    assert (own["name"], own["version"], own["summary"], own["text"]) == ("own", "3", "mine", OWN)
    assert [solver["model"] for solver in spec["solvers"]] == ["openai/test-model", "hosted_vllm/test-model"]

    # Other settings under the same name are listed one by one; hashes and ids, which follow, are not.
    Path("own.txt").write_text("Another instruction.")
    other = cli(*llm(server, *settings, "--n", "4", "seed=1"))
    assert (other.code, other.out) == (2, "")
    message = words(other.err)
    for part in (
        "n (3 stored, 4 given)",
        "seed (0 stored, 1 given)",
        "strategies.1.version ('3' stored, '1' given)",
    ):
        assert part in message
    assert f"strategies.1.text ('{OWN}' stored, 'Another instruction.' given)" in message
    assert "hash" not in message


@pytest.mark.slow
def test_a_dry_run_says_what_the_run_will_cost_and_sends_nothing(cli: CommandLine, db: Path) -> None:
    priced = ("proposer.price=[10,30]", "--n", "3", "rounds=2")
    with world_server("--model", "test-model") as url:
        solved = (*priced, "--solver", "hosted_vllm/test-model", f"solver.base_url={url}", "--json")
        before = json.loads(cli(*llm(url, *solved, "--dry-run")).out)
        assert stats(url)["requests"] == 0
        assert runs(cli) == []
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
def test_a_trial_grows_and_its_questions_are_not_paid_again(cli: CommandLine, db: Path) -> None:
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


def test_a_set_without_usable_questions_says_where_to_look(cli: CommandLine) -> None:
    held = write_rows(Path("held.jsonl"), {"question": "What is blue?", "answer": r"\frac{1}{"})
    done = cli("questions", "import", held, "--name", "held")
    assert done.code == 3
    asked = cli("rephrase", "run", "held", "--name", "r", "proposer=rules")
    assert (asked.code, "tagrpo questions list held --held" in asked.err) == (2, True)


@pytest.mark.slow
def test_a_run_of_which_too_little_is_accepted_stops_and_goes_on(cli: CommandLine, db: Path) -> None:
    more = Path("more.jsonl")
    assert cli("questions", "import", write_sums(more, 40), "--name", "more").code == 0
    with world_server("--model", "test-model") as url:
        solved = ("--solver", "openai/test-model", f"solver.base_url={url}", "proposer.max_concurrency=2")
        done = cli(*(["rephrase", "run", "more", *llm(url, *solved)[3:]]), "stop_below=1", "--json")
        assert done.code == 3, done.err
        stopped = json.loads(done.out)
        assert "continue with `tagrpo resume r stop_below=LESS`" in words(done.err)
        rest = cli("resume", "r", "stop_below=0", "--json")
        assert stats(url)["paid"] == stats(url)["paid_distinct"]
    assert (stopped["stopped"], stopped["open_questions"] > 0) == ("enough", True)
    assert rest.code == 0, rest.err
    assert json.loads(rest.out)["open_questions"] == 0
