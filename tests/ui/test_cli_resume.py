"""`tagrpo resume`: a run goes on by its name, with the config it was last worked on with."""

import json
from pathlib import Path

import pytest
import world
from command_line import CommandLine, words


def test_a_run_goes_on_by_its_name_with_its_settings(
    command_line: CommandLine, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("sums.jsonl").write_text("\n".join(map(json.dumps, world.questions(6))))
    model = "hosted_vllm/test-model"
    asked = ["eval", "run", "sums.jsonl", "--model", model, "--base-url", server, "--n", 2, "--name", "r"]
    command_line.warned(*asked, "max_requests=2", "price=[1,1]", "samples_per_request=1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # sums.jsonl is looked for where it was
    resumed = ("resume", "r.sums", "--db", tmp_path / "tagrpo.db")
    for word, says in {
        "temperature=1": "this setting affects the results",
        "max_request=1": "Did you mean max_requests?",
        "max_requests=0": "give an integer, at least 1",
    }.items():
        assert says in command_line.refused(*resumed, word)
    [done] = command_line.json(*resumed)["runs"]
    assert (done["run"], done["samples"], done["missing"]) == ("r.sums", 12, 0)
    assert done["usd"] > 0  # so the price was kept
    command_line.ok("runs", "rename", "r.sums", "other", "--db", tmp_path / "tagrpo.db")
    assert "was renamed" in command_line.refused("resume", "other", "--db", tmp_path / "tagrpo.db")
    assert "there is no run 'n=3'" in command_line.refused("resume", "n=3", "--db", tmp_path / "tagrpo.db")


def test_passwords_in_addresses_are_refused(command_line: CommandLine, server: str) -> None:
    Path("sums.jsonl").write_text(json.dumps({"question": "What is 1 + 1?", "answer": "2"}))
    address = server.replace("://", "://me:secret@")
    done = command_line(
        "eval", "run", "sums.jsonl", "--model", "hosted_vllm/test-model", "--base-url", address
    )
    assert (done.code, "contains a user name or password" in words(done.err)) == (2, True)
    assert "secret" not in done.err
    assert not Path("tagrpo.db").exists()
