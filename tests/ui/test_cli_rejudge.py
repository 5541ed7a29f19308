"""`tagrpo rephrase rejudge`, thresholds and `--premises` as a user meets them."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine, squeezed
from proposing import llm, propose
from world_runs import rows, stats

pytestmark = pytest.mark.usefixtures("world_set")


def solved(url: str, *more: str) -> list[str]:
    return llm(url, "--solver", "hosted_vllm/test-model", f"solver.base_url={url}", "--n", "2", *more)


@pytest.mark.slow
def test_stored_answers_are_judged_again_and_a_published_set_stays(
    cli: CommandLine, server: str, db: Path
) -> None:
    assert cli(*solved(server)).code == 0
    assert cli("sets", "publish", "s", "--run", "r").code == 0
    published = rows(db, "SELECT * FROM neighbor_set_members ORDER BY 1, 2, 3")
    verdicts = rows(db, "SELECT count(*) FROM verdicts")
    asked = stats(server)["requests"]

    dry = json.loads(cli("rephrase", "rejudge", "r", "accept=14", "--dry-run", "--json").out)
    assert dry["rule"]["accept_overlap"] == 14
    assert (dry["dry_run"], dry["stored"]) == (True, 0)
    assert {change["before"] for change in dry["changes"]} == {"accepted"}
    assert rows(db, "SELECT count(*) FROM verdicts") == verdicts

    done = cli.ok("rephrase", "rejudge", "r", "accept=14")
    assert "dry run no" in squeezed(done.out)
    assert "more: --after" not in done.out
    assert rows(db, "SELECT count(*) FROM verdicts")[0][0] == verdicts[0][0] + dry["judged"]
    assert json.loads(cli("rephrase", "rejudge", "r", "accept=14", "--json").out)["changes"] == []
    changed = dry["changes"][0]["candidate_id"]
    shown = cli("rephrase", "show", changed).out
    assert "status undecided" in squeezed(shown)
    assert "overlap" in shown

    back = json.loads(cli("rephrase", "rejudge", "r", "--json").out)  # the run's own rule
    assert back["after"] == dry["before"]
    assert rows(db, "SELECT * FROM neighbor_set_members ORDER BY 1, 2, 3") == published
    assert cli("sets", "show", "s@1", "--verify").code == 0
    assert stats(server)["requests"] == asked


def test_a_run_that_compared_no_answers_cannot_be_judged_again(cli: CommandLine) -> None:
    assert cli(*propose("proposer=rules")).code == 0
    done = cli("rephrase", "rejudge", "r")
    assert done.code == 2
    assert "no solver" in done.err
    assert cli("rephrase", "rejudge", "nope").code == 2


@pytest.mark.slow
def test_premises_go_through_ledger_and_resume(cli: CommandLine, server: str, db: Path) -> None:
    asked = solved(server, "premises=openai/test-model", f"premises.base_url={server}")
    cli.ok(*asked)
    asks = rows(db, "SELECT state, place FROM asks WHERE kind = 'premises'")
    assert {state for state, _ in asks} == {"answered"}
    assert {attempt for _, attempt in asks} >= {0, 1}
    assert "premises" in cli("runs", "show", "r").out
    seen = stats(server)["requests"]
    assert cli("resume", "r", f"proposer.base_url={server}", f"solver.base_url={server}",
               f"premises.base_url={server}").code == 0  # fmt: skip
    assert stats(server)["requests"] == seen
    accepted = rows(
        db, "SELECT candidate_id FROM verdicts WHERE status = 'accepted' ORDER BY candidate_id LIMIT 1"
    )
    shown = squeezed(cli("rephrase", "show", accepted[0][0]).out)
    assert {"model openai/test-model", "outcome kept"} <= {*shown}
