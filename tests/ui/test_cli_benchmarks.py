"""`tagrpo eval benchmarks` as a user meets it."""

import json
from pathlib import Path

import pytest
from command_line import squeezed
from json_rows import write_rows

from evaluator.benchmarks.catalogue import BENCHMARKS
from service.errors import PrerequisiteError
from service.questions import hub


@pytest.fixture
def cli(cli):
    return cli.within("eval", "benchmarks")


def write(name: str, *golds: str) -> str:
    rows = [{"question": f"What is {n}+{n}?", "answer": gold} for n, gold in enumerate(golds)]
    write_rows(name, *rows)
    return name


def test_the_list_names_every_benchmark(cli):
    lines = {line.split()[0]: line for line in cli().out.splitlines()}
    assert {"name", *BENCHMARKS} <= set(lines)  # long lines are wrapped
    for word in ("198", "choice", "Idavidrein/gpqa", "yes", "CC-BY-4.0"):
        assert word in lines["gpqa-diamond"]
    rows = {row["name"]: row for row in cli.json()["benchmarks"]}
    assert rows["gsm8k"]["revision"] == "e53f048856ff4f594e959d75785d2c2d37b678ee"
    assert "2110.14168" in rows["gsm8k"]["citation"]
    assert "not pinned" in rows["olympiadbench"]["note"]


def test_golds_are_checked(cli):
    code, out, err = cli(write("mine.jsonl", "0", "2", "4"))
    assert (code, "attention" in err) == (0, False)
    assert {"name mine", "ok yes", "problems 3", "content not checked"} <= {*squeezed(out)}
    _, out, err = cli.warned(write("mine.jsonl", "0", ""), write("fine.jsonl", "0"))
    assert {"ok no", "ok yes"} <= {*squeezed(out)}
    assert "unknown (no answer)" in out
    assert "failed checks: mine.jsonl" in err


def test_other_rows_than_expected_need_attention(cli):
    write("a.jsonl", "0", "2")
    assert "AIME 2024 has 30 problems, but this source has 2" in cli.warned("aime24", "--from", "a.jsonl").out
    code, out, _ = cli("aime24", "--from", "a.jsonl", "--allow-changed")
    assert (code, "content changed" in squeezed(out)) == (0, True)


def test_json_holds_source_and_failures(cli, monkeypatch):
    def unreachable(*_: object, **__: object) -> None:
        raise PrerequisiteError("the Hub cannot be reached.")

    monkeypatch.setattr(hub, "open_dataset", unreachable)
    write("mine.jsonl", "0", "")
    code, out, _ = cli("mine.jsonl", "aime24", "--json")
    mine, aime = json.loads(out)["benchmarks"]
    assert (code, mine["ok"], aime["ok"]) == (3, False, False)
    assert mine["source"]["file"] == "mine.jsonl"
    assert [failure["row"] for failure in mine["gold_failures"]] == [1]
    assert aime["problem"] == "the Hub cannot be reached. Or pass a copy of aime24 with --from FILE."
    code, out, _ = cli("--check", "--json")
    assert (code, len(json.loads(out)["benchmarks"])) == (3, len(BENCHMARKS))


def test_bad_usage_exits_with_2(cli):
    cli.refuses(
        {
            "aime2024": "Did you mean aime24?",
            "aime24 --from none.jsonl": "no such file",
            "--from none.jsonl": "cannot match 1 --from to ",
            "aime24 aime25 --from a.jsonl": "match 1 --from to 2 benchmarks",
            "none.toml": "cannot be read",
        }
    )


def test_rows_of_gpqa_are_not_printed(cli):
    secret = "a secret question"
    header = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3"
    rows = [f"{secret} {n},right{n},b,c,d" for n in range(198)]
    Path("gpqa_diamond.csv").write_text("\n".join([header, *rows]) + "\n")
    code, out, err = cli("gpqa-diamond", "--from", "gpqa_diamond.csv")
    assert (code, "GPQA" in err, secret in out + err) == (0, False, False)
    assert {"problems 198", "content not checked", "ok yes"} <= {*squeezed(out)}
