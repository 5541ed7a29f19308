"""What shapes a run of the test server's model is part of it: answers that count, the user's own grader."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine, squeezed, words
from world_runs import evaluate

pytestmark = [pytest.mark.usefixtures("six_sums"), pytest.mark.slow]


def test_a_run_of_boxed_answers_is_another_run(cli: CommandLine, server: str) -> None:
    cli.ok(*evaluate(server, "answers=boxed", "--name", "b", n=2))
    assert "answers boxed" in squeezed(cli("runs", "show", "b.sums").out)
    again = json.loads(cli("eval", "score", "b.sums", "--json").out)
    assert (again["graded"], again["grader"].endswith("boxed answers only")) == (0, True)
    assert cli(*evaluate(server, "--name", "a", n=2)).code == 0
    unlike = cli("eval", "compare", "a.sums", "b.sums")
    assert "count different answers (--answers all and boxed)" in words(unlike.err)
    assert unlike.err.count("tagrpo eval score") == 1
    assert cli("eval", "score", "b.sums", "--answers", "all").code == 0
    assert cli("eval", "compare", "a.sums", "b.sums").code == 0
    clash = cli(*evaluate(server, "--name", "b", n=2))
    assert (clash.code, "answers" in words(clash.err)) == (2, True)


def test_a_run_may_be_graded_by_a_function_of_the_users_and_is_shown_with_its_settings(
    cli: CommandLine, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = evaluate(server, "--name", "b", "grader=strict_sums:grade", "max_tokens=3", n=2)
    cli.ok(*run)
    shown = words(cli.ok("runs", "show", "b.sums").out)
    for expected in (
        *("grader own grader strict_sums:grade; sha256", "engine=vllm, version=0.11.0"),
        *("temperature=0.6", "truncated share 1", "tagrpo"),
    ):
        assert expected in shown
    as_json = json.loads(cli("runs", "show", "b.sums", "--json").out)
    assert (as_json["truncated_share"], as_json["spec"]["sampling"]["max_tokens"]) == (1.0, 3)
    (tmp_path / "strict_sums.py").write_text("def grade(response, gold): return False\n")
    changed = cli(*run)
    assert (changed.code, "grader" in words(changed.err)) == (2, True)
