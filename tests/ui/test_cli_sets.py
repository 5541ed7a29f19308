"""`tagrpo sets`: what it prints, its exit codes, its JSON."""

import json
from pathlib import Path
from unittest.mock import ANY

import pytest
from command_line import squeezed
from runs import Asked, Proposed, add_run, make_spec, open_empty
from sqlalchemy import text
from tampering import past_tagrpo

from service.database import Database

ASKED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed("Add 2 and 3."), Proposed("2 plus 3?", ("rejected",), 0.01)]),
    ("Halve 8.", "4", [Proposed("What is half of 8?"), Proposed("Half of [bold]8[/bold]?")]),
    ("Is 7 prime?", "yes", [Proposed("Is 7 a prime number?", ("unverified",))]),
]


@pytest.fixture
def cli(command_line, tmp_path, monkeypatch):
    """Return `tagrpo sets` on a database with three runs."""
    monkeypatch.setenv("TAGRPO_DB", str(tmp_path / "t.db"))
    with open_empty(tmp_path / "t.db") as database:
        add_run(database, "run", ASKED)
        add_run(database, "open", ASKED[:1], finished=False)
        add_run(database, "rules", ASKED[2:], spec=make_spec(solvers=()))
    return command_line.within("sets")


def test_publish_says_what_it_took(cli):
    text = cli.ok("publish", "math", "--run", "run", "--n", "1").out
    lines = squeezed(text)
    assert {"set math@1", "questions 3", "neighbors 2", "questions by neighbors 0=1, 1=2"} <= {*lines}
    # 3 of 4 judged proposals are accepted: Clopper-Pearson.
    assert "all 3 4 1 0.75 0.1941 0.9937" in lines
    assert "unchanged: math@1 already" in cli.ok("publish", "math", "--run", "run", "--n", "1").out


def test_unverified_ones_are_published_on_demand_and_an_open_run_needs_attention(cli):
    assert "--include unverified" in cli.refused("publish", "rules", "--run", "rules")
    result = cli.json("publish", "rules", "--run", "rules", "--include", "unverified")
    assert result["counts"]["neighbors_by_verdict"]["unverified"] == 1
    assert result["accept_rates"][0]["rate"] is None
    early = cli.warned("publish", "early", "--run", "open")
    assert "early@1" in early.out
    assert "run open is not finished" in early.err


COUNTED: list[Asked] = [
    ("Three and four?", "7", [Proposed("How many are 3 with 4?", right=(16, 9))]),
    ("Five and four?", "9", [Proposed("Join 5 to 4.", right=(0, 2)), Proposed("4 on 5?", right=(0, 0))]),
    ("Six and four?", "10", [Proposed("Put 6 on 4.", right=(31, 12))]),
]


@pytest.fixture
def counted(cli):
    with Database.open("t.db") as database:
        add_run(database, "counted", COUNTED)
    return cli


def test_several_runs_a_preference_and_adaptive_neighbors(counted):
    text = counted.ok("publish", "both", "--run", "counted", "--run", "run", "--prefer", "easier").out
    assert "easier=2, level=2, harder=0" in text
    shown = counted.json("show", "both", "--limit", "2")
    assert shown["spec"]["publish"]["prefer"] == "easier"
    successes = shown["entries"][1]["neighbors"][0]["successes"]
    assert (successes["neighbor_right"], successes["question_right"]) == (2, 0)
    assert "give each run exactly once" in counted.refused("publish", "both", "--run", "run", "--run", "run")
    assert "--pilot requires --adaptive" in counted.refused("publish", "x", "--run", "run", "--pilot", "p")

    # Adaptive: neighbors where the question alone yields none.
    counts = counted.json("publish", "some", "--run", "counted", "--adaptive", "8")["counts"]
    assert counts["questions_by_neighbors"] == {"0": 1, "1": 1, "2": 1}
    assert counts["adaptive"] == {"in need": 2, "alone": 1, "unknown": 0}
    capped = counted.json("publish", "some", "--run", "counted", "--adaptive", "8", "--n", "1")
    assert capped["counts"]["questions_by_neighbors"] == {"0": 1, "1": 2}
    adaptive = {"g": 8, "unmixed": 0.5, "pilot": None}
    assert counted.json("show", "some")["spec"]["publish"]["adaptive"] == adaptive


@pytest.mark.slow
def test_a_dry_run_publishes_nothing_and_says_what_choices_yield(counted):
    text = counted.ok("publish", "dry", "--run", "counted", "--dry-run").out
    assert "N=2" in text
    found = counted.json("publish", "dry", "--run", "counted", "--dry-run", "--adaptive", "8")
    assert [row["choice"] for row in found["choices"]] == ["N=0", "N=1", "N=2", "adaptive"]
    assert found["counts"]["adaptive"] == {"in need": 2, "alone": 1, "unknown": 0}
    assert found["choices"][-1]["with_neighbors"] == pytest.approx(2 / 3)
    bare = counted.json("publish", "dry", "--run", "run", "--dry-run")
    assert (bare["choices"], "no answers were compared" in bare["no_choices"]) == ([], True)
    assert counted.json("list")["sets"] == []


def test_filters_reach_the_selection(cli):
    options = ("--strategy", "perspectives", "--model", "test/proposer", "--only-with-neighbors")
    cli.ok("publish", "math", "--run", "run", *options, "--include", "undecided")
    shown = cli.json("show", "math")
    chosen = {"include": ["accepted", "undecided"], "strategies": ["perspectives"]}
    chosen["models"] = ["test/proposer"]
    rest = {"n": None, "only_with_neighbors": True, "min_distance": 0.15, "prefer": "any", "adaptive": None}
    assert shown["spec"]["publish"] == chosen | rest
    assert (shown["counts"]["questions"], shown["counts"]["questions_left_out"]) == (2, 1)


def test_versions_are_listed_tagged_and_shown(cli):
    assert "no neighbor sets yet" in cli.ok("list").out
    cli.ok("publish", "math", "--run", "run")
    cli.ok("publish", "other", "--run", "run", "--n", "1")
    assert cli.json("tag", "math@1", "paper") == {"set": "math@1", "id": ANY, "tags": ["paper"]}
    assert "7" in cli.refused("tag", "math", "7")
    assert [item["set"] for item in cli.json("list")["sets"]] == ["math@1", "other@1"]
    assert [item["tags"] for item in cli.json("list", "math")["sets"]] == [["paper"]]
    assert "math@1" in cli.ok("list").out
    assert "absent" in cli.refused("list", "absent")
    assert cli.json("show", "math@paper")["version"] == 1
    assert cli.json("tag", "math", "paper", "--remove")["tags"] == []
    assert "no version or tag 'paper'" in cli.refused("show", "math@paper")

    text = cli.ok("show", "math@1", "--limit", "1", "--first", "1").out
    assert "rule overlap" in squeezed(text)
    assert "Half of [bold]8[/bold]?" in text
    assert "2+3" not in text
    assert "entries" not in cli.json("show", "math@1")
    entries = cli.json("show", "math@1", "--limit", "5")["entries"]
    assert [entry["question"]["answer"] for entry in entries] == ["5", "4", "yes"]


def test_two_versions_are_compared(cli):
    cli.ok("publish", "math", "--run", "run", "--n", "1")
    cli.ok("publish", "math", "--run", "run", "--include", "rejected", "--only-with-neighbors")
    text = cli.ok("show", "math@2", "--diff", "math@1").out
    assert {"a math@1", "b math@2", "same no"} <= {*squeezed(text)}
    assert "2 plus 3?" in text
    found = cli.json("show", "math@2", "--diff", "math@1")
    assert (found["same"], len(found["neighbors_added"]), found["neighbors_changed"]) == (False, 2, [])
    assert cli.json("show", "math@1", "--diff", "math@1")["same"] is True


def test_a_version_is_verified(cli):
    cli.ok("publish", "math", "--run", "run")
    assert "ok yes" in squeezed(cli.ok("show", "math", "--verify").out)
    with past_tagrpo(Path("t.db")) as connection:
        connection.execute(text("UPDATE neighbor_set_members SET posterior = 0.1 WHERE position = 2"))
    result = cli.warned("show", "math", "--verify")
    assert "ok no" in squeezed(result.out)
    assert "math@1: differs from its published content" in result.err
    report = cli.json("show", "math", "--verify", code=3)
    assert (report["ok"], report["derived_hash"] != report["content_hash"]) == (False, True)


@pytest.mark.parametrize(("to", "name"), [("hf", "out"), ("jsonl", "a.jsonl"), ("parquet", "a.parquet")])
def test_export_and_import(cli, tmp_path, to, name):
    cli.ok("publish", "math", "--run", "run")
    to_file = ("export", "math@1", "--format", to, "--out", str(tmp_path / name))
    exported = cli.json(*to_file, "--license", "mit")
    assert exported["neighbors_by_verdict"]["accepted"] == 3
    assert exported["license"] == "mit"
    assert "--overwrite" in cli.refused(*to_file)
    assert "math@1" in cli.ok(*to_file, "--overwrite").out

    other = ("--db", "other.db")  # made by the import
    imported = cli.json("import", str(tmp_path / name), "--name", "copy", *other)
    assert (imported["set"], imported["content_hash"]) == ("copy@1", exported["content_hash"])
    assert name in json.dumps(cli.json("show", "copy", *other)["spec"])
    assert cli.json("show", "copy", "--verify", *other)["ok"] is True


def test_export_for_verl(cli, tmp_path):
    cli.ok("publish", "math", "--run", "run", "--include", "unverified")
    cli.refuses(
        {
            "export math --format hf --out o --max-prompt-tokens 512": "cannot be combined with --format hf",
            "export math --format verl --out o --license mit": "cannot be combined with --format verl",
            "export math --format verl --out o chat_template_kwargs=x": "chat_template_kwargs",
        }
    )
    assert not (tmp_path / "o").exists()
    to_verl = ("export", "math", "--format", "verl", "--out", str(tmp_path / "verl"))
    grouped = cli.json(*to_verl)
    assert (grouped["layout"], grouped["rows"], grouped["neighbors"]) == ("grouped", 3, 4)
    assert grouped["neighbors_by_verdict"] == {"accepted": 3, "unverified": 1}
    manifest = json.loads((tmp_path / "verl" / "manifest.json").read_text(encoding="utf-8"))
    # The name under which stock verl compares boxed answers.
    assert manifest["data_source"] == "DigitalLearningGmbH/MATH-lighteval"
    options = ("--layout", "flat", "--overwrite", "--instruction", "", "system=Be brief.")
    more = ("chat_template_kwargs.enable_thinking=false", "data_source=toy")
    assert {"layout flat", "rows 7"} <= {*squeezed(cli.ok(*to_verl, *options, *more).out)}
    manifest = json.loads((tmp_path / "verl" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["set"], manifest["data_source"]) == ("math@1", "toy")
    assert (manifest["prompt"]["instruction"], manifest["prompt"]["system"]) == ("", "Be brief.")
    assert manifest["prompt"]["chat_template_kwargs"] == {"enable_thinking": False}


def test_long_prompts_for_verl_need_attention(cli, tmp_path):
    with Database.open("t.db") as database:
        proposed = [Proposed("Half of 8? " * 400), Proposed("Half of 8?")]
        add_run(database, "long", [("Halve 8.", "4", proposed)])
    cli.ok("publish", "long", "--run", "long")
    result = cli.warned("export", "long", "--format", "verl", "--out", str(tmp_path / "verl"))
    assert "neighbors 1" in squeezed(result.out)
    assert "1 neighbors and 0 questions" in result.err
