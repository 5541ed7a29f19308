"""What a run of the test server's model shows, and what grading it again changes."""

import json
from pathlib import Path

import pytest
import world
from command_line import CommandLine, words
from sqlalchemy import text
from world_runs import evaluate

from service.database import Database

pytestmark = pytest.mark.usefixtures("six_sums")


def test_grading_again_tells_what_another_version_changed(cli: CommandLine, server: str) -> None:
    cli(*evaluate(server))
    again = cli("eval", "grade", "test-model.sums")
    assert again.code == 0
    assert "0 new grades" in again.out
    with Database.open("tagrpo.db") as db, db.write() as session:
        session.execute(text("INSERT INTO graders (id, version) VALUES (99, 'old grader')"))
        session.execute(
            text(
                "INSERT INTO grades SELECT sample_id, 99, run_problem_id, CASE WHEN sample_id % 8 = 0 "
                "THEN 'unknown' ELSE value END, reason, extracted, source FROM grades"
            )
        )
    told = cli("eval", "grade", "test-model.sums", "--changes")
    assert "compared with old grader: 6 verdicts changed" in told.out
    assert told.out.count("unknown (") == 6
    as_json = json.loads(cli("eval", "grade", "test-model.sums", "--changes", "--json").out)
    assert (as_json["graded"], len(as_json["changes"]), sum(as_json["changed"].values())) == (0, 6, 6)
    assert sum(one["grades"] for one in as_json["changed_by_source"]) == 6


@pytest.mark.slow
def test_a_run_of_boxed_answers_is_another_run(cli: CommandLine, server: str) -> None:
    done = cli(*evaluate(server, "answers=boxed", "--name", "b", n=2))
    assert done.code == 0, done.err
    assert "only boxed answers count" in done.out
    assert "only boxed answers count" in cli("runs", "show", "b.sums").out
    again = json.loads(cli("eval", "grade", "b.sums", "--json").out)
    assert (again["graded"], again["grader"].endswith("boxed answers only")) == (0, True)
    assert cli(*evaluate(server, "--name", "a", n=2)).code == 0
    unlike = cli("eval", "compare", "a.sums", "b.sums")
    assert "count different answers (--answers all and boxed)" in words(unlike.err)
    assert unlike.err.count("tagrpo eval grade") == 1
    assert cli("eval", "grade", "b.sums", "--answers", "all").code == 0
    assert cli("eval", "compare", "a.sums", "b.sums").code == 0
    clash = cli(*evaluate(server, "--name", "b", n=2))
    assert (clash.code, "answers" in words(clash.err)) == (2, True)


@pytest.mark.slow
def test_a_run_may_be_graded_by_a_function_of_the_users(
    cli: CommandLine, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = ("--grader", "strict_sums:grade")
    assert cli(*evaluate(server, "--name", "a", n=2)).code == 0
    graded = json.loads(cli("eval", "grade", "a.sums", *own, "--json").out)
    assert graded["grader"].startswith("own grader strict_sums:grade; sha256 ")
    assert (graded["graded"], graded["unknown"]) == (12, 12)
    by_rules = json.loads(cli("runs", "show", "a.sums", "--json").out)
    assert by_rules["grader"].startswith("tagrpo-grader")  # it was made with the rules
    assert cli(*evaluate(server, "--name", "b", "grader=strict_sums:grade", n=2)).code == 0
    shown = cli("runs", "show", "b.sums")
    assert "graded by own grader strict_sums:grade; sha256" in words(shown.out)
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return False\n")
    changed = cli(*evaluate(server, "--name", "b", "grader=strict_sums:grade", n=2))
    assert (changed.code, "grader" in words(changed.err)) == (2, True)
    assert cli("eval", "grade", "a.sums", *own, "--answers", "boxed").code == 2
    missing = cli("eval", "grade", "a.sums", "--grader", "no_such:grade")
    assert (missing.code, "add its folder to PYTHONPATH" in words(missing.err)) == (2, True)


@pytest.mark.slow
def test_a_run_is_shown_with_its_settings_and_responses(cli: CommandLine, server: str) -> None:
    cli(*evaluate(server, "max_tokens=3"))
    shown = cli("runs", "show", "test-model.sums")
    assert shown.code == 0, shown.err
    for expected in ("engine vllm, version 0.11.0", "temperature 0.6", "truncated 100.0%", "tagrpo"):
        assert expected in shown.out
    as_json = json.loads(cli("runs", "show", "test-model.sums", "--json").out)
    assert (as_json["truncated_share"], as_json["spec"]["sampling"]["max_tokens"]) == (1.0, 3)
    page = json.loads(cli("eval", "samples", "test-model.sums", "2", "--limit", "3", "--json").out)
    assert [sample["ordinal"] for sample in page["samples"]] == [0, 1, 2]
    assert {sample["stop_reason"] for sample in page["samples"]} == {"length"}
    assert page["question"] == world.questions(3)[2]["question"]
    by_id = cli("eval", "samples", "test-model.sums", page["problem_id"][:8], "--after", "6")
    assert "sample 7: wrong" in by_id.out
    assert "sample 6" not in by_id.out
    assert "more:" not in by_id.out
    assert "more: --after 1" in cli("eval", "samples", "test-model.sums", "0", "--limit", "2").out
    assert page["after"] == 2
    none = cli("eval", "samples", "test-model.sums", "0", "--grade", "unknown")
    assert "no such samples" in none.out
    missing = cli("eval", "samples", "test-model.sums", "6")
    assert (missing.code, "0 to 5" in words(missing.err)) == (2, True)
