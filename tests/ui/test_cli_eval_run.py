"""`tagrpo eval run` against the test server: what it draws, refuses and resumes, and how it asks models."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import world
from command_line import squeezed, words
from eval_sampling import running_server
from forked import Forked
from json_rows import write_rows
from openai_faults import always
from openai_server import server_process
from runs import Proposed, add_run
from world_runs import MODEL, SAMPLES, evaluate, rows, set_faults, stats, world_server, write_sums

from service.database import Database

pytestmark = pytest.mark.usefixtures("six_sums")


def test_a_run_is_drawn_graded_and_printed(cli, server):
    (run,) = cli.json(*evaluate(server))["runs"]
    expected = {"run": "test-model.sums", "benchmark": "sums", "problems": 6, "samples": 48}
    expected |= {"drawn": 48, "graded": 48, "missing": 0, "stopped": None, "usd": None}
    assert {name: run[name] for name in expected} == expected
    assert [point["k"] for point in run["pass_at_k"]] == [1, 2, 4, 8]
    first = run["pass_at_k"][0]
    assert first["value"] == pytest.approx(run["correct"] / 48)
    assert first["new_problems"][0] < first["value"] < first["new_problems"][1]
    drawn = rows("tagrpo.db", SAMPLES)
    assert [row[:2] for row in drawn] == [(place, ordinal) for place in range(6) for ordinal in range(8)]
    assert sum(row[4] == "correct" for row in drawn) == run["correct"]
    done = cli.ok(*evaluate(server))
    assert "test-model.sums: 6 problems, 8 samples per problem" in done.out
    assert "95%, new problems" in done.out
    assert {"truncated share 0", "refused share 0"} <= {*squeezed(done.out)}
    assert f"{100 * run['correct'] / 48:.1f}" in done.out.splitlines()[2].split()


@pytest.mark.slow
def test_verbose_names_each_request_and_quiet_errors_alone(cli, server):
    loud = cli(*evaluate(server, "-v"))
    fates = [line for line in loud.err.splitlines() if "sample request to hosted_vllm/test-model, id" in line]
    assert len(fates) == 6
    assert "id 1: answered in " in loud.err
    assert "boxed" not in loud.err
    assert "request to" not in cli(*evaluate(server, n=16)).err
    assert cli(*evaluate(server, "-q", n=24)).err == ""
    wrong = cli(*evaluate(server, "-q", "temperature=1"))
    assert (wrong.code, wrong.err.startswith("error: ")) == (2, True)


@pytest.mark.slow
def test_more_samples_ask_only_for_the_missing_ones_and_other_settings_are_another_run(cli, server):
    cli(*evaluate(server))
    before = stats(server)["requests"]
    done = cli(*evaluate(server, n=32))
    assert "resuming run test-model.sums" in done.err
    assert stats(server)["requests"] - before == 6 * 3
    fewer = cli(*evaluate(server))
    assert "run test-model.sums was already complete" in fewer.err
    assert "0/0" not in done.err + fewer.err
    assert "test-model.sums: 6 problems, 32 samples per problem" in fewer.out
    hot = evaluate(server, "temperature=1", n=32)
    assert "sampling.temperature (0.6 stored, 1.0 given)" in cli.refused(*hot)
    assert stats(server)["requests"] - before == 6 * 3
    cli.ok(*evaluate(server, "temperature=1", "--name", "hot"))
    assert rows("tagrpo.db", "SELECT name FROM runs ORDER BY name") == [("hot.sums",), ("test-model.sums",)]


@pytest.mark.slow
def test_what_a_filter_refuses_is_missing_for_good_until_it_is_asked_again(cli):
    with world_server("--version", "0.11.0", "--fault=content_filter=0.3") as server:
        done = cli.warned(*evaluate(server, "samples_per_request=1"))
        (lost,) = rows("tagrpo.db", "SELECT count(*) FROM tasks WHERE state = 'failed'")[0]
        assert 5 < lost < 25
        assert f"test-model.sums: {lost} samples permanently missing" in " ".join(done.err.split())
        assert f"permanently missing samples {lost}" in squeezed(done.out)
        before = stats(server)["requests"]
        again = cli("resume", "test-model.sums", "--json")
        assert (again.code, stats(server)["requests"]) == (3, before)
        (run,) = json.loads(again.out)["runs"]
        assert (run["missing"], run["missing_for_good"], run["missing_samples"]) == (lost, lost, lost)
        first = run["pass_at_k"][0]
        assert first["value_high"] - first["value"] == pytest.approx(lost / 48)
        assert run["pass_at_k"][-1]["k"] == 8
        assert run["finished_at"] is not None
        shown = cli.warned("runs", "show", "test-model.sums")
        assert "content filter: The response was filtered by the content management policy" in shown.out
        report = cli("eval", "report", "test-model.sums", "--k", 1)
        assert "requested samples are missing" in " ".join(report.out.split())
        set_faults(server, {})
        mended = cli("resume", "test-model.sums", "retry_final=true")
        assert (mended.code, stats(server)["requests"]) == (0, before + lost)
        cli.ok("runs", "show", "test-model.sums")


@pytest.mark.slow
def test_what_a_server_says_of_failed_requests_is_shown(cli):
    said = "Incorrect API key provided"
    with world_server("--version", "0.11.0", "--fault=unauthorized=1") as server:
        done = cli(*evaluate(server))
        assert (done.code, done.err.splitlines()[-1].count(said)) == (1, 1), done.err
        shown = cli("runs", "show", "test-model.sums")
        assert (shown.code, said in shown.err.splitlines()[-1]) == (3, True)
        assert f"authentication: {said}" in shown.out
        assert "`tagrpo resume test-model.sums` requests them" in shown.err
        found = cli.json("runs", "show", "test-model.sums", code=3)
        assert [count for error, count in found["errors"].items() if said in error] == [6]
        assert (found["missing"], found["missing_for_good"]) == (48, 0)
        set_faults(server, {})
        cli.ok("resume", "test-model.sums")
        cli.ok("runs", "show", "test-model.sums")


def test_several_benchmarks_are_a_run_each(cli, server, tmp_path):
    write_sums(tmp_path / "more.jsonl", 3)
    done = cli.ok(*evaluate(server, "more.jsonl", "--name", "base", n=4))
    assert "base.sums: 6 problems" in done.out
    assert "base.more: 3 problems" in done.out
    assert "--from sums.jsonl=FILE" in cli.refused(*evaluate(server, "more.jsonl", "--from", "x.jsonl"))


def test_rows_of_a_known_benchmark_come_from_a_file(cli, server, tmp_path):
    short = write_sums(tmp_path / "aime.jsonl", 5)
    assert "--allow-changed" in cli.refused(*evaluate(server, "--from", short, benchmark="aime24"))
    given = ("--from", f"aime24={short}", "allow_changed=true")
    done = cli.ok(*evaluate(server, *given, benchmark="aime24", n=2))
    assert "the content differs from the known version" in words(done.err)
    ((spec,),) = rows("tagrpo.db", "SELECT CAST(spec AS text) FROM runs")
    assert json.loads(spec)["source"]["file"] == "aime.jsonl"


@pytest.mark.slow
def test_a_trial_of_the_first_problems_grows_with_the_same_seeds(cli, server):
    drawn = (
        "SELECT problem_id, ordinal, seed, completion_tokens FROM samples "
        "JOIN run_problems ON run_problems.id = run_problem_id WHERE run_id = "
        "(SELECT id FROM runs WHERE name = '{}') ORDER BY 1, 2"
    )
    done = cli(*evaluate(server, "--limit", "2", n=2))
    assert "test-model.sums: 2 of 6 problems" in done.out
    assert "sums[:2]: only the first of the 6 problems" in words(cli("eval", "report", "test-model").out)
    paid = stats(server)["paid"]
    grown = cli(*evaluate(server, n=2))
    assert "run test-model.sums grows from 2 to 6 problems" in words(grown.err)
    assert stats(server)["paid"] == paid + 4  # a request each: those of the first two stay
    fewer = evaluate(server, "--limit", "2", n=2)
    assert "has 6 problems, not 2; a larger limit can extend" in cli.refused(*fewer)
    cli.ok(*evaluate(server, "--name", "whole", n=2))
    trial, whole = (rows("tagrpo.db", drawn.format(f"{name}.sums")) for name in ("test-model", "whole"))
    assert trial == whole


def test_golds_that_are_graded_wrong_stop_the_run(cli, server, tmp_path):
    row = {**world.questions(1)[0], "answer": "maybe", "kind": "integer"}
    (tmp_path / "bad.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    before = stats(server)["requests"]
    assert "allow_bad_golds=true" in cli.refused(*evaluate(server, benchmark="bad.jsonl"))
    assert stats(server)["requests"] == before
    allowed = cli(*evaluate(server, "allow_bad_golds=true", benchmark="bad.jsonl", n=1))
    assert "gold answers are not graded correct" in words(allowed.err)


def test_a_command_that_cannot_run_is_refused(cli):
    Database.open("tagrpo.db").close()
    cli.refuses(
        {
            "eval run --model m": "give either benchmarks, or a published neighbor set",
            "eval run sums.jsonl neighbors=x --model m": "give either benchmarks",
            "eval run neighbors=x --from y --model m": "sources apply only to benchmarks",
            "eval run sums.jsonl --model m --preset mine": "--preset: preset is 'mine'; give one of: default",
            "eval run nothing --model m": 'no benchmark "nothing"',
            "eval run sums.jsonl --model noprovider-model": "litellm knows no provider",
            "eval run sums.jsonl --model x sampler=vllm device=cpu": "device does not apply to sampler=vllm",
            f"eval run sums.jsonl --model {MODEL} --base-url http://127.0.0.1:9/v1": "no server answers",
            "runs show nothing": "there is no run 'nothing'",
            "eval score nothing": "there is no eval run 'nothing'",
            "eval run sums.jsonl --model x grader=no_such:grade": "add its folder to PYTHONPATH",
            "eval run sums.jsonl --model x --n 0": "--n: n is 0; give an integer, 1 to 100,000",
        }
    )
    address = ("--base-url", "http://me:secret@localhost")
    secret = cli.refused("eval", "run", "sums.jsonl", "--model", MODEL, *address)
    without = cli.refused("eval", "run", "sums.jsonl", "--model", MODEL, "--base-url", "me:secret@h:8000")
    assert "h:8000 must start with http://" in without
    assert "secret" not in without
    assert "contains a user name or password" in secret
    assert "://me:secret" not in secret


@pytest.mark.slow
def test_a_spent_budget_says_how_to_go_on(cli, server):
    priced = ["price=[1000,1000]", "max_tokens=50"]
    done = cli.warned(*evaluate(server, *priced, "--max-usd", "1"))
    assert "--max-usd 1.0 is spent" in words(done.err)
    assert "`tagrpo resume test-model.sums max_usd=MORE` requests them" in words(done.err)
    (line,) = cli.json("runs", "show", "test-model.sums", code=3)["ledger"]
    assert (line["kind"], line["doubtful_usd"]) == ("sample", 0)
    assert 0 < line["usd"] <= 1
    cli.ok(*evaluate(server, *priced, "--max-usd", "100"))
    assert "price=[10,30]" in cli.refused(*evaluate(server, "--max-usd", "1", "--name", "x"))


def test_a_neighbor_set_is_evaluated_in_groups(cli, server):
    first, second = world.questions(2)
    phrased = [Proposed("Starting with $11$ apples, Ada gets $5$ more. How many apples has Ada?")]
    with Database.open("tagrpo.db") as db:
        asked = [(first["question"], first["answer"], phrased), (second["question"], second["answer"], [])]
        add_run(db, "run", asked)
    cli.ok("sets", "publish", "math", "--run", "run")
    done = cli.ok("eval", "run", "neighbors=math", "--model", MODEL, "--base-url", server, "--n", "4")
    assert "test-model.math-1: 3 problems" in done.out
    assert "neighbors 1" in squeezed(done.out)
    query = "SELECT position, group_id, variant, source_id, strategy FROM run_problems ORDER BY 1"
    placed = rows("tagrpo.db", query)
    assert [(row[0], row[2]) for row in placed] == [(0, 0), (1, 1), (2, 0)]
    assert placed[0][1] == placed[1][1] == placed[0][3]
    assert placed[1][3].startswith("c_")
    assert placed[1][4]
    assert placed[2][1] == placed[2][3] != placed[0][1]
    where = ("--model", MODEL, "--base-url", server, "--n", "1")
    first_only = cli("eval", "run", "neighbors=math@1", "--name", "first", *where, "--limit", "1")
    assert "first.math-1: 1 of 2 problems, 2 including neighbors" in first_only.out


@pytest.mark.slow
def test_a_dry_run_estimates_runs_and_touches_nothing(cli, server):
    sent = stats(server)["requests"]
    dry = ("price=[10,30]", "max_tokens=1000", "--dry-run", "--json")

    def estimate(*more: object, n: int) -> dict[str, Any]:
        done = cli.ok(*evaluate(server, *dry, *more, n=n))
        (run,) = json.loads(done.out)["runs"]
        return dict(run)

    before = estimate(n=4)
    assert not Path("tagrpo.db").exists()
    (stage,) = before["stages"]
    assert (before["run"], before["questions"], before["trial"]) == ("test-model.sums", 6, None)
    assert (stage["kind"], stage["requests"], stage["completion_tokens"]) == ("sample", [6, 6], [4800, 24000])
    assert 0 < before["usd"][0] < before["usd"][1]
    assert stats(server)["requests"] == sent
    run = ("price=[10,30]", "max_tokens=1000", "--limit", "4", "--json")
    drawn = json.loads(cli(*evaluate(server, *run, n=4)).out)["runs"][0]
    sent = stats(server)["requests"]
    capped = cli(*evaluate(server, *dry[:-1], "--max-usd", "0.00001", n=4))
    assert "--max-usd 1e-05 stops the run before it is complete" in words(capped.out)
    after = estimate(n=4)
    assert (after["trial"], after["trial_questions"], after["questions"]) == ("test-model.sums", 4, 6)
    assert sum(after["usd"]) / 2 == pytest.approx(drawn["usd"] * 2 / 4)  # two of six problems are missing
    assert estimate("--limit", "4", n=4)["usd"] == [0, 0]
    assert stats(server)["requests"] == sent


@pytest.mark.slow
def test_a_run_of_boxed_answers_is_another_run(cli, server):
    cli.ok(*evaluate(server, "answers=boxed", "--name", "b", n=2))
    assert "answers boxed" in squeezed(cli("runs", "show", "b.sums").out)
    cli.ok(*evaluate(server, "--name", "a", n=2))
    unlike = cli("eval", "compare", "a.sums", "b.sums")
    assert "count different answers (--answers all and boxed)" in words(unlike.err)
    assert unlike.err.count("tagrpo eval score") == 1
    cli.ok("eval", "score", "b.sums", "--answers", "all")
    cli.ok("eval", "compare", "a.sums", "b.sums")
    assert "answers" in cli.refused(*evaluate(server, "--name", "b", n=2))


@pytest.mark.slow
def test_a_users_function_grades_a_run_and_settings_are_shown(cli, server, tmp_path, monkeypatch):
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = evaluate(server, "--name", "b", "grader=strict_sums:grade", "max_tokens=3", n=2)
    cli.ok(*run)
    shown = words(cli.ok("runs", "show", "b.sums").out)
    for expected in (
        *("grader own grader strict_sums:grade; sha256", "engine=vllm", "version=0.11.0"),
        *("temperature=0.6", "truncated share 1", "tagrpo"),
    ):
        assert expected in shown
    as_json = cli.json("runs", "show", "b.sums")
    assert (as_json["truncated_share"], as_json["spec"]["sampling"]["max_tokens"]) == (1.0, 3)
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return False\n")
    assert "grader" in cli.refused(*run)


def test_a_run_goes_on_by_its_name_with_its_settings(cli, server, tmp_path, monkeypatch):
    given = ("--name", "r", "max_requests=2", "price=[1,1]", "samples_per_request=1")
    cli.warned(*evaluate(server, *given, n=2))
    assert "10 samples missing; `tagrpo resume" in cli.warned("runs", "show").err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # sums.jsonl is looked for where it was
    resumed = ("resume", "r.sums", "--db", tmp_path / "tagrpo.db")
    for word, says in {
        "temperature=1": "this setting affects the results",
        "max_request=1": "Did you mean max_requests?",
        "max_requests=0": "give an integer, at least 1",
    }.items():
        assert says in cli.refused(*resumed, word)
    [done] = cli.json(*resumed)["runs"]
    assert (done["run"], done["samples"], done["missing"]) == ("r.sums", 12, 0)
    assert done["usd"] > 0  # so the price was kept
    cli.ok("runs", "rename", "r.sums", "other", "--db", tmp_path / "tagrpo.db")
    assert "was renamed" in cli.refused("resume", "other", "--db", tmp_path / "tagrpo.db")
    assert "there is no run 'n=3'" in cli.refused("resume", "n=3", "--db", tmp_path / "tagrpo.db")


def test_failures_in_a_row_end_an_evaluation_where_it_is_told_to(cli):
    with running_server(faults=always("bad_request")) as server:
        done = cli(*evaluate(server.url, "max_concurrency=1", "samples_per_request=1", "halt_after=3"))
    assert (done.code, sum(server.asked.values())) == (1, 3)
    assert "3 consecutive requests failed, last: Invalid value for 'temperature'" in words(done.err)


@pytest.mark.slow
def test_a_warning_names_the_server_that_does_not_answer(cli):
    with running_server(latency_s=2.5) as server:
        done = cli(*evaluate(server.url, "--limit", 1, "stall_s=1"))
    assert done.code == 0, done.err
    warning = f"no answer for 1 s; in flight: 1 request at {server.url}"
    assert words(done.err).count(warning) == 1


@pytest.mark.slow
def test_sigterm_waits_no_longer_than_its_grace(cli):
    with world_server("--latency", "60") as url:
        process = Forked(*map(str, evaluate(url, "grace_s=0.5")))
        while stats(url)["in_flight"] < 6 and process.poll() is None:
            time.sleep(0.02)
        began = time.monotonic()
        code, _, errors = process.end(signal.SIGTERM)
    assert code == 143, errors
    assert time.monotonic() - began < 20
    assert "Traceback" not in errors


def test_what_a_model_does_not_accept_is_noted_once_after_the_first_run(cli):
    write_rows("more.jsonl", *world.questions(1))
    with running_server(refuse_fields=["seed"]) as server:
        done = cli.ok(*evaluate(server.url, "more.jsonl"))
    before, after = words(done.err).split("does not accept seed: the run cannot be repeated exactly")
    assert "test-model.more" not in before
    assert "test-model.more" in after


def test_no_seed_is_sent_with_seed_none_and_a_note_says_what_follows(cli):
    with running_server(answer=world.answer) as server:
        done = cli.ok(*evaluate(server.url, "seed=none"))
        assert not any("seed" in seen.body for seen in server.requests)
        assert "no seed is sent, so the run cannot be repeated exactly" in words(done.err)
        assert rows("tagrpo.db", "SELECT DISTINCT seed FROM samples") == [(None,)]
        cli.ok(*evaluate(server.url, "seed=3", "--name", "seeded"))
        seeds = [seen.body["seed"] for seen in server.requests[6:]]
    assert len(set(seeds)) == 6


@pytest.mark.slow
def test_profiles_stand_in_a_file_beside_the_database_and_keys_in_no_file(cli, tmp_path, monkeypatch):
    (tmp_path / "team").mkdir()
    profiles = tmp_path / "team" / "tagrpo.toml"
    (tmp_path / "few.toml").write_text("n = 4\nlimit = 2\n")
    (tmp_path / "more.toml").write_text("n = 2\n")
    asked = ("eval", "run", "sums.jsonl", "--db", "team/tagrpo.db", "-c", "few.toml", "-c", "more.toml")
    monkeypatch.setenv("TEST_SERVER_KEY", "lab-credential-4711")
    with server_process() as url:
        monkeypatch.delenv("TEST_SERVER_KEY")
        profile = f'[endpoint.lab]\nbase_url = "{url}"\nmodel = "hosted_vllm/test-model"\n'
        monkeypatch.setenv("LAB_CREDENTIAL", "lab-credential-4711")
        profiles.write_text(profile + 'api_key_env = "LAB_CREDENTIAL"\n')
        cli.ok(*asked, "endpoint=lab", "--limit", 1)
        assert rows("team/tagrpo.db", "SELECT count(*) FROM samples") == [(2,)]
        monkeypatch.setenv("LAB_CREDENTIAL", "another-credential")
        wrong = cli(*asked, "endpoint=lab", "--name", "wrong")
        assert (wrong.code, "another-credential" in wrong.err) == (2, False), wrong.err
    assert "[endpoint.other] does not exist. Available: lab." in cli.refused(*asked, "endpoint=other")
    assert b"lab-credential-4711" not in (tmp_path / "team" / "tagrpo.db").read_bytes()
