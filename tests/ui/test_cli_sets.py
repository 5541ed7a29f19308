"""`tagrpo sets`: what it prints, its exit codes, its JSON."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, run_here, words
from runs import Asked, Proposed, add_run, make_spec, open_empty
from sqlalchemy import text
from tampering import past_tagrpo

from service.database import Database

ASKED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed("Add 2 and 3."), Proposed("2 plus 3?", ("rejected",), 0.01)]),
    ("Halve 8.", "4", [Proposed("What is half of 8?"), Proposed("Half of [bold]8[/bold]?")]),
    ("Is 7 prime?", "yes", [Proposed("Is 7 a prime number?", ("unverified",))]),
]
COMMANDS = ("publish", "list", "show", "diff", "verify", "tag", "export", "import")


@dataclass(frozen=True)
class Cli:
    """Runs `tagrpo sets ...` on one database."""

    db: Path

    def __call__(self, *arguments: str, code: int = 0) -> Done:
        done = run_here("sets", *arguments, "--db", self.db)
        assert done.code == code, done
        return done

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self(*arguments, "--json", code=code).out)
        return value

    def error(self, *arguments: str) -> str:
        return words(self(*arguments, code=2).err)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    with open_empty(tmp_path / "t.db") as database:
        add_run(database, "run", ASKED)
        add_run(database, "open", ASKED[:1], finished=False)
        add_run(database, "rules", ASKED[2:], spec=make_spec(solvers=()))
    return Cli(tmp_path / "t.db")


def test_publish_says_what_it_took(cli: Cli) -> None:
    text = cli("publish", "math", "--run", "run", "--n", "1").out

    assert "published math@1" in text
    assert "questions     3: 1 with 0, 2 with 1 neighbors" in text
    assert "neighbors     2: 2 accepted; 0 reviewed" in text
    # 3 of 4 judged proposals are accepted: Clopper-Pearson.
    assert "all: 75.0% (95% interval 19.4% to 99.4%); 3 accepted of 4 judged, 1 unverified" in text


def test_publishing_the_same_again_says_so(cli: Cli) -> None:
    first = cli.json("publish", "math", "--run", "run")
    assert (first["created"], first["set"]) == (True, "math@1")

    assert "unchanged: math@1 already has this content" in cli("publish", "math", "--run", "run").out
    again = cli.json("publish", "math", "--run", "run")
    assert (again["created"], again["id"]) == (False, first["id"])


def test_publishing_unverified_ones_is_explicit(cli: Cli) -> None:
    error = cli.error("publish", "rules", "--run", "rules")
    assert "--include unverified" in error

    result = cli.json("publish", "rules", "--run", "rules", "--include", "unverified")
    assert result["counts"]["neighbors_by_verdict"]["unverified"] == 1
    assert result["accept_rates"][0]["rate"] is None
    assert "acceptance    all: not measured" in cli("show", "rules").out


def test_an_unfinished_run_needs_attention(cli: Cli) -> None:
    result = cli("publish", "early", "--run", "open", code=3)

    assert "published early@1" in result.out
    assert "run open is not finished" in result.err
    assert cli.json("publish", "early", "--run", "open", code=3)["created"] is False


COUNTED: list[Asked] = [
    ("Three and four?", "7", [Proposed("How many are 3 with 4?", right=(16, 9))]),
    ("Five and four?", "9", [Proposed("Join 5 to 4.", right=(0, 2)), Proposed("4 on 5?", right=(0, 0))]),
    ("Six and four?", "10", [Proposed("Put 6 on 4.", right=(31, 12))]),
]


@pytest.fixture
def counted(cli: Cli) -> Cli:
    with Database.open(cli.db) as database:
        add_run(database, "counted", COUNTED)
    return cli


def test_several_runs_and_a_preference(counted: Cli) -> None:
    text = counted("publish", "both", "--run", "counted", "--run", "run", "--prefer", "easier").out
    assert "success       47.9% on 4 neighbors, 36.7% on their questions, by test/solver" in text
    assert "compared with the question: 2 easier, 2 level, 0 harder" in text

    shown = counted("show", "both", "--limit", "2").out
    assert shown.count("\nrun           ") == 2
    assert "distance at least 0.15, easier ones first" in shown
    assert "correct 2/12, question 0/32, easier" in shown
    assert "give each run exactly once" in counted.error("publish", "both", "--run", "run", "--run", "run")


def test_adaptive_gives_neighbors_where_the_question_alone_yields_none(counted: Cli) -> None:
    text = counted("publish", "some", "--run", "counted", "--per-question", "adaptive").out
    assert "questions     3: 1 with 0, 1 with 1, 1 with 2 neighbors" in text
    assert "2 probably yield no gradient alone, 0 have an unknown rate; 1 have no neighbors" in text
    assert "no neighbors if the chance of equal rewards is below 0.5 with 8 responses" in (
        counted("show", "some").out
    )
    capped = counted.json("publish", "some", "--run", "counted", "--per-question", "adaptive", "--n", "1")
    assert capped["counts"]["questions_by_neighbors"] == {"0": 1, "1": 2}
    three = counted.json("publish", "all", "--run", "counted", "--per-question", "1")
    assert three["counts"]["questions_by_neighbors"] == {"0": 0, "1": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--per-question", "few"), "give adaptive, or a whole number of at least 1"),
        (("--per-question", "2", "--n", "3"), "contradict each other"),
        (("--pilot", "p"), "--pilot requires --per-question adaptive"),
        (("--prefer", "hard"), "easier"),
        (("--min-distance", "15"), "--min-distance"),
    ],
)
def test_what_publish_refuses(counted: Cli, options: tuple[str, ...], message: str) -> None:
    refused = counted("publish", "no", "--run", "counted", *options, code=2)
    assert message in " ".join(refused.err.replace("│", " ").split())


@pytest.mark.slow
def test_a_dry_run_publishes_nothing_and_says_what_choices_yield(counted: Cli) -> None:
    text = counted("publish", "dry", "--run", "counted", "--dry-run").out
    assert "would be published:" in text
    assert "How many mixed groups does each number of neighbors give? 3 questions, G=8" in text
    assert "adaptive" in text

    found = counted.json("publish", "dry", "--run", "counted", "--dry-run", "--per-question", "adaptive")
    assert [row["choice"] for row in found["choices"]] == ["N=0", "N=1", "N=2", "adaptive"]
    assert found["counts"]["adaptive"] == {"in need": 2, "alone": 1, "unknown": 0}
    assert found["choices"][-1]["with_neighbors"] == pytest.approx(2 / 3)
    bare = counted.json("publish", "dry", "--run", "run", "--dry-run")
    assert bare["choices"] == []
    assert "no answers were compared" in bare["no_choices"]
    assert counted.json("list")["sets"] == []


def test_filters_reach_the_selection(cli: Cli) -> None:
    options = ("--strategy", "perspectives", "--model", "test/proposer")
    cli("publish", "math", "--run", "run", *options, "--only-with-neighbors", "--include", "undecided")

    shown = cli.json("show", "math")
    assert shown["spec"]["publish"] == {
        "n": None,
        "include": ["accepted", "undecided"],
        "strategies": ["perspectives"],
        "models": ["test/proposer"],
        "only_with_neighbors": True,
        "min_distance": 0.15,
        "prefer": "any",
        "adaptive": None,
    }
    assert (shown["counts"]["questions"], shown["counts"]["questions_left_out"]) == (2, 1)


def test_list(cli: Cli) -> None:
    assert "no neighbor sets yet" in cli("list").out
    cli("publish", "math", "--run", "run")
    cli("publish", "other", "--run", "run", "--n", "1")
    cli("tag", "math", "paper")

    assert [item["set"] for item in cli.json("list")["sets"]] == ["math@1", "other@1"]
    assert [item["tags"] for item in cli.json("list", "math")["sets"]] == [["paper"]]
    assert "math@1" in cli("list").out
    assert "absent" in cli.error("list", "absent")


def test_show(cli: Cli) -> None:
    cli("publish", "math", "--run", "run")

    text = cli("show", "math@1", "--limit", "1", "--first", "1").out
    assert "solvers       test/solver" in text
    assert "rule          overlap, accept_overlap " in text
    assert "selection     all that qualify, accepted" in text
    assert "Half of [bold]8[/bold]?" in text
    assert "2. [accepted] perspectives" in text
    assert "2+3" not in text
    assert "entries" not in cli.json("show", "math@1")
    entries = cli.json("show", "math@1", "--limit", "5")["entries"]
    assert [entry["question"]["answer"] for entry in entries] == ["5", "4", "yes"]


def test_diff(cli: Cli) -> None:
    cli("publish", "math", "--run", "run", "--n", "1")
    cli("publish", "math", "--run", "run", "--include", "rejected", "--only-with-neighbors")

    text = cli("diff", "math@1", "math@2").out
    assert "questions removed: 1" in text
    assert "neighbors added: 2" in text
    assert "[rejected] 2 plus 3?" in text
    found = cli.json("diff", "math@1", "math@2")
    assert (found["same"], len(found["neighbors_added"]), found["neighbors_changed"]) == (False, 2, [])
    assert "and 2 more" in cli("diff", "math@1", "math@2", "--limit", "0").out
    assert "the same content" in cli("diff", "math@1", "math@1").out


def test_verify(cli: Cli) -> None:
    assert "no neighbor sets to verify" in cli("verify").out
    cli("publish", "math", "--run", "run")
    cli("publish", "other", "--run", "run", "--n", "1")
    assert cli("verify").out.count("matches its published content") == 2

    with past_tagrpo(cli.db) as connection:
        connection.execute(text("UPDATE neighbor_set_members SET posterior = 0.1 WHERE position = 2"))

    result = cli("verify", code=3)
    assert "math@1: CHANGED" in result.out
    assert "math@1: differs from its published content" in result.err
    report = cli.json("verify", "math", "other@1", code=3)
    assert [item["ok"] for item in report["sets"]] == [False, True]
    assert report["sets"][0]["derived_hash"] != report["sets"][0]["content_hash"]


def test_tag(cli: Cli) -> None:
    cli("publish", "math", "--run", "run")

    assert "math@paper is math@1" in cli("tag", "math@1", "paper").out
    assert cli.json("show", "math@paper")["version"] == 1
    assert cli.json("tag", "math", "paper", "--remove")["tags"] == []
    assert "no version or tag 'paper'" in cli.error("show", "math@paper")
    assert "7" in cli.error("tag", "math", "7")


@pytest.mark.parametrize(("to", "name"), [("hf", "out"), ("jsonl", "a.jsonl"), ("parquet", "a.parquet")])
def test_export_and_import(cli: Cli, tmp_path: Path, to: str, name: str) -> None:
    cli("publish", "math", "--run", "run")
    target = tmp_path / name

    exported = cli.json("export", "math@1", "--format", to, "--out", str(target), "--license", "mit")
    assert exported["neighbors_by_verdict"]["accepted"] == 3
    assert (exported["license"], exported["pushed_to"]) == ("mit", None)
    imported = cli.json("import", str(target), "--name", "copy")

    assert (imported["set"], imported["content_hash"]) == ("copy@1", exported["content_hash"])
    assert "imported      " + name in cli("show", "copy").out
    assert "--overwrite" in cli.error("export", "math@1", "--format", to, "--out", str(target))
    assert (
        "math@1 written to" in cli("export", "math", "--format", to, "--out", str(target), "--overwrite").out
    )


def test_import_makes_the_database(cli: Cli, tmp_path: Path) -> None:
    cli("publish", "math", "--run", "run")
    cli("export", "math", "--format", "jsonl", "--out", str(tmp_path / "a.jsonl"))

    other = Cli(tmp_path / "other.db")
    assert "imported math@1" in other("import", str(tmp_path / "a.jsonl"), "--name", "math").out
    assert other.json("verify")["ok"] is True


@pytest.mark.parametrize(
    ("to", "option", "value"),
    [
        ("jsonl", "--push", "me/math"),
        ("parquet", "--layout", "flat"),
        ("hf", "--max-prompt-tokens", "512"),
        ("verl", "--license", "mit"),
        ("verl", "--push", "me/math"),
    ],
)
def test_options_of_another_format_are_refused(
    cli: Cli, tmp_path: Path, to: str, option: str, value: str
) -> None:
    cli("publish", "math", "--run", "run")

    result = cli("export", "math", "--format", to, "--out", str(tmp_path / "out"), option, value, code=2)

    assert f"cannot be combined with --format {to}" in " ".join(result.err.split())
    assert not (tmp_path / "out").exists()


def test_export_for_verl(cli: Cli, tmp_path: Path) -> None:
    cli("publish", "math", "--run", "run", "--include", "unverified")

    grouped = cli.json("export", "math", "--format", "verl", "--out", str(tmp_path / "verl"))
    assert (grouped["layout"], grouped["rows"], grouped["neighbors"]) == ("grouped", 3, 4)
    assert grouped["neighbors_by_verdict"] == {"accepted": 3, "unverified": 1}
    manifest = json.loads((tmp_path / "verl" / "manifest.json").read_text(encoding="utf-8"))
    # The name under which stock verl compares boxed answers.
    assert manifest["data_source"] == "DigitalLearningGmbH/MATH-lighteval"
    options = (
        "--format",
        "verl",
        "--layout",
        "flat",
        "--overwrite",
        "--instruction",
        "",
        "--system",
        "Be brief.",
    )
    more = ("--chat-template-kwargs", '{"enable_thinking": false}', "--data-source", "toy")
    text = cli("export", "math", "--out", str(tmp_path / "verl"), *options, *more).out
    assert "(flat, 7 rows)" in text
    manifest = json.loads((tmp_path / "verl" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["set"] == "math@1"
    assert manifest["data_source"] == "toy"
    assert manifest["prompt"]["instruction"] == ""
    assert manifest["prompt"]["system"] == "Be brief."
    assert manifest["prompt"]["chat_template_kwargs"] == {"enable_thinking": False}


def test_long_prompts_for_verl_need_attention(cli: Cli, tmp_path: Path) -> None:
    with open_empty(tmp_path / "long.db") as database:
        add_run(database, "run", [("Halve 8.", "4", [Proposed("Half of 8? " * 400), Proposed("Half of 8?")])])
    long = Cli(tmp_path / "long.db")
    long("publish", "math", "--run", "run")

    result = long("export", "math", "--format", "verl", "--out", str(tmp_path / "verl"), code=3)

    assert "neighbors     1: 1 accepted" in result.out
    assert "1 neighbors and 0 questions" in result.err


def test_chat_template_kwargs_must_be_json(cli: Cli, tmp_path: Path) -> None:
    cli("publish", "math", "--run", "run")
    result = cli(
        "export",
        "math",
        "--format",
        "verl",
        "--out",
        str(tmp_path / "v"),
        "--chat-template-kwargs",
        "x",
        code=2,
    )

    assert "not a JSON object" in " ".join(result.err.split())
