"""Settings of how models are asked, as the server sees them: profiles, halts, silence, grace, seeds."""

import signal
import time
from pathlib import Path

import pytest
import world
from command_line import CommandLine, words
from eval_sampling import running_server
from forked import Forked
from openai_faults import always
from openai_server import server_process
from world_runs import evaluate, rows, stats, world_server

pytestmark = pytest.mark.usefixtures("six_sums")


def test_failures_in_a_row_end_an_evaluation_where_it_is_told_to(cli: CommandLine) -> None:
    with running_server(faults=always("bad_request")) as server:
        done = cli(*evaluate(server.url, "max_concurrency=1", "samples_per_request=1", "halt_after=3"))
    assert (done.code, sum(server.asked.values())) == (1, 3)
    assert "3 consecutive requests failed, last: Invalid value for 'temperature'" in words(done.err)


@pytest.mark.slow
def test_a_warning_names_the_server_that_does_not_answer(cli: CommandLine) -> None:
    with running_server(latency_s=2.5) as server:
        done = cli(*evaluate(server.url, "--limit", 1, "stall_s=1"))
    assert done.code == 0, done.err
    warning = f"no answer for 1 s: 1 request in flight. 1 request at {server.url}"
    assert words(done.err).count(warning) == 1


@pytest.mark.slow
def test_sigterm_waits_no_longer_than_its_grace(cli: CommandLine) -> None:
    with world_server("--latency", "60") as url:
        process = Forked(*map(str, evaluate(url, "grace_s=0.5")))
        while stats(url)["in_flight"] < 6 and process.poll() is None:
            time.sleep(0.02)
        began = time.monotonic()
        code, _, errors = process.end(signal.SIGTERM)
    assert code == 143, errors
    assert time.monotonic() - began < 20
    assert "Traceback" not in errors


def test_no_seed_is_sent_with_seed_none_and_a_note_says_what_follows(cli: CommandLine) -> None:
    with running_server(answer=world.answer) as server:
        done = cli.ok(*evaluate(server.url, "seed=none"))
        assert not any("seed" in seen.body for seen in server.requests)
        assert "no seed is sent, so the run cannot be repeated exactly" in words(done.err)
        assert rows("tagrpo.db", "SELECT DISTINCT seed FROM samples") == [(None,)]
        cli.ok(*evaluate(server.url, "seed=3", "--name", "seeded"))
        seeds = [seen.body["seed"] for seen in server.requests[6:]]
    assert len(set(seeds)) == 6


@pytest.mark.slow
def test_profiles_stand_in_a_file_beside_the_database_and_keys_in_no_file(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
