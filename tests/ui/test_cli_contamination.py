"""`tagrpo questions contamination` as a user meets it."""

import json
from pathlib import Path

import pytest
from runs import Proposed, add_run

from service.database import Database

HENS = "A farmer has 12 hens and each hen lays 3 eggs a week. How many eggs are laid in 4 weeks?"
TRAINS = "Two trains leave at noon, 300 km apart, at 60 and 90 km per hour. When do they meet?"


@pytest.fixture
def cli(cli):
    """Return `tagrpo` in a folder with the question set "mine"."""
    write("mine.jsonl", (TRAINS, "2 pm"), (HENS, "144"))
    cli("questions", "import", "mine.jsonl")
    return cli


def write(name: str, *rows: tuple[str, str]) -> str:
    lines = [json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in rows]
    Path(name).write_text("".join(lines), encoding="utf-8")
    return name


def checked() -> list[tuple[str, int, int]]:
    from evaluator.benchmarks.loading import load_benchmark
    from evaluator.reports.layout import overlaps_with

    with Database.open("tagrpo.db") as db, db.read() as session:
        return overlaps_with(session, load_benchmark("bench.jsonl").problems_hash)


def test_repeated_problems_are_listed_without_their_texts(cli):
    write("bench.jsonl", (HENS.replace("12", "$12$"), "144"), ("What is 1+1?", "2"), (TRAINS, "2 pm"))
    command = ("questions", "contamination", "mine", "--benchmark", "bench.jsonl")
    _, out, err = cli.warned(*command)
    assert "warning: 2 benchmark problems repeated" in err
    assert "farmer" not in out
    assert "exact=2, fuzzy=0, n-gram=0, variant=0" in out
    text = cli(*command, "--json")[1]
    pairs = json.loads(text)["pairs"]
    found = [(pair["row"], pair["problem_row"], pair["measure"], pair["score"]) for pair in pairs]
    assert found == [(1, 0, "exact", 100.0), (0, 2, "exact", 100.0)]
    assert "farmer" not in text
    assert checked() == [("mine", 2, 0)]


def test_thresholds_are_options(cli):
    write("bench.jsonl", (f"{HENS} Show every step of your work and check it.", "144"))
    command = ["questions", "contamination", "mine", "--benchmark", "bench.jsonl"]
    cli.ok(*command, "--threshold", "0.9")
    cli.warned(*command, "--threshold", "0.5")
    cli.ok(*command, "--ngram", "40")


def test_neighbors_are_checked_beside_their_questions(cli):
    neighbor = "How many eggs are laid in 4 weeks by 12 hens, if each hen of the farm lays 3 eggs a week?"
    with Database.open("tagrpo.db") as db:
        add_run(db, "run", [(HENS, "144", [Proposed(neighbor)])])
    cli.ok("sets", "publish", "farm", "--run", "run")
    write("bench.jsonl", (neighbor, "144"))
    out = cli.warned(
        "questions", "contamination", "mine", "--benchmark", "bench.jsonl", "--neighbors", "farm", "--json"
    ).out
    checks = {check["set"]: check for check in json.loads(out)["checks"]}
    assert (checks["mine"]["repeated_problems"], checks["farm@1"]["repeated_problems"]) == (0, 1)
    assert checked() == [("farm@1", 1, 0), ("mine", 0, checked()[1][2])]


def test_bad_usage_exits_with_2(cli):
    cli.within("questions", "contamination").refuses(
        {
            "none --benchmark mine.jsonl": 'no question set "none"',
            "mine --benchmark aime2024": 'no benchmark "aime2024"',
            "mine --benchmark aime24 --from mine.jsonl": "AIME 2024 has 30 problems, but this source has 2",
            "mine --benchmark aime24 --benchmark aime25 --from a": "match 1 --from to 2 benchmarks",
            "mine --benchmark mine.jsonl --ngram 0": "--ngram",
            "mine --benchmark mine.jsonl --neighbors x": "there is no neighbor set 'x'",
        }
    )
